#pragma once

#include "cleave/data/samples.h"
#include "cleave/data/token_stream.h"

namespace cleave::data {

/// Sequences cut from a stream. Window w is the tokens w·sequence … (w+1)·sequence, both ends
/// included: "tokens" is all but the last, "targets" all but the first; "documents" has the
/// position at which the document of each token begins. Where the tail is filled up, the last
/// window may be longer than what is left: zeros follow among tokens, kNoTarget among targets.
class TokenWindows : public Samples {
 public:
  TokenWindows(TokenStream stream, std::int64_t sequence, Tail tail)
      : stream_(std::move(stream)), sequence_(sequence), tail_(tail) {}

  const TokenStream& stream() const { return stream_; }

  std::int64_t size() const override;
  const std::filesystem::path& path() const override { return stream_.path(); }
  std::uint64_t digest() const override { return stream_.digest(); }
  std::int64_t targets(std::int64_t first, std::int64_t end) const override;
  void read(std::int64_t sample, std::string_view input, const SampleRow& row) const override;

 private:
  void read_begins(std::int64_t sample, std::span<std::int32_t> begins) const;

  TokenStream stream_;
  std::int64_t sequence_;
  Tail tail_;
};

}  // namespace cleave::data
