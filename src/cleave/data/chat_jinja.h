#pragma once

#include <string>

#include "cleave/data/chat_template.h"

namespace cleave::data {

/// A template as Hugging Face's tools read it, under "chat_template" of a tokenizer_config.json: it
/// makes of messages the text of chat_text(), and with add_generation_prompt that of chat_prompt().
/// `how` has texts for the user and the assistant.
std::string jinja_of(const ChatTemplate& how);

}  // namespace cleave::data
