#include "cleave/data/chat_jinja.h"

#include <nlohmann/json.hpp>

namespace cleave::data {
namespace {

/// A text as Jinja's strings have it, whose escapes are those of JSON.
std::string jinja_string(std::string_view text) {
  return nlohmann::json(std::string(text)).dump();
}

/// Joins what is not empty; `between` stands for what is said.
std::string jinja_turn(std::string_view format, std::string_view between) {
  const TurnFormat turn(format);
  std::string all;
  if (!turn.before.empty()) all += jinja_string(turn.before) + " ~ ";
  all += between;
  const std::string end = std::string(turn.after) + std::string(turn.rest);
  if (!end.empty()) all += " ~ " + jinja_string(end);
  return "{{- " + all + " }}\n";
}

/// Messages have a text, or a list of parts that are texts.
std::string jinja_content(const ChatTemplate& how) {
  const std::string text =
      "{%- set said = message.content if message.content is string else "
      "message.content | map(attribute=\"text\") | join %}\n";
  return how.trims ? text + "{%- set said = said.strip(\" \\t\\r\\n\") %}\n" : text;
}

std::string jinja_refusal(std::string_view sentence) {
  return "{{- raise_exception(" + jinja_string(sentence) + ") }}\n";
}

}  // namespace

// The minus signs take the line breaks and spaces between the tags out of the text.
std::string jinja_of(const ChatTemplate& how) {
  const bool waits = how.system.empty();  // what the system says goes before the user's content
  std::string text;
  if (!how.begin.empty()) text += "{{- " + jinja_string(how.begin) + " }}\n";
  if (waits) text += "{%- set waiting = namespace(system=\"\") %}\n";
  text += "{%- for message in messages %}\n" + jinja_content(how);
  text += "{%- if message.role == \"system\" %}\n";
  text +=
      waits ? "{%- set waiting.system = said ~ \"\\n\\n\" %}\n" : jinja_turn(how.system, "said");
  text += "{%- elif message.role == \"user\" %}\n";
  text += jinja_turn(how.user, waits ? "waiting.system ~ said" : "said");
  if (waits) text += "{%- set waiting.system = \"\" %}\n";
  text += "{%- elif message.role == \"assistant\" %}\n" + jinja_turn(how.assistant, "said");
  text += "{%- else %}\n" + jinja_refusal("known roles are system, user and assistant");
  text += "{%- endif %}\n{%- endfor %}\n";
  if (waits) {
    text += "{%- if waiting.system %}\n" +
            jinja_refusal("no user message follows that of the system") + "{%- endif %}\n";
  }
  const std::string_view prompt = TurnFormat(how.assistant).before;
  if (!prompt.empty()) {
    text += "{%- if add_generation_prompt %}\n{{- " + jinja_string(prompt) + " }}\n{%- endif %}\n";
  }
  text.pop_back();  // a template ends where its last tag does
  return text;
}

}  // namespace cleave::data
