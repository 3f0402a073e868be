#include "cleave/data/image/image_pairs.h"

#include <algorithm>

#include "cleave/base/check.h"

namespace cleave::data {

ImagePairs::ImagePairs(const std::filesystem::path& path, const Query& query,
                       const Tokenizer* tokenizer)
    : set_(path),
      patches_(set_, query.images),
      sequence_(query.sequence),
      end_(tokenizer == nullptr ? 0 : tokenizer->end_token().value_or(0)),
      before_({0}) {
  const auto bytes = tokenizer == nullptr ? open_tokenizer("bytes") : nullptr;
  const Tokenizer& reading = tokenizer == nullptr ? *bytes : *tokenizer;
  require(end_ < query.vocabulary, "a text ends with the token ", end_, ", and model.vocab is ",
          query.vocabulary, "; raise it");
  for (std::int64_t i = 0; i < size(); ++i) {
    const std::string where = detail::concat("sample ", i, " of ", path.string());
    const std::string caption = set_.read_text(i);
    require(set_.entry(i).images == 1 && !caption.empty(), where, " has ", set_.entry(i).images,
            " images and ", caption.empty() ? "no caption" : "a caption",
            "; a model of pairs needs one of each");
    for (const std::int32_t token : reading.encode(caption, Framing::Document)) {
      if (token == end_) continue;
      require(token < query.vocabulary, where, " has the token ", token, ", and model.vocab is ",
              query.vocabulary, "; raise it");
      tokens_.push_back(token);
    }
    before_.push_back(std::ssize(tokens_));
    const std::int64_t length = before_[i + 1] - before_[i] + 1;
    require(length <= sequence_, where, " has ", length, " tokens, and train.sequence is ",
            sequence_, "; raise it, or leave the sample out");
  }
}

void ImagePairs::read(std::int64_t sample, std::string_view input, const SampleRow& row) const {
  if (input == "patches") return patches_.read(set_, sample, 0, row);
  const std::int64_t length = before_[sample + 1] - before_[sample];
  if (input == "ends") {
    CLEAVE_CHECK(row.ids.size() == 1, row.ids.size());
    row.ids[0] = static_cast<std::int32_t>(row.images * sequence_ + length);
    return;
  }
  CLEAVE_CHECK(input == "tokens", "pairs have no ", input);
  CLEAVE_CHECK(std::ssize(row.ids) == sequence_, row.ids.size());
  std::copy_n(tokens_.begin() + before_[sample], length, row.ids.begin());
  std::ranges::fill(row.ids.subspan(static_cast<std::size_t>(length)), end_);
}

}  // namespace cleave::data
