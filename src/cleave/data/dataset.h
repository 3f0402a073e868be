#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/base/permutation.h"
#include "cleave/data/query.h"
#include "cleave/data/samples.h"
#include "cleave/data/token_stream.h"
#include "cleave/data/tokenizer/tokenizer.h"

namespace cleave::data {

class ImageTexts;

/// Samples of one or several sources, windows of text or images, in an order that is a function of
/// the step alone.
///
/// Samples are counted through the whole run, step by step; each run through all of a source (an
/// epoch) visits every one once, in an order of its own.
///
/// Several sources take turns: of every 10,000 samples each gets its share of the weights, at
/// places that are shuffled anew each time, and goes through its own.
class Dataset {
 public:
  struct Source {
    const Samples* samples = nullptr;  ///< borrowed
    std::int64_t first = 0;            ///< sample
    std::int64_t count = 0;
    double weight = 1;
  };

  Dataset(const std::vector<Source>& sources, const Query& query);

  /// How many windows all sources have together, one source after another.
  std::int64_t windows() const { return windows_; }

  /// [source] -> how many of the windows are its own.
  std::vector<std::int64_t> source_windows() const;

  /// Samples of a step.
  std::int64_t batch() const { return batch_; }

  /// How many tokens or labels the first `windows` windows have to predict.
  std::int64_t targets(std::int64_t windows) const;

  /// How many one window has to predict. Not all where some tokens are not to be predicted.
  std::int64_t window_targets(std::int64_t window) const;

  /// Whether the last window of a source may be filled up.
  Tail tail() const { return tail_; }

  /// The window that is sequence `index` of `step`'s batch; both from 0.
  std::int64_t window(std::int64_t step, std::int64_t index) const;

  /// The epoch of its source that sequence `index` of `step`'s batch is of.
  std::int64_t epoch(std::int64_t step, std::int64_t index) const;

  /// How often all windows of the source that is used most were seen after `steps` steps.
  double epochs(std::int64_t steps) const;

  /// How many images a window has: Samples::images().
  std::int64_t images(std::int64_t window) const;

  /// Bytes that reading needs to work in.
  std::int64_t room() const;

  /// How many values an image has in the input `input`: Samples::image_values().
  std::int64_t image_values(std::string_view input) const {
    return shares_.front().source.samples->image_values(input);
  }

  /// Fills `row` with what the input `input` of a model is in a window, counted in the order of the
  /// sources and their files.
  void read(std::int64_t window, std::string_view input, const SampleRow& row) const;

  /// "tokens" and "targets" of a window of text.
  void read_window(std::int64_t window, std::span<std::int32_t> x, std::span<std::int32_t> y) const;

 private:
  struct Share {
    Source source;
    Permutation order;
    std::int64_t before = 0;  // windows of the sources before this one
    std::int64_t begin = 0;   // of its turns among kTurns
    std::int64_t turns = 0;
  };

  const Share& share_of(std::int64_t window) const;
  std::int64_t window_of(const Share& share, std::int64_t sequence) const;
  /// The source that a sequence of the run is of, and its number among those of the source.
  std::pair<const Share*, std::int64_t> turn_of(std::int64_t step, std::int64_t index) const;

  std::vector<Share> shares_;
  std::optional<Permutation> turns_;  // where there are several sources
  std::int64_t windows_ = 0;
  std::int64_t batch_;
  Tail tail_;
};

/// What [data] names, opened and checked.
class Data {
 public:
  /// Throws UserError: see TokenStream, PatchedImages and ImageTexts; too short for one sequence; a
  /// token outside the vocabulary.
  explicit Data(const Query& query);

  const Dataset& training() const { return *training_; }

  /// A digest of everything that training and validation read: Samples::digest().
  std::uint64_t digest() const;

  /// What its owner tells of the samples of a path, which must have a weight of its own.
  Announced announce(std::size_t path) const;

  /// Bytes of the text that all of it is: of the text that was read, or that a tokenizer makes of
  /// files of tokens. Nothing if no tokenizer is known for those.
  std::optional<std::int64_t> text_bytes() const;

  /// All of them, to be predicted or not.
  std::int64_t tokens() const;

  /// Whether some of it was read as text.
  bool has_text() const;

  /// Null if data.validation is 0, or so small that not one sequence is held out.
  const Dataset* validation() const { return validation_ ? &*validation_ : nullptr; }

  /// The texts with images that training and validation read.
  const std::vector<ImageTexts*>& image_texts() const { return image_texts_; }

  /// [source of training()] -> how many of its windows are held out, in this order in validation().
  /// Empty where that is a set of its own.
  const std::vector<std::int64_t>& held_out() const { return held_out_; }

 private:
  const Samples& open(const std::vector<std::filesystem::path>& paths, const Query& query,
                      std::string_view key);

  const Samples& open_text(const std::vector<std::filesystem::path>& paths, const Query& query,
                           std::string_view key);
  const Samples& open_images(const std::filesystem::path& path, const Query& query);
  const Samples& open_source(std::size_t path, const Query& query);

  std::unique_ptr<const Tokenizer> tokenizer_;  // null: one token per byte
  const ChatTemplate* chat_ = nullptr;          // the query's, or a known one
  ChatTemplate own_chat_;
  std::vector<std::unique_ptr<const Samples>> samples_;  // at fixed addresses: datasets borrow them
  std::vector<const TokenStream*> streams_;              // of the samples that are text
  std::vector<ImageTexts*> image_texts_;                 // of those that have both
  std::int64_t beside_images_ = 0;                       // tokens of texts with images
  std::optional<Dataset> training_;
  std::optional<Dataset> validation_;
  std::vector<std::int64_t> held_out_;
};

/// What to tell a user who asked for a validation that will not happen; empty if it will, or if
/// none was asked for.
std::string validation_warning(const Data& data, const Query& query);

}  // namespace cleave::data
