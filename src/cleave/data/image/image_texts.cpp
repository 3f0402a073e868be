#include "cleave/data/image/image_texts.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "cleave/base/check.h"
#include "cleave/base/shallow_json.h"
#include "cleave/data/token_stream.h"

namespace cleave::data {
namespace {

constexpr std::string_view kImageMark = "<image>";

/// Where nothing says how turns are marked: each is a line.
const ChatTemplate& plain_turns() {
  static const ChatTemplate plain{.user = "{content}\n", .assistant = "{content}\n"};
  return plain;
}

/// LLaVA's words for who speaks.
std::string role_of(const std::string& from, std::string_view where) {
  if (from == "human" || from == "user") return "user";
  if (from == "gpt" || from == "assistant") return "assistant";
  require(from == "system", where, " has a turn from \"", from,
          "\"; known are human, gpt and system");
  return from;
}

std::string image_marks(std::int64_t images) {
  std::string marks;
  for (std::int64_t i = 0; i < images; ++i) marks += kImageMark;
  return marks;
}

/// The turns of a conversation, or what a caption says of `images` images.
std::vector<ChatMessage> messages_of(const std::string& text, std::int64_t images,
                                     std::string_view where) {
  const auto json = parse_shallow_or_discard<nlohmann::json>(text);
  const bool conversation = json.is_array() && !json.empty() && json[0].is_object() &&
                            json[0].contains("from") && json[0].contains("value");
  if (!conversation) {
    require(!text.empty(), where, " has no text that could be learned");
    return {{"user", image_marks(images)}, {"assistant", text}};
  }
  std::vector<ChatMessage> messages;
  for (const auto& turn : json)
    messages.push_back(
        {role_of(turn.at("from").get<std::string>(), where), turn.at("value").get<std::string>()});
  return messages;
}

/// A text between images.
struct TextPart {
  std::string text;
  std::vector<TrainedSpan> trained;
};

/// The parts of `chat`, between which images stand; one more than there are images.
std::vector<TextPart> split_at_images(const ChatText& chat) {
  std::vector<TextPart> parts;
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = std::min(chat.text.find(kImageMark, begin), chat.text.size());
    TextPart& part = parts.emplace_back();
    part.text = chat.text.substr(begin, end - begin);
    for (const TrainedSpan& span : chat.trained) {
      const std::size_t first = std::clamp(span.begin, begin, end);
      const std::size_t last = std::clamp(span.end, begin, end);
      if (last > first) part.trained.push_back({first - begin, last - begin});
    }
    if (end == chat.text.size()) return parts;
    begin = end + kImageMark.size();
  }
}

void check_marks(const std::vector<TextPart>& parts, std::int64_t images, std::string_view where) {
  require(std::ssize(parts) == images + 1, where, " has ", parts.size() - 1, " image tokens (",
          kImageMark, ") and ", images, " images; give one image for each");
}

/// The tokens of each part.
std::vector<std::vector<std::uint32_t>> tokens_of_parts(const std::vector<TextPart>& parts,
                                                        const Tokenizer& tokenizer) {
  std::vector<std::string_view> texts;
  std::vector<std::vector<TrainedSpan>> trained;
  for (const TextPart& part : parts) {
    texts.push_back(part.text);
    trained.push_back(part.trained);
  }
  return chat_tokens(texts, trained, tokenizer, 1);
}

}  // namespace

PlacedText image_prompt(const std::string& text, std::int64_t images, const TextReading& reading,
                        const ImageQuery& query) {
  const std::string where = "the prompt";
  const bool marked = text.find(kImageMark) != std::string::npos;
  const std::vector<ChatMessage> turns = {{"user", marked ? text : image_marks(images) + text},
                                          {"assistant", ""}};
  ChatText chat = chat_text(turns, reading.chat == nullptr ? plain_turns() : *reading.chat, where);
  chat.text.resize(chat.trained.back().begin);
  chat.trained.clear();
  const std::vector<TextPart> parts = split_at_images(chat);
  check_marks(parts, images, where);
  const auto bytes = reading.tokenizer == nullptr ? open_tokenizer("bytes") : nullptr;
  PlacedText placed;
  std::int32_t row = 0;
  for (const auto& part :
       tokens_of_parts(parts, reading.tokenizer == nullptr ? *bytes : *reading.tokenizer)) {
    for (const std::uint32_t token : part)
      placed.tokens.push_back(static_cast<std::int32_t>(token & ~kUntrained));
    placed.places.resize(placed.tokens.size(), ImageTexts::kNoPlace);
    if (row == images * query.rows) continue;
    for (std::int64_t i = 0; i < query.rows; ++i) {
      placed.tokens.push_back(query.token);
      placed.places.push_back(row++);
    }
  }
  return placed;
}

