#include "cleave/checkpoint/reader.h"

#include <algorithm>
#include <set>

#include "cleave/base/check.h"
#include "cleave/base/hash.h"
#include "cleave/base/tensor_sum.h"

namespace cleave::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kReadBytes = std::size_t{1} << 20;

std::uint64_t hash_of_text(const std::string& text) {
  return hash_of(std::as_bytes(std::span(text)));
}

/// Whether a file is one that other tools read beside the weights; a run does without it.
bool is_added(const Manifest::Entry& entry) {
  return entry.file != kModelFile && entry.file != kOptimizerFile && entry.file != kStateFile;
}

/// Throws UserError unless every file that a run needs is there in its full size, and the state has
/// its checksum. Lists only the files that are wanted.
Manifest read_complete_manifest(const fs::path& directory, Load what) {
  Manifest manifest = read_manifest(directory / kManifestFile);
  for (const std::string_view name : {kModelFile, kOptimizerFile, kStateFile}) {
    require(std::ranges::count(manifest.files, name, &Manifest::Entry::file) == 1,
            (directory / kManifestFile).string(), " does not list ", name,
            "; use another checkpoint");
  }
  if (what == Load::WeightsOnly)
    std::erase_if(manifest.files, [](const auto& entry) { return entry.file == kOptimizerFile; });
  for (const Manifest::Entry& entry : manifest.files) {
    if (is_added(entry)) continue;
    const fs::path path = directory / entry.file;
    require(fs::exists(path), path.string(), " is missing; use another checkpoint");
    const std::int64_t bytes = File::open(path).size();
    require(bytes == entry.bytes, path.string(), " has ", bytes, " bytes instead of ", entry.bytes,
            "; use another checkpoint");
    require(entry.file != kStateFile || hash_of_text(read_text(path)) == entry.head, path.string(),
            " has a wrong checksum");
  }
  return manifest;
}

/// Throws UserError if the header is sound but not the one that was saved.
void check_header(const SafetensorsFile& file, const Manifest& manifest) {
  for (const Manifest::Entry& entry : manifest.files) {
    require(entry.file != file.path().filename() || hash_of_text(file.header().text) == entry.head,
            file.path().string(), " has a header other than the saved one");
  }
}

std::uint64_t sum_in_file(const SafetensorsFile& file, const TensorEntry& tensor) {
  std::vector<std::byte> buffer(kReadBytes);
  std::uint64_t sum = 0;
  for (std::int64_t done = 0; done < tensor.bytes();) {
    const auto count = std::min<std::int64_t>(kReadBytes, tensor.bytes() - done);
    const auto piece = std::span(buffer).first(count);
    file.read_bytes(tensor.offset + done, piece);
    sum += tensor_sum(piece, done / 4);
    done += count;
  }
  return sum;
}

void verify_tensors(const SafetensorsFile& file, const Manifest::Entry& entry,
                    std::vector<std::string>& problems) {
  std::set<std::string_view> listed;
  for (const Manifest::Tensor& tensor : entry.tensors) listed.insert(tensor.name);
  for (const TensorEntry& tensor : file.header().tensors) {
    if (listed.contains(tensor.name)) continue;
    problems.push_back(detail::concat(file.path().string(), " has tensor \"", tensor.name,
                                      "\", of which the manifest has no checksum"));
  }
  for (const auto& [name, sum] : entry.tensors) {
    const TensorEntry* tensor = file.find(name);
    if (tensor == nullptr || tensor->type != StoredType::F32) {
      problems.push_back(detail::concat(file.path().string(), " has no f32 tensor \"", name, "\""));
    } else if (sum_in_file(file, *tensor) != sum) {
      problems.push_back(
          detail::concat(file.path().string(), " has tensor \"", name, "\" with a wrong checksum"));
    }
  }
}

void verify_added(const fs::path& file, const Manifest::Entry& entry,
                  std::vector<std::string>& problems) {
  if (!fs::exists(file)) {
    problems.push_back(file.string() + " is missing");
  } else if (hash_of_text(read_text(file)) != entry.head) {
    problems.push_back(file.string() + " has a wrong checksum");
  }
}

void expect_tensor(const SafetensorsFile& file, const std::string& name, const Shape& shape) {
  const TensorEntry* tensor = file.find(name);
  require(tensor != nullptr, file.path().string(), " has no tensor \"", name,
          "\"; it was saved from a model of another architecture");
  require(same_rows(tensor->shape, shape), file.path().string(), " has tensor \"", name,
          "\" of shape ", to_string(tensor->shape), ", but this model needs ", to_string(shape),
          "; it was saved from a model of another architecture");
}

void read_tensor(const SafetensorsFile& file, const std::string& name, std::int64_t first,
                 std::span<float> elements) {
  const TensorEntry* tensor = file.find(name);
  CLEAVE_CHECK(tensor != nullptr, name, " is not in ", file.path().string());
  file.read(*tensor, first, elements);
}

}  // namespace

CheckpointReader::CheckpointReader(const fs::path& directory, Load what)
    : path_(directory),
      what_(what),
      foreign_(is_foreign(directory)),
      manifest_(foreign_ ? Manifest{} : read_complete_manifest(directory, what)),
      state_(foreign_ ? CheckpointState{} : read_state(directory / kStateFile)),
      model_(directory) {
  require(
      !foreign_ || what == Load::WeightsOnly, directory.string(),
      " was written by another tool and has no state of an optimizer to go on with; begin a run "
      "with its weights: model.from or --init-from");
  for (const SafetensorsFile& file : model_.files()) check_header(file, manifest_);
  if (what == Load::WeightsOnly) return;
  optimizer_.emplace(directory / kOptimizerFile);
  check_header(*optimizer_, manifest_);
}

bool CheckpointReader::is_foreign(const fs::path& directory) {
  const bool ours = fs::exists(directory / kManifestFile) || fs::exists(directory / kStateFile);
  return !ours && is_hugging_face(directory);
}

const SafetensorsFile& CheckpointReader::slots() const {
  CLEAVE_CHECK(optimizer_, "only weights were asked for");
  return *optimizer_;
}

void CheckpointReader::expect(const std::vector<Parameter>& parameters) const {
  model_.expect(parameters);
  if (what_ == Load::WeightsOnly) return;
  for (const Parameter& p : parameters) {
    for (const std::string& slot : p.slots)
      expect_tensor(slots(), tensor_name(p.name, slot), p.shape);
  }
}

void CheckpointReader::read_weight(std::string_view parameter, std::int64_t first,
                                   std::span<float> elements) const {
  model_.read_weight(parameter, first, elements);
}

void CheckpointReader::read_slot(std::string_view parameter, std::string_view slot,
                                 std::int64_t first, std::span<float> elements) const {
  read_tensor(slots(), tensor_name(parameter, slot), first, elements);
}

std::vector<std::string> verify_checkpoint(const fs::path& directory, Load what) {
  std::vector<std::string> problems;
  try {
    const CheckpointReader reader(directory, what);
    for (const Manifest::Entry& entry : reader.manifest().files) {
      if (is_added(entry)) {
        verify_added(directory / entry.file, entry, problems);
      } else if (entry.file != kStateFile) {
        verify_tensors(SafetensorsFile(directory / entry.file), entry, problems);
      }
    }
  } catch (const UserError& error) {
    problems.emplace_back(error.what());
  }
  return problems;
}

}  // namespace cleave::checkpoint
