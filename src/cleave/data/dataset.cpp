#include "cleave/data/dataset.h"

#include <algorithm>
#include <bit>

#include "cleave/base/check.h"

namespace cleave::data {
namespace {

// Reading this many takes a fraction of a second; in larger data tokens are checked when used.
constexpr std::int64_t kCheckAtStart = std::int64_t{64} << 20;

std::unique_ptr<TokenStream> open(const std::filesystem::path& path, const Query& query,
                                  std::string_view key) {
  auto stream =
      std::make_unique<TokenStream>(path, query.config.dtype, query.vocabulary,
                                    StreamOptions{.key = key, .leave_out = query.leave_out});
  const std::int64_t sequence = query.sequence;
  require(stream->size() > sequence, path.string(), " has ", stream->size(),
          " tokens, but one sequence needs train.sequence + 1 = ", sequence + 1,
          "; give more data or shorten the sequence");
  if (stream->size() <= kCheckAtStart) stream->check_tokens();
  return stream;
}

std::int64_t windows_in(const TokenStream& stream, const Query& query) {
  return (stream.size() - 1) / query.sequence;
}

/// Windows held out from the end: the share rounded down, so at least one is left to train on.
std::int64_t held_out(std::int64_t windows, double share) {
  return static_cast<std::int64_t>(static_cast<double>(windows) * share);
}

}  // namespace

Dataset::Dataset(const TokenStream& stream, Range windows, const Query& query)
    : stream_(&stream),
      windows_(windows),
      sequence_(query.sequence),
      batch_(query.batch),
      order_(windows.count, query.seed, "data order") {
  CLEAVE_CHECK((windows.first + windows.count) * sequence_ < stream.size(), windows.count);
}

std::int64_t Dataset::window(std::int64_t step, std::int64_t index) const {
  CLEAVE_CHECK(step >= 0 && index >= 0 && index < batch_, step, ", ", index);
  const std::int64_t sequence = step * batch_ + index;
  return static_cast<std::int64_t>(order_.at(sequence / windows_.count, sequence % windows_.count));
}

void Dataset::read(std::int64_t step, std::int64_t index, std::span<std::int32_t> x,
                   std::span<std::int32_t> y) const {
  read_window(window(step, index), x, y);
}

void Dataset::read_window(std::int64_t window, std::span<std::int32_t> x,
                          std::span<std::int32_t> y) const {
  CLEAVE_CHECK(window >= 0 && window < windows_.count, window, " of ", windows_.count);
  const std::int64_t first = (windows_.first + window) * sequence_;
  for (const auto& [out, begin] : {std::pair(x, first), std::pair(y, first + 1)}) {
    CLEAVE_CHECK(out.empty() || std::ssize(out) == sequence_, out.size());
    stream_->read(begin, out);
  }
}

Data::Data(const Query& query) : stream_(open(query.config.path, query, "data.path")) {
  const std::int64_t windows = windows_in(*stream_, query);
  std::int64_t held = 0;
  if (const auto* path = std::get_if<std::string>(&query.config.validation)) {
    validation_stream_ = open(*path, query, "data.validation");
    validation_.emplace(*validation_stream_,
                        Dataset::Range{0, windows_in(*validation_stream_, query)}, query);
  } else {
    held = held_out(windows, std::get<double>(query.config.validation));
    if (held > 0) {
      validation_.emplace(*stream_, Dataset::Range{windows - held, held}, query);
    }
  }
  training_.emplace(*stream_, Dataset::Range{0, windows - held}, query);
}

std::uint64_t Data::digest() const {
  const std::uint64_t own = validation_stream_ ? validation_stream_->digest() : 0;
  return stream_->digest() ^ std::rotl(own, 1);
}

std::string validation_warning(const Data& data, const Query& query) {
  const auto* share = std::get_if<double>(&query.config.validation);
  const std::int64_t held = data.validation() == nullptr ? 0 : data.validation()->windows();
  const std::int64_t microbatch = query.microbatch;
  if (held >= microbatch || (share != nullptr && *share == 0)) return "";
  const std::string key = share == nullptr
                              ? std::string("data.validation has ")
                              : detail::concat("data.validation ", *share, " of ",
                                               data.training().windows() + held, " sequences is ");
  return detail::concat(key, held, ", and a microbatch has ", microbatch,
                        ": there is no validation; give more data or shorten train.sequence");
}

}  // namespace cleave::data
