#include "cleave/data/text_tokens.h"

#include <algorithm>
#include <iterator>

#include "cleave/base/threads.h"
#include "cleave/data/chat.h"
#include "cleave/data/tokenize.h"

namespace cleave::data {
namespace {

template <class Tokens>
void append_document(const Tokens& document, TextTokens& all) {
  all.starts.push_back(std::ssize(all.tokens));
  all.tokens.insert(all.tokens.end(), document.begin(), document.end());
}

/// Lines of JSON, one token per byte.
TextTokens bytes_of_lines(const Documents& documents) {
  TextTokens all;
  for (const std::string_view text : documents.texts()) {
    all.starts.push_back(std::ssize(all.tokens));
    for (char byte : text) all.tokens.push_back(static_cast<unsigned char>(byte));
    all.tokens.push_back('\n');
  }
  return all;
}

TextTokens tokens_of_chat(const Documents& documents, const Tokenizer* tokenizer) {
  const auto bytes = tokenizer == nullptr ? open_tokenizer("bytes") : nullptr;
  TextTokens all;
  for (const auto& one : chat_tokens(documents.texts(), documents.trained(),
                                     tokenizer == nullptr ? *bytes : *tokenizer, all_threads()))
    append_document(one, all);
  return all;
}

}  // namespace

TextTokens tokens_of(const Documents& documents, const Tokenizer* tokenizer) {
  if (documents.is_chat()) return tokens_of_chat(documents, tokenizer);
  if (tokenizer == nullptr) return bytes_of_lines(documents);
  ParallelTokenizer parallel(*tokenizer,
                             {.threads = all_threads(), .end_token = tokenizer->end_token()});
  TextTokens all;
  for (const auto& one : parallel.encode(documents.texts())) append_document(one, all);
  return all;
}

}  // namespace cleave::data
