#include "cleave/train/save/export.h"

#include "cleave/base/check.h"
#include "cleave/base/file.h"
#include "cleave/checkpoint/directory.h"
#include "cleave/data/tokenizer/tokenizer.h"
#include "cleave/model/hugging_face.h"
#include "cleave/spec/lora.h"
#include "cleave/train/save/adapters.h"
#include "cleave/train/save/model_files.h"
#include "cleave/train/save/saving.h"

namespace cleave::train {
namespace {

namespace fs = std::filesystem;

/// A directory in the making, which goes away unless it is published.
class DraftDirectory {
 public:
  explicit DraftDirectory(const fs::path& final) : final_(final), path_(final.string() + ".tmp") {
    std::error_code error;
    fs::remove_all(path_, error);
    fs::create_directories(path_, error);
    if (error) {
      throw IoError(detail::concat("cannot make ", path_.string(), ": ", error.message(),
                                   "; choose a directory that you may write to"));
    }
  }
  ~DraftDirectory() {
    std::error_code ignored;
    if (!published_) fs::remove_all(path_, ignored);
  }
  DraftDirectory(const DraftDirectory&) = delete;
  DraftDirectory& operator=(const DraftDirectory&) = delete;

  const fs::path& path() const { return path_; }
  void publish() {
    sync_directory(path_);
    fs::rename(path_, final_);
    published_ = true;
  }

 private:
  fs::path final_;
  fs::path path_;
  bool published_ = false;
};

/// The directory with the tokenizer: the checkpoint's own, or that of its run.
fs::path beside(const fs::path& checkpoint) {
  const fs::path run = checkpoint.parent_path().parent_path();
  const bool own = !data::find_tokenizer(checkpoint).empty() || data::find_tokenizer(run).empty();
  return own ? checkpoint : run;
}

}  // namespace

ExportReport export_model(const fs::path& path, const fs::path& directory,
                          const checkpoint::WeightFormat& format, Adapters adapters) {
  const fs::path found = checkpoint::find_checkpoint(path);
  const auto problems = checkpoint::verify_checkpoint(found, checkpoint::Load::WeightsOnly);
  if (!problems.empty()) throw UserError(problems.front());
  const fs::path target = directory.has_filename() ? directory : directory.parent_path();
  require(!fs::exists(target), target.string(),
          " exists already; choose a directory that does not");
  const checkpoint::CheckpointReader reader(found, checkpoint::Load::WeightsOnly);
  const Config saved = config_of(reader);
  const ModelShape& shape = saved.model;
  require(saved.lora.rank == 0 || adapters == Adapters::Merged, found.string(),
          " has adapters; pass --merge to add them to the weights, or take them alone from its "
          "directory ",
          kAdapterDirectory);
  Graph model = model::graph_of(shape, {.sequence = 1});
  const auto parameters = checkpoint_layout(model, shape).parameters();
  add_adapters(model, saved.lora);
  reader.expect(checkpoint_layout(model).parameters());
  const MergedWeights weights(saved, reader);
  const bool f32 = format.type == checkpoint::StoredType::F32;
  const std::string dtype = f32 ? "float32" : "bfloat16";
  model::config_json(shape, dtype);  // which says so if the model cannot have one
  const auto files = model_files(saved, dtype, beside(found));
  DraftDirectory draft(target);
  ExportReport report{.checkpoint = found};
  report.bytes = checkpoint::write_weights(
      draft.path(), parameters, format,
      [&](const checkpoint::Parameter& parameter, std::int64_t first, std::span<float> elements) {
        weights.read(parameter.name, first, elements);
      });
  for (const auto& [name, text] : files) write_text_atomically(draft.path() / name, text);
  draft.publish();
  for (const checkpoint::Parameter& parameter : parameters)
    report.parameters += parameter.shape.elements();
  return report;
}

}  // namespace cleave::train
