#include "cleave/data/dataset.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "cleave/base/check.h"
#include "cleave/data/announced.h"
#include "cleave/data/image/image_pairs.h"
#include "cleave/data/image/image_texts.h"
#include "cleave/data/image/patched_images.h"
#include "cleave/data/token_windows.h"

namespace cleave::data {
namespace {

constexpr std::int64_t kTurns = 10'000;

/// Windows held out from the end: the share rounded down, so at least one is left to train on.
std::int64_t windows_held_out(std::int64_t windows, double share) {
  return static_cast<std::int64_t>(static_cast<double>(windows) * share);
}

/// Where the turns of the sources end, in proportion to their weights.
std::vector<std::int64_t> turn_ends(const std::vector<Dataset::Source>& sources) {
  double total = 0;
  for (const Dataset::Source& source : sources) total += source.weight;
  std::vector<std::int64_t> ends;
  double sum = 0;
  std::int64_t last = 0;
  for (const Dataset::Source& source : sources) {
    sum += source.weight;
    ends.push_back(std::llround(sum / total * static_cast<double>(kTurns)));
    require(ends.back() > last, "the weight ", source.weight, " of ",
            source.samples->path().string(), " is less than 1/", kTurns,
            " of all; leave it out, or give it more");
    last = ends.back();
  }
  return ends;
}

}  // namespace

Dataset::Dataset(const std::vector<Source>& sources, const Query& query)
    : batch_(query.batch), tail_(query.tail) {
  const std::vector<std::int64_t> ends = turn_ends(sources);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const Source& source = sources[i];
    CLEAVE_CHECK(source.first + source.count <= source.samples->size(), source.count);
    const std::string name = i == 0 ? "data order" : detail::concat("data order ", i);
    const std::int64_t begin = i == 0 ? 0 : ends[i - 1];
    shares_.push_back(
        {source, Permutation(source.count, query.seed, name), windows_, begin, ends[i] - begin});
    windows_ += source.count;
  }
  if (sources.size() > 1) turns_.emplace(kTurns, query.seed, "data turns");
}

/// The window of one of the source's own sequences, which count from 0.
std::int64_t Dataset::window_of(const Share& share, std::int64_t sequence) const {
  const std::int64_t count = share.source.count;
  return share.before +
         static_cast<std::int64_t>(share.order.at(sequence / count, sequence % count));
}

std::pair<const Dataset::Share*, std::int64_t> Dataset::turn_of(std::int64_t step,
                                                                std::int64_t index) const {
  CLEAVE_CHECK(step >= 0 && index >= 0 && index < batch_, step, ", ", index);
  const std::int64_t sequence = step * batch_ + index;
  if (!turns_) return {&shares_[0], sequence};
  const std::int64_t round = sequence / kTurns;
  const auto turn = static_cast<std::int64_t>(turns_->at(round, sequence % kTurns));
  const Share& share = *(std::ranges::upper_bound(shares_, turn, {}, &Share::begin) - 1);
  return {&share, round * share.turns + turn - share.begin};
}

std::int64_t Dataset::window(std::int64_t step, std::int64_t index) const {
  const auto [share, sequence] = turn_of(step, index);
  return window_of(*share, sequence);
}

std::int64_t Dataset::epoch(std::int64_t step, std::int64_t index) const {
  const auto [share, sequence] = turn_of(step, index);
  return sequence / share->source.count;
}

double Dataset::epochs(std::int64_t steps) const {
  double most = 0;
  for (const Share& share : shares_) {
    const double turns = turns_ ? static_cast<double>(share.turns) / kTurns : 1.0;
    most = std::max(most, static_cast<double>(steps * batch_) * turns /
                              static_cast<double>(share.source.count));
  }
  return most;
}

std::int64_t Dataset::room() const {
  std::int64_t most = 0;
  for (const Share& share : shares_) most = std::max(most, share.source.samples->room());
  return most;
}

const Dataset::Share& Dataset::share_of(std::int64_t window) const {
  CLEAVE_CHECK(window >= 0 && window < windows_, window, " of ", windows_);
  return *(std::ranges::upper_bound(shares_, window, {}, &Share::before) - 1);
}

std::int64_t Dataset::images(std::int64_t window) const {
  const Share& share = share_of(window);
  return share.source.samples->images(share.source.first + window - share.before);
}

void Dataset::read(std::int64_t window, std::string_view input, const SampleRow& row) const {
  const Share& share = share_of(window);
  share.source.samples->read(share.source.first + window - share.before, input, row);
}

void Dataset::read_window(std::int64_t window, std::span<std::int32_t> x,
                          std::span<std::int32_t> y) const {
  read(window, "tokens", {.ids = x});
  read(window, "targets", {.ids = y});
}

std::int64_t Dataset::targets(std::int64_t windows) const {
  std::int64_t sum = 0;
  for (const Share& share : shares_) {
    const std::int64_t count =
        std::clamp<std::int64_t>(windows - share.before, 0, share.source.count);
    sum += share.source.samples->targets(share.source.first, share.source.first + count);
  }
  return sum;
}

std::int64_t Dataset::window_targets(std::int64_t window) const {
  const Share& share = share_of(window);
  const std::int64_t sample = share.source.first + window - share.before;
  return share.source.samples->targets(sample, sample + 1);
}

std::vector<std::int64_t> Dataset::source_windows() const {
  std::vector<std::int64_t> windows;
  for (const Share& share : shares_) windows.push_back(share.source.count);
  return windows;
}

