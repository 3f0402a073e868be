#include "generate/generate_output.h"

#include <cstdio>

#include "files.h"
#include "json_text.h"
#include "streams.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cleave/base/units.h"

namespace cleave::app {
namespace {

using Json = nlohmann::json;

Json text_json(const train::GeneratedText& text) {
  return {{"prompt", printable(text.prompt)},
          {"prompt_tokens", text.prompt_tokens},
          {"text", printable(text.text)},
          {"tokens", text.tokens},
          {"stopped", to_string(text.stopped)}};
}

/// One text lies open in the object, several in a list.
void write_json(const train::GenerateReport& report) {
  Json object;
  if (report.texts.size() == 1) {
    object = text_json(report.texts[0]);
  } else {
    for (const train::GeneratedText& text : report.texts)
      object["texts"].push_back(text_json(text));
  }
  Json devices = Json::array();
  for (const train::DeviceMemory& device : report.devices) {
    devices.push_back({{"planned_bytes", device.planned_bytes}, {"peak_bytes", device.peak_bytes}});
  }
  object["checkpoint"] = report.checkpoint.string();
  object["step"] = report.step;
  object["seconds"] = report.seconds;
  object["devices"] = devices;
  write_file("", json_text(object));
}

void write_summary(const train::GenerateReport& report, std::int64_t wanted) {
  std::string memory;
  for (const train::DeviceMemory& device : report.devices) {
    memory += (memory.empty() ? "" : " + ") + format_bytes(device.planned_bytes);
  }
  std::int64_t tokens = 0;
  std::int64_t missing = 0;
  for (const train::GeneratedText& text : report.texts) {
    tokens += std::ssize(text.tokens);
    if (text.stopped == train::Stopped::Context) {
      missing = std::max(missing, wanted - std::ssize(text.tokens));
    }
  }
  complain("{} tokens in {}, {} of memory\n", tokens, format_seconds(report.seconds), memory);
  if (missing == 0) return;
  complain(
      "stopped {} tokens early: the model's context of {} is full; to continue, prompt it "
      "with the end of this text\n",
      missing, report.context);
}

}  // namespace

void GenerateOutput::on_begin(const std::string& prompt) {
  const std::string shown = prompts_ == Prompts::Shown ? printable(prompt) : "";
  if (style_ == Style::Text) write_file("", (first_ ? "" : "\n") + shown);
  first_ = false;
}

void GenerateOutput::on_text(std::string_view bytes) {
  if (style_ == Style::Json) return;
  std::string text;
  for (char byte : bytes) text += stream_.add(static_cast<unsigned char>(byte));
  if (text.empty()) return;
  write_file("", text);
  std::fflush(stdout);
}

void GenerateOutput::on_end(const train::GeneratedText&) {
  if (style_ == Style::Text) write_file("", stream_.finish() + '\n');
}

void GenerateOutput::finish(const train::GenerateReport& report, std::int64_t tokens) {
  style_ == Style::Json ? write_json(report) : write_summary(report, tokens);
}

}  // namespace cleave::app
