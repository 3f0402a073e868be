#include <string_view>

#include "cleave/train/config/config_rules.h"
#include "cleave/train/config/config_sections.h"

namespace cleave::train {
namespace {

using Field = std::string data::ChatTemplate::*;

std::string names_rule() {
  std::string names;
  const auto all = data::chat_templates();
  for (std::size_t i = 0; i < all.size(); ++i)
    names += detail::concat(i == 0                ? ""
                            : i + 1 == all.size() ? " or "
                                                  : ", ",
                            '"', all[i].name, '"');
  return names;
}

Key name_key() {
  return {.name = "data.template",
          .rule = names_rule(),
          .help = "how messages become text, of which what the assistant says is learned",
          .set =
              [](Config& config, const Value& value) {
                const auto* name = rules::as<std::string>(value);
                const auto* known = name == nullptr ? nullptr : data::find_chat_template(*name);
                if (known != nullptr) config.data.chat = *known;
                return known != nullptr;
              },
          .get = [](const Config& config) -> std::optional<Value> {
            if (config.data.chat.name.empty()) return std::nullopt;
            return Value{config.data.chat.name};
          },
          .takes_text = true,
          .otherwise = "by the tokenizer's tokens",
          .example = "\"chatml\""};
}

/// A text of the user's own template. Known ones are told by their name alone.
Key text_key(std::string_view name, std::string_view help, Field field, std::string_view example) {
  const bool turn = field != &data::ChatTemplate::begin;
  return {.name = name,
          .rule = turn ? "a text with {content} in it" : "a text",
          .help = help,
          .set =
              [=](Config& config, const Value& value) {
                const auto* text = rules::as<std::string>(value);
                if (text == nullptr || text->empty()) return false;
                if (turn && text->find("{content}") == std::string::npos) return false;
                if (!config.data.chat.name.empty()) config.data.chat = {};
                config.data.chat.*field = *text;
                return true;
              },
          .get = [=](const Config& config) -> std::optional<Value> {
            const data::ChatTemplate& chat = config.data.chat;
            if (!chat.name.empty() || (chat.*field).empty()) return std::nullopt;
            return Value{chat.*field};
          },
          .takes_text = true,
          .otherwise = "none",
          .example = example};
}

}  // namespace

std::vector<Key> template_keys() {
  using data::ChatTemplate;
  return {
      name_key(),
      text_key("data.template.begin", "a template of your own: before the first turn",
               &ChatTemplate::begin, "\"<s>\""),
      text_key("data.template.system", "what the system says; without it that goes to the user's",
               &ChatTemplate::system, "\"{content}\\n\\n\""),
      text_key("data.template.user", "what the user says", &ChatTemplate::user,
               "\"U: {content}\\n\""),
      text_key("data.template.assistant",
               "what the assistant says; learned from {content} to {end}, or to its end",
               &ChatTemplate::assistant, "\"A: {content}</s>{end}\\n\""),
  };
}

}  // namespace cleave::train