ImageTexts::ImageTexts(const std::filesystem::path& path, const Query& query,
                       const TextReading& reading)
    : set_(path), patches_(set_, query.images), rows_(query.images.rows) {
  check_images(query);
  const auto bytes = reading.tokenizer == nullptr ? open_tokenizer("bytes") : nullptr;
  const Tokenizer& tokenizer = reading.tokenizer == nullptr ? *bytes : *reading.tokenizer;
  const ChatTemplate& how = reading.chat == nullptr ? plain_turns() : *reading.chat;
  for (std::int64_t i = 0; i < size(); ++i) {
    const std::string where = detail::concat("sample ", i, " of ", path.string());
    const std::int64_t images = this->images(i);
    const std::vector<TextPart> parts =
        split_at_images(chat_text(messages_of(set_.read_text(i), images, where), how, where));
    check_marks(parts, images, where);
    const auto tokens = tokens_of_parts(parts, tokenizer);
    for (std::size_t k = 0; k < tokens.size(); ++k) {
      if (k > 0) add_image(static_cast<std::int64_t>(k) - 1, query.images);
      add(tokens[k]);
    }
    end_sample(where, query);
    first_image_.push_back(first_image_.back() + images);
  }
}

void ImageTexts::check_images(const Query& query) const {
  for (std::int64_t i = 0; i < size(); ++i) {
    require(images(i) <= query.config.images, "sample ", i, " of ", path().string(), " has ",
            images(i), " images, and data.images is ", query.config.images, "; raise it to ",
            set_.description().capacity);
  }
}

void ImageTexts::add(const std::vector<std::uint32_t>& part) {
  tokens_.insert(tokens_.end(), part.begin(), part.end());
  places_.resize(tokens_.size(), kNoPlace);
}

void ImageTexts::add_image(std::int64_t index, const ImageQuery& query) {
  for (std::int64_t row = 0; row < query.rows; ++row) {
    tokens_.push_back(static_cast<std::uint32_t>(query.token) | kUntrained);
    places_.push_back(static_cast<std::int32_t>(index * query.rows + row));
  }
}

void ImageTexts::end_sample(const std::string& where, const Query& query) {
  const auto own = std::span(tokens_).subspan(static_cast<std::size_t>(ends_.back()));
  const std::int64_t length = std::ssize(own);
  require(length >= 2, where, " has ", length, " tokens, and one that follows another is needed");
  require(length - 1 <= query.sequence, where, " has ", length - 1,
          " tokens, with those of its images, and train.sequence is ", query.sequence,
          "; raise it, or leave the sample out");
  for (const std::uint32_t token : own) {
    require((token & ~kUntrained) < query.vocabulary, where, " has the token ", token & ~kUntrained,
            ", and model.vocab is ", query.vocabulary, "; raise it");
  }
  const auto learned = std::ranges::count_if(
      own.subspan(1), [](std::uint32_t token) { return (token & kUntrained) == 0; });
  targets_.push_back(targets_.back() + learned);
  ends_.push_back(std::ssize(tokens_));
}

std::int64_t ImageTexts::image_values(std::string_view input) const {
  const std::int64_t feature = feature_of(input);
  if (feature < 0) return room();
  CLEAVE_CHECK(features_ != nullptr, "there are no ", input);
  return features_->shape().values[static_cast<std::size_t>(feature)];
}

void ImageTexts::read(std::int64_t sample, std::string_view input, const SampleRow& row) const {
  if (feature_of(input) >= 0) {
    const auto values = static_cast<std::size_t>(image_values(input));
    CLEAVE_CHECK(row.values.size() >= static_cast<std::size_t>(images(sample)) * values,
                 row.values.size());
    for (std::int64_t image = 0; image < images(sample); ++image)
      features_->read(first_image_[sample] + image, feature_of(input),
                      row.values.subspan(image * values, values));
    return;
  }
  if (input == "patches") {
    const auto values = static_cast<std::size_t>(set_.description().image_bytes());
    CLEAVE_CHECK(row.values.size() >= static_cast<std::size_t>(images(sample)) * values,
                 row.values.size());
    for (std::int64_t image = 0; image < images(sample); ++image) {
      SampleRow own = row;
      own.values = row.values.subspan(image * values, values);
      patches_.read(set_, sample, image, own);
    }
    return;
  }
  const std::int64_t length = ends_[sample + 1] - ends_[sample] - 1;
  const bool targets = input == "targets";
  const std::uint32_t* tokens = tokens_.data() + ends_[sample] + (targets ? 1 : 0);
  const std::int32_t* places = places_.data() + ends_[sample];
  CLEAVE_CHECK(std::ssize(row.ids) >= length, row.ids.size());
  if (input == "places") {
    std::transform(places, places + length, row.ids.begin(), [&](std::int32_t place) {
      return place == kNoPlace ? place : place + static_cast<std::int32_t>(row.images * rows_);
    });
    std::ranges::fill(row.ids.subspan(length), kNoPlace);
    return;
  }
  CLEAVE_CHECK(targets || input == "tokens", "texts with images have no ", input);
  for (std::int64_t t = 0; t < length; ++t) {
    const bool left_out = targets && (tokens[t] & kUntrained) != 0;
    row.ids[t] = left_out ? kNoTarget : static_cast<std::int32_t>(tokens[t] & ~kUntrained);
  }
  std::ranges::fill(row.ids.subspan(length), targets ? kNoTarget : 0);
}

}  // namespace cleave::data
