#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "cleave/base/permutation.h"
#include "cleave/data/query.h"
#include "cleave/data/token_stream.h"

namespace cleave::data {

/// Sequences cut from a stream, in an order that is a function of the step alone.
///
/// Window w is the tokens w·sequence … (w+1)·sequence, both ends included: x is all but the last,
/// y all but the first. Sequences are counted through the whole run, step by step; each run through
/// all windows (an epoch) visits every window once, in an order of its own.
class Dataset {
 public:
  struct Range {
    std::int64_t first = 0;  ///< window
    std::int64_t count = 0;
  };

  /// Borrows the stream.
  Dataset(const TokenStream& stream, Range windows, const Query& query);

  std::int64_t windows() const { return windows_.count; }

  /// The window that is sequence `index` of `step`'s batch; both from 0.
  std::int64_t window(std::int64_t step, std::int64_t index) const;

  /// Fills x [sequence] and y [sequence] for sequence `index` of `step`'s batch; either may be
  /// empty, since the two ends of a pipeline need one each.
  void read(std::int64_t step, std::int64_t index, std::span<std::int32_t> x,
            std::span<std::int32_t> y) const;

  /// The same by window, in the order of the file: for validation.
  void read_window(std::int64_t window, std::span<std::int32_t> x, std::span<std::int32_t> y) const;

 private:
  const TokenStream* stream_;
  Range windows_;
  std::int64_t sequence_;
  std::int64_t batch_;
  Permutation order_;
};

/// What [data] names, opened and checked.
class Data {
 public:
  /// Throws UserError: see TokenStream; too short for one sequence; a token outside the vocabulary.
  explicit Data(const Query& query);

  const Dataset& training() const { return *training_; }

  /// Of everything that training and validation read: TokenStream::digest().
  std::uint64_t digest() const;

  /// Null if data.validation is 0, or so small that not one sequence is held out.
  const Dataset* validation() const { return validation_ ? &*validation_ : nullptr; }

 private:
  std::unique_ptr<TokenStream> stream_;             // at a fixed address: datasets borrow it
  std::unique_ptr<TokenStream> validation_stream_;  // null: held out from stream_
  std::optional<Dataset> training_;
  std::optional<Dataset> validation_;
};

/// What to tell a user who asked for a validation that will not happen; empty if it will, or if
/// none was asked for.
std::string validation_warning(const Data& data, const Query& query);

}  // namespace cleave::data
