#include <array>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>

#include "byte_progress.h"
#include "data_command.h"
#include "files.h"
#include "json_text.h"
#include "streams.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cleave/base/check.h"
#include "cleave/base/threads.h"
#include "cleave/data/image/pack.h"

namespace cleave::app {
namespace {

struct PackFlags {
  std::string input;
  std::string out;
  std::string images;
  std::vector<std::int64_t> size;
  std::string fit = "crop";
  std::string filter = "bicubic";
  int channels = 3;
  std::string normalise = "half";
  std::vector<double> mean;
  std::vector<double> deviation;
  std::int64_t capacity = 1;
  int threads = all_threads();
  bool skip_bad = false;
  bool json = false;
};

/// Mean and deviation of each channel, of bytes as shares of 255.
struct Normalising {
  std::string_view name;
  std::array<double, 3> mean;
  std::array<double, 3> deviation;
};

constexpr Normalising kNormalising[] = {
    {"half", {0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}},
    {"imagenet", {0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}},
    {"clip", {0.48145466, 0.4578275, 0.40821073}, {0.26862954, 0.26130258, 0.27577711}},
};

// Messages that are printed one by one; the rest is counted.
constexpr std::int64_t kNamedComplaints = 10;

void set_normalising(const PackFlags& flags, data::SetDescription& set) {
  const auto channels = static_cast<std::size_t>(flags.channels);
  if (!flags.mean.empty() || !flags.deviation.empty()) {
    require(flags.mean.size() == channels && flags.deviation.size() == channels, "--mean has ",
            flags.mean.size(), " and --std ", flags.deviation.size(), " numbers, and there are ",
            flags.channels, " channels; give one number for each");
    for (const double mean : flags.mean)
      require(std::isfinite(mean), "--mean ", mean, " must be finite");
    for (const double deviation : flags.deviation)
      require(deviation > 0 && std::isfinite(deviation), "--std ", deviation,
              " must be above 0 and finite");
    set.mean = flags.mean;
    set.deviation = flags.deviation;
    return;
  }
  std::string names;
  for (const Normalising& row : kNormalising) {
    if (row.name == flags.normalise) {
      set.mean.assign(row.mean.begin(), row.mean.begin() + flags.channels);
      set.deviation.assign(row.deviation.begin(), row.deviation.begin() + flags.channels);
      return;
    }
    names += detail::concat(names.empty() ? "" : ", ", row.name);
  }
  throw UserError(detail::concat("there is no --normalise \"", flags.normalise, "\"; known are ",
                                 names, ", or give --mean and --std"));
}

data::PackOptions options_of(const PackFlags& flags) {
  data::PackOptions options;
  data::SetDescription& set = options.shape;
  constexpr std::int64_t kLargestSide = 16384;
  for (const std::int64_t side : flags.size)
    require(side >= 1 && side <= kLargestSide, "--size ", side, " must be between 1 and ",
            kLargestSide);
  set.height = flags.size[0];
  set.width = flags.size.back();
  require(flags.channels == 1 || flags.channels == 3, "--channels ", flags.channels,
          " must be 1 (grey) or 3 (colours)");
  set.channels = flags.channels;
  require(flags.capacity >= 1 && flags.capacity <= 4096, "--capacity ", flags.capacity,
          " must be between 1 and 4096");
  set.capacity = flags.capacity;
  set_normalising(flags, set);
  require(flags.fit == "crop" || flags.fit == "stretch", "--fit ", flags.fit,
          " must be crop or stretch");
  options.fit = flags.fit == "crop" ? data::Fit::Crop : data::Fit::Stretch;
  options.filter = &data::find_resize_filter(flags.filter);
  require(flags.threads >= 1 && flags.threads <= 4096, "--threads ", flags.threads,
          " must be between 1 and 4096");
  options.threads = flags.threads;
  options.bad = flags.skip_bad ? data::BadSamples::Skip : data::BadSamples::Stop;
  options.input = flags.input;
  return options;
}

void print_summary(const PackFlags& flags, const data::PackReport& report, double seconds) {
  const data::SetDescription& set = report.set;
  if (flags.json) {
    const nlohmann::json all = {{"out", flags.out},          {"samples", report.samples},
                                {"images", set.images},      {"width", set.width},
                                {"height", set.height},      {"channels", set.channels},
                                {"classes", set.labels},     {"skipped", set.skipped},
                                {"resumed", report.resumed}, {"seconds", seconds}};
    return write_file("", json_text(all));
  }
  const double fresh = static_cast<double>(report.samples + set.skipped - report.resumed);
  write_file("", fmt::format("{}: {} samples, {} images of {} x {} x {}, {} classes, {} skipped, "
                             "{:.0f} samples/s\n",
                             flags.out, report.samples, set.images, set.width, set.height,
                             set.channels, set.labels, set.skipped, fresh / seconds));
}

void pack(const PackFlags& flags) {
  const data::PackOptions options = options_of(flags);
  const auto begin = std::chrono::steady_clock::now();
  const auto source = data::open_source(flags.input, {.images = flags.images});
  ByteProgress progress("packing", source->size());
  std::int64_t complaints = 0;
  const data::PackReport report =
      data::pack_samples(*source, flags.out, options,
                         {.on_done = [&](std::int64_t samples) { progress.show(samples); },
                          .on_bad =
                              [&](const std::string& sentence) {
                                if (++complaints <= kNamedComplaints)
                                  complain("cleave: skipped: {}\n", sentence);
                              }});
  if (complaints > kNamedComplaints)
    complain("cleave: skipped {} more\n", complaints - kNamedComplaints);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  print_summary(flags, report, seconds.count());
}

}  // namespace

void add_pack_command(CLI::App& data) {
  auto flags = std::make_shared<PackFlags>();
  CLI::App* command =
      data.add_subcommand("pack", "Turn images with labels or texts into one indexed file.");
  command->footer(
      "Examples:\n"
      "  cleave data pack photos/ --size 224 --out photos.set\n"
      "  cleave data pack train-images-idx3-ubyte.gz --size 28 --channels 1 --out train.set\n"
      "  cleave data pack 'shards/{0000..0017}.tar' --size 224 --normalise clip --out pairs.set\n"
      "  cleave data pack chat.jsonl --images coco/ --size 336 --out chat.set\n"
      "Reads a folder per class, CSV (path, and label or caption), IDX, webdataset tar, and lists "
      "of conversations as LLaVA's. Run it again after an interruption: it goes on where it was.");
  command->add_option("input", flags->input, "A directory, .csv, IDX file, .tar, .json or .jsonl")
      ->required();
  command->add_option("--out", flags->out, "The packed set")->required();
  command->add_option("--size", flags->size, "Height and width of the images; one number for both")
      ->required()
      ->expected(1, 2);
  command->add_option("--images", flags->images,
                      "Where paths of images begin; default the directory of the list");
  command->add_option("--fit", flags->fit, "crop: cut off what is too long; stretch")
      ->capture_default_str();
  command->add_option("--filter", flags->filter, "bicubic, bilinear, box or lanczos")
      ->capture_default_str();
  command->add_option("--channels", flags->channels, "3: colours, 1: grey")->capture_default_str();
  command->add_option("--normalise", flags->normalise, "half, imagenet or clip")
      ->capture_default_str();
  command->add_option("--mean", flags->mean, "Of each channel, instead of --normalise")
      ->delimiter(',');
  command->add_option("--std", flags->deviation, "Of each channel, instead of --normalise")
      ->delimiter(',');
  command->add_option("--capacity", flags->capacity, "Most images of one sample")
      ->capture_default_str();
  command->add_option("--threads", flags->threads, "How many (default: all cores)");
  command->add_flag("--skip-bad", flags->skip_bad,
                    "Leave out samples that cannot be used, and name them");
  command->add_flag("--json", flags->json, "Print the summary as one JSON object");
  command->callback([flags] { pack(*flags); });
}

}  // namespace cleave::app
