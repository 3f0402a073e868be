#include "cleave/data/tokenize.h"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "cleave/base/check.h"
#include "cleave/base/threads.h"

namespace cleave::data {
namespace {

constexpr std::size_t kLongPart = std::size_t{1} << 20;  // bytes; longer documents are cut
constexpr std::size_t kSight = 256;  // bytes on each side of a cut that are compared

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// The end of a line between two letters, at `from` or after it; npos if there is none.
std::size_t quiet_line_end(std::string_view text, std::size_t from) {
  for (std::size_t at = text.find('\n', from); at != std::string_view::npos;
       at = text.find('\n', at + 1)) {
    if (at > 0 && at + 1 < text.size() && is_letter(text[at - 1]) && is_letter(text[at + 1])) {
      return at + 1;
    }
  }
  return std::string_view::npos;
}

}  // namespace

ParallelTokenizer::ParallelTokenizer(const Tokenizer& tokenizer, const TokenizeOptions& options)
    : options_(options) {
  for (int i = 0; i < options.threads; ++i) encoders_.push_back(tokenizer.encoder());
}

/// Whether the tokens around the cut are those of the two sides apart.
bool ParallelTokenizer::may_cut(std::string_view text, std::size_t at) {
  const auto is_inside = [&](std::size_t i) {  // of a character
    return i < text.size() && (static_cast<unsigned char>(text[i]) & 0xc0) == 0x80;
  };
  std::size_t begin = at - std::min(at, kSight);
  std::size_t end = std::min(at + kSight, text.size());
  while (begin < at && is_inside(begin)) ++begin;
  while (end > at && is_inside(end)) --end;
  std::vector<std::int32_t> whole;
  std::vector<std::int32_t> apart;
  encoders_[0]->append(text.substr(begin, end - begin), Framing::None, whole);
  encoders_[0]->append(text.substr(begin, at - begin), Framing::None, apart);
  encoders_[0]->append(text.substr(at, end - at), Framing::None, apart);
  return whole == apart;
}

void ParallelTokenizer::add_parts(std::string_view document, std::size_t index,
                                  std::vector<TextSpan>& parts) {
  const std::size_t first = parts.size();
  std::size_t begin = 0;
  while (document.size() - begin > kLongPart) {
    const std::size_t cut = quiet_line_end(document, begin + kLongPart);
    // Where one cut shows, as where a space is put before every text, the next would too.
    if (cut == std::string_view::npos || !may_cut(document, cut)) break;
    parts.push_back({.text = document.substr(begin, cut - begin), .document = index});
    begin = cut;
  }
  parts.push_back({.text = document.substr(begin), .document = index});
  const int begins = has(options_.framing, Framing::Begin) ? static_cast<int>(Framing::Begin) : 0;
  const int ends = has(options_.framing, Framing::End) ? static_cast<int>(Framing::End) : 0;
  parts[first].framing = static_cast<Framing>(begins);
  parts.back().framing = static_cast<Framing>(static_cast<int>(parts.back().framing) | ends);
}

void ParallelTokenizer::encode_parts(std::vector<TextSpan>& parts,
                                     const std::function<void(std::int64_t)>& progress) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  const std::size_t useful = std::clamp<std::size_t>(parts.size(), 1, encoders_.size());
  run_on_threads(static_cast<int>(useful), [&](int thread) {
    for (std::size_t i = next++; i < parts.size(); i = next++) {
      try {
        encoders_[static_cast<std::size_t>(thread)]->append(parts[i].text, parts[i].framing,
                                                            parts[i].tokens);
      } catch (...) {
        next = parts.size();  // the others need not go on
        throw;
      }
      const std::lock_guard lock(mutex);
      if (progress) progress(static_cast<std::int64_t>(parts[i].text.size()));
    }
  });
}

std::vector<std::vector<std::int32_t>> ParallelTokenizer::encode(
    std::span<const std::string_view> documents,
    const std::function<void(std::int64_t bytes)>& progress) {
  std::vector<TextSpan> parts;
  for (std::size_t i = 0; i < documents.size(); ++i) add_parts(documents[i], i, parts);
  encode_parts(parts, progress);
  std::vector<std::vector<std::int32_t>> tokens(documents.size());
  for (TextSpan& part : parts) {
    auto& all = tokens[part.document];
    if (all.empty()) {
      all = std::move(part.tokens);
    } else {
      all.insert(all.end(), part.tokens.begin(), part.tokens.end());
    }
  }
  for (auto& all : tokens) {
    if (options_.end_token && (all.empty() || all.back() != *options_.end_token)) {
      all.push_back(*options_.end_token);
    }
  }
  return tokens;
}

}  // namespace cleave::data