const Samples& Data::open_text(const std::vector<std::filesystem::path>& paths, const Query& query,
                               std::string_view key) {
  TokenStream stream(paths, query.config.dtype, query.vocabulary,
                     StreamOptions{.key = key,
                                   .leave_out = query.leave_out,
                                   .tokenizer = tokenizer_.get(),
                                   .chat = chat_,
                                   .borders = query.config.borders});
  if (query.config.borders == Borders::Kept) stream.check_borders();
  const std::int64_t sequence = query.sequence;
  require(query.tail == Tail::FilledUp || stream.size() > sequence, stream.path().string(), " has ",
          stream.size(), " tokens, but one sequence needs train.sequence + 1 = ", sequence + 1,
          "; give more data or shorten the sequence");
  require(stream.size() > 1, stream.path().string(),
          " has one token, and nothing follows it that could be predicted; give more data");
  const auto border = [&](int process) {
    return static_cast<std::int64_t>(static_cast<double>(stream.size()) * process /
                                     query.processes);
  };
  stream.check_tokens(border(query.process), query.process + 1 == query.processes
                                                 ? stream.size()
                                                 : border(query.process + 1));
  auto windows = std::make_unique<TokenWindows>(std::move(stream), sequence, query.tail);
  streams_.push_back(&windows->stream());
  return *samples_.emplace_back(std::move(windows));
}

const Samples& Data::open_images(const std::filesystem::path& path, const Query& query) {
  if (query.images.classes > 0)
    return *samples_.emplace_back(std::make_unique<PatchedImages>(path, query.images));
  if (query.images.pairs) {
    auto pairs = std::make_unique<ImagePairs>(path, query, tokenizer_.get());
    beside_images_ += pairs->tokens();
    return *samples_.emplace_back(std::move(pairs));
  }
  auto texts = std::make_unique<ImageTexts>(path, query, TextReading{tokenizer_.get(), chat_});
  beside_images_ += texts->tokens();
  image_texts_.push_back(texts.get());
  return *samples_.emplace_back(std::move(texts));
}

const Samples& Data::open(const std::vector<std::filesystem::path>& paths, const Query& query,
                          std::string_view key) {
  if (query.images.side == 0) return open_text(paths, query, key);
  require(paths.size() == 1, key, " lists ", paths.size(),
          " packed sets without weights; give each of them a weight");
  return open_images(paths[0], query);
}

const Samples& Data::open_source(std::size_t path, const Query& query) {
  const std::string& name = query.config.path[path].path;
  if (path >= query.elsewhere.size() || !query.elsewhere[path])
    return open({name}, query, query.path_key);
  return *samples_.emplace_back(
      std::make_unique<AnnouncedSamples>(*query.elsewhere[path], "the owner of " + name));
}

Announced Data::announce(std::size_t path) const {
  return data::announce(*samples_.at(path));
}

Data::Data(const Query& query) {
  const std::string& name = query.config.tokenizer;
  if (!name.empty() && name != "bytes") tokenizer_ = open_tokenizer(name);
  const ChatTemplate& chat = query.config.chat;
  own_chat_ = chat;
  chat_ = !chat.assistant.empty() ? &own_chat_ : chat_template_of(tokenizer_.get());
  std::vector<Dataset::Source> sources;
  std::vector<std::filesystem::path> together;  // without weights the paths are one stream
  for (std::size_t i = 0; i < query.config.path.size(); ++i) {
    const DataPath& path = query.config.path[i];
    if (path.weight == 0) {
      together.emplace_back(path.path);
    } else {
      sources.push_back({.samples = &open_source(i, query), .weight = path.weight});
    }
  }
  if (sources.empty()) sources.push_back({.samples = &open(together, query, query.path_key)});
  std::vector<Dataset::Source> held;
  const auto* share = std::get_if<double>(&query.config.validation);
  for (Dataset::Source& source : sources) {
    const std::int64_t windows = source.samples->size();
    const std::int64_t out = share == nullptr ? 0 : windows_held_out(windows, *share);
    source.count = windows - out;
    if (share != nullptr) held_out_.push_back(out);
    if (out > 0) held.push_back({.samples = source.samples, .first = source.count, .count = out});
  }
  if (const auto* path = std::get_if<std::string>(&query.config.validation)) {
    const Samples& samples = open({*path}, query, "data.validation");
    held.push_back({.samples = &samples, .count = samples.size()});
  }
  if (!held.empty()) validation_.emplace(held, query);
  training_.emplace(sources, query);
}

namespace {

std::int64_t decoded_bytes(const TokenStream& stream, const Tokenizer& tokenizer) {
  std::vector<std::int32_t> tokens(std::size_t{1} << 16);
  std::int64_t sum = 0;
  for (std::int64_t first = 0; first < stream.size(); first += std::ssize(tokens)) {
    const auto count = std::min<std::int64_t>(std::ssize(tokens), stream.size() - first);
    const auto here = std::span(tokens).first(static_cast<std::size_t>(count));
    stream.read(first, here);
    sum += std::ssize(tokenizer.decode(here, Specials::Skip));
  }
  return sum;
}

}  // namespace

std::optional<std::int64_t> Data::text_bytes() const {
  if (beside_images_ > 0) return std::nullopt;
  std::int64_t sum = 0;
  for (const auto& stream : streams_) {
    const std::optional<std::int64_t> text = stream->text_bytes();
    if (!text && tokenizer_ == nullptr) return std::nullopt;
    sum += text ? *text : decoded_bytes(*stream, *tokenizer_);
  }
  return sum;
}

std::int64_t Data::tokens() const {
  std::int64_t sum = beside_images_;
  for (const auto& stream : streams_) sum += stream->size();
  return sum;
}

bool Data::has_text() const {
  return std::ranges::any_of(streams_, [](const auto& stream) { return stream->has_text(); });
}

std::uint64_t Data::digest() const {
  std::uint64_t all = 0;
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    all ^= std::rotl(samples_[i]->digest(), static_cast<int>(i % 64));
  }
  return all;
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
