#include "words.h"

#include <algorithm>
#include <cstdlib>

#include "failure.h"
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace cleave::capi {
namespace {

using nlohmann::json;

std::string text_of(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// A list of one for what is no list; nothing for null and false.
std::vector<json> values_of(const json& value) {
  if (value.is_null() || value == false) return {};
  if (value.is_array()) return {value.begin(), value.end()};
  return {value};
}

/// "init_from" is --init-from.
std::string flag_of(std::string name) {
  std::ranges::replace(name, '_', '-');
  return "--" + name;
}

std::string temporary_directory() {
  const char* const given = std::getenv("TMPDIR");
  return given != nullptr && *given != '\0' ? given : "/tmp";
}

bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

TemporaryFile::TemporaryFile(std::string_view bytes, std::string_view ending)
    : path_(temporary_directory() + "/cleave_XXXXXX" + std::string(ending)) {
  const int descriptor = ::mkstemps(path_.data(), static_cast<int>(ending.size()));
  const bool written = descriptor >= 0 && write_all(descriptor, bytes);
  if (descriptor >= 0) ::close(descriptor);
  if (written) return;
  if (descriptor >= 0) ::unlink(path_.c_str());
  throw Failure(CLEAVE_FAILED, "cannot write to " + temporary_directory() +
                                   "; point TMPDIR at a directory that has room");
}

TemporaryFile::~TemporaryFile() {
  ::unlink(path_.c_str());
}

Options options_of(const char* text, std::string_view argument) {
  Options options;
  if (text == nullptr) return options;
  const json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object())
    throw Failure(CLEAVE_BAD_USAGE, std::string("the options \"") + text +
                                        "\" are no JSON object; give one such as {\"stages\": 4}");
  std::ptrdiff_t arguments = 0;  // which come first, in their order
  for (const auto& [name, value] : object.items()) {
    if (name == "text") {
      options.text = text_of(value);
      continue;
    }
    for (const json& one : values_of(value)) {
      if (name == argument) {
        options.words.insert(options.words.begin() + arguments++, text_of(one));
      } else {
        options.words.push_back(one == true ? flag_of(name) : flag_of(name) + "=" + text_of(one));
      }
    }
  }
  return options;
}

}  // namespace cleave::capi
