#include "cleave/data/documents.h"

#include <algorithm>
#include <fstream>

#include <nlohmann/json.hpp>

#include "cleave/base/check.h"
#include "cleave/base/shallow_json.h"
#include "cleave/data/compression.h"
#include "cleave/data/text_files.h"

namespace cleave::data {
namespace {

namespace fs = std::filesystem;

bool names_json_lines(const fs::path& name) {
  return name.extension() == ".jsonl" || name.extension() == ".ndjson";
}

using Json = nlohmann::json;

/// What is said: a text, or a list of parts that are texts.
std::string content_of(const Json& message, std::string_view where) {
  const auto content = message.is_object() ? message.find("content") : message.end();
  require(message.is_object() && content != message.end(), where,
          " has a message without \"content\"");
  if (content->is_string()) return content->get<std::string>();
  std::string text;
  for (const Json& part : content->is_array() ? *content : Json::array({*content})) {
    const auto said = part.is_object() ? part.find("text") : part.end();
    require(part.is_object() && said != part.end() && said->is_string(), where,
            " has a message whose \"content\" is not text");
    text += said->get<std::string>();
  }
  return text;
}

std::vector<ChatMessage> messages_in(const Json& messages, std::string_view where) {
  require(messages.is_array(), where, " has \"messages\" that are no list");
  std::vector<ChatMessage> all;
  for (const Json& message : messages) {
    std::string content = content_of(message, where);
    const auto role = message.find("role");
    require(role != message.end() && role->is_string(), where, " has a message without \"role\"");
    all.push_back({role->get<std::string>(), std::move(content)});
  }
  return all;
}

ChatText text_of_messages(const Json& messages, const ChatTemplate* chat, std::string_view where) {
  require(chat != nullptr, where,
          " has messages, and nothing says how they become text; set data.template to \"chatml\", "
          "\"llama3\", \"mistral\", \"gemma\", or one of your own");
  return chat_text(messages_in(messages, where), *chat, where);
}

/// `trained` has nothing in it where the line is plain text.
ChatText text_of_line(std::string_view line, const ChatTemplate* chat, std::string_view where) {
  const auto json = parse_shallow_or_discard<Json>(line);
  require(json.is_object(), where, " is no JSON object; every line must be one");
  if (const auto messages = json.find("messages"); messages != json.end())
    return text_of_messages(*messages, chat, where);
  const auto text = json.find("text");
  require(text != json.end() && text->is_string(), where,
          " has neither \"messages\" nor a \"text\" that is a string; every line must have one");
  return {text->get<std::string>()};
}

}  // namespace

std::vector<ChatMessage> parse_messages(std::string_view text, std::string_view where) {
  const auto json = parse_shallow_or_discard<Json>(text);
  const bool wrapped = json.is_object() && json.contains("messages");
  require(wrapped || json.is_array(), where,
          " is no JSON list of messages, and no object with \"messages\"; a message looks like "
          "{\"role\": \"user\", \"content\": \"Hello\"}");
  std::vector<ChatMessage> messages = messages_in(wrapped ? json["messages"] : json, where);
  require(!messages.empty(), where, " has no message");
  return messages;
}

bool is_json_lines(const fs::path& path) {
  return names_json_lines(is_compressed(path) ? path.stem() : path);
}

bool begins_with_messages(const fs::path& path) {
  std::vector<fs::path> files;
  try {
    files = files_named(path, "data.path");
  } catch (const UserError&) {
    return false;  // it may be with somebody else, or gone
  }
  const auto file = std::ranges::find_if(files, names_json_lines);
  if (file == files.end()) return false;
  std::ifstream stream(*file);
  std::string line;
  while (std::getline(stream, line) && line.find_first_not_of(" \t\r") == std::string::npos) {
  }
  const auto json = parse_shallow_or_discard<Json>(line);
  return json.is_object() && json.contains("messages");
}

Documents::Documents(const fs::path& path, const ChatTemplate* chat) {
  FileContent content = read_content(path);
  bytes_ = std::move(content.bytes);
  read(content.name, chat);
}

Documents::Documents(std::string bytes, const fs::path& name, const ChatTemplate* chat)
    : bytes_(std::move(bytes)) {
  read(name, chat);
}

void Documents::read(const fs::path& name, const ChatTemplate* chat) {
  const std::string_view foreign = foreign_kind(std::string_view(bytes_).substr(0, 512));
  require(foreign.empty(), name.string(), " is ", foreign, ", not text");
  if (names_json_lines(name)) return read_lines(name, chat);
  if (!bytes_.empty()) texts_.push_back(bytes_);
}

void Documents::read_lines(const fs::path& name, const ChatTemplate* chat) {
  std::vector<std::size_t> ends;
  std::size_t number = 0;
  for (std::size_t at = 0; at < bytes_.size();) {
    const std::size_t end = std::min(bytes_.find('\n', at), bytes_.size());
    const std::string_view line = std::string_view(bytes_).substr(at, end - at);
    ++number;
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) {
      const std::string where = detail::concat(name.string(), ":", number);
      ChatText made = text_of_line(line, chat, where);
      decoded_ += made.text;
      ends.push_back(decoded_.size());
      if (!made.trained.empty()) trained_.push_back(std::move(made.trained));
      require(trained_.empty() || trained_.size() == ends.size(), where,
              " and the lines before it do not have the same; a file has \"messages\" in every "
              "line, or \"text\"");
    }
    at = end + 1;
  }
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    texts_.push_back(std::string_view(decoded_).substr(begin, end - begin));
    begin = end;
  }
}

}  // namespace cleave::data
