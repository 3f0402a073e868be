#include "cleave/data/chat_template.h"

#include <algorithm>
#include <vector>

#include "cleave/base/check.h"
#include "cleave/data/tokenizer/tokenizer.h"

namespace cleave::data {
namespace {

constexpr std::string_view kContent = "{content}";
constexpr std::string_view kEnd = "{end}";

}  // namespace

TurnFormat::TurnFormat(std::string_view format) {
  const std::size_t content = format.find(kContent);
  CLEAVE_CHECK(content != std::string_view::npos, format, " has no place for what is said");
  before = format.substr(0, content);
  const std::string_view tail = format.substr(content + kContent.size());
  const std::size_t end = tail.find(kEnd);
  after = tail.substr(0, end);
  if (end != std::string_view::npos) rest = tail.substr(end + kEnd.size());
}

std::span<const ChatTemplate> chat_templates() {
  static const std::vector<ChatTemplate> all = {
      {.name = "chatml",
       .system = "<|im_start|>system\n{content}<|im_end|>\n",
       .user = "<|im_start|>user\n{content}<|im_end|>\n",
       .assistant = "<|im_start|>assistant\n{content}<|im_end|>{end}\n",
       .mark = "<|im_start|>"},
      {.name = "llama3",
       .begin = "<|begin_of_text|>",
       .system = "<|start_header_id|>system<|end_header_id|>\n\n{content}<|eot_id|>",
       .user = "<|start_header_id|>user<|end_header_id|>\n\n{content}<|eot_id|>",
       .assistant = "<|start_header_id|>assistant<|end_header_id|>\n\n{content}<|eot_id|>",
       .mark = "<|start_header_id|>",
       .trims = true},
      {.name = "mistral",
       .begin = "<s>",
       .user = "[INST] {content}[/INST]",
       .assistant = " {content}</s>",
       .mark = "[INST]"},
      {.name = "gemma",
       .begin = "<bos>",
       .user = "<start_of_turn>user\n{content}<end_of_turn>\n",
       .assistant = "<start_of_turn>model\n{content}<end_of_turn>{end}\n",
       .mark = "<start_of_turn>",
       .trims = true},
  };
  return all;
}

const ChatTemplate* find_chat_template(std::string_view name) {
  const auto all = chat_templates();
  const auto found = std::ranges::find(all, name, &ChatTemplate::name);
  return found == all.end() ? nullptr : &*found;
}

const ChatTemplate* chat_template_of(const Tokenizer* tokenizer) {
  if (tokenizer == nullptr) return nullptr;
  for (const ChatTemplate& one : chat_templates())
    if (tokenizer->id_of(one.mark)) return &one;
  return nullptr;
}

}  // namespace cleave::data
