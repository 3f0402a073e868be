#include "cleave/data/chat.h"

#include <algorithm>
#include <utility>

#include "cleave/base/check.h"
#include "cleave/data/tokenize.h"

namespace cleave::data {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

class ChatWriter {
 public:
  ChatWriter(const ChatTemplate& how, std::string_view where) : how_(how), where_(where) {
    made_.text = how.begin;
  }

  void add(const ChatMessage& message) {
    const std::string_view content = how_.trims ? trimmed(message.content) : message.content;
    if (message.role == "system" && how_.system.empty()) {
      waiting_.append(content).append("\n\n");
      return;
    }
    const std::string_view format = format_of(message.role);
    const TurnFormat turn(format);
    made_.text += turn.before;
    if (message.role == "user") made_.text += std::exchange(waiting_, {});
    const std::size_t begin = made_.text.size();
    made_.text.append(content).append(turn.after);
    if (message.role == "assistant") made_.trained.push_back({begin, made_.text.size()});
    made_.text += turn.rest;
  }

  ChatText take() {
    require(!made_.trained.empty(), where_,
            " has no turn of the assistant, so there is nothing to learn; leave it out");
    check_nothing_waits();
    return std::move(made_);
  }

  /// What the assistant reads before it speaks.
  std::string take_prompt() {
    check_nothing_waits();
    return std::move(made_.text).append(TurnFormat(how_.assistant).before);
  }

 private:
  void check_nothing_waits() const {
    require(waiting_.empty(), where_,
            " has a system message that no user message follows, and the template has no place for "
            "it alone");
  }

  std::string_view format_of(const std::string& role) const {
    if (role == "system") return how_.system;
    if (role == "user") return how_.user;
    require(role == "assistant", where_, " has a message of role \"", role,
            "\"; known are system, user and assistant");
    return how_.assistant;
  }

  const ChatTemplate& how_;
  std::string_view where_;
  ChatText made_;
  std::string waiting_;  ///< of the system, for the next user
};

std::size_t common_length(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

}  // namespace

ChatText chat_text(std::span<const ChatMessage> messages, const ChatTemplate& how,
                   std::string_view where) {
  ChatWriter writer(how, where);
  for (const ChatMessage& message : messages) writer.add(message);
  return writer.take();
}

std::string chat_prompt(std::span<const ChatMessage> messages, const ChatTemplate& how,
                        std::string_view where) {
  ChatWriter writer(how, where);
  for (const ChatMessage& message : messages) writer.add(message);
  return writer.take_prompt();
}

std::string chat_turn_end(const ChatTemplate& how) {
  return std::string(TurnFormat(how.assistant).after);
}

// Where a span begins among the tokens is where those of the text before it and those of all of it
// part. To look for it by bytes would need tokenizers that say where each token comes from.
std::vector<std::vector<std::uint32_t>> chat_tokens(
    std::span<const std::string_view> texts, std::span<const std::vector<TrainedSpan>> trained,
    const Tokenizer& tokenizer, int threads) {
  std::vector<std::string_view> parts;  // of each text: all of it, then up to each border
  for (std::size_t i = 0; i < texts.size(); ++i) {
    parts.push_back(texts[i]);
    for (const TrainedSpan& span : trained[i]) {
      parts.push_back(texts[i].substr(0, span.begin));
      parts.push_back(texts[i].substr(0, span.end));
    }
  }
  ParallelTokenizer parallel(tokenizer, {.threads = threads, .framing = Framing::None});
  const auto tokens = parallel.encode(parts);
  std::vector<std::vector<std::uint32_t>> marked;
  std::size_t next = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::vector<std::int32_t>& all = tokens[next++];
    auto& out = marked.emplace_back(all.begin(), all.end());
    std::vector<bool> learned(all.size());
    for (std::size_t s = 0; s < trained[i].size(); ++s, next += 2) {
      const std::size_t begin = common_length(tokens[next], all);
      const std::size_t end = common_length(tokens[next + 1], all);
      for (std::size_t t = begin; t < end; ++t) learned[t] = true;
    }
    for (std::size_t t = 0; t < all.size(); ++t)
      if (!learned[t]) out[t] |= kUntrained;
  }
  return marked;
}

}  // namespace cleave::data
