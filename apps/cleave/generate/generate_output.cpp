#include "generate/generate_output.h"

#include <cstdio>

#include "files.h"
#include "streams.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cleave/base/units.h"

namespace cleave::app {

void GenerateOutput::on_ready(train::Tokens tokens) {
  tokens_ = tokens;
  if (style_ == Style::Text) write_file("", printable(options_.prompt));
}

void GenerateOutput::on_token(std::int32_t token) {
  const bool number = tokens_ == train::Tokens::Numbers || token > 255;
  emit(number ? fmt::format(" {}", token) : stream_.add(static_cast<unsigned char>(token)));
}

void GenerateOutput::finish(const train::GenerateReport& report) {
  emit(stream_.finish());
  style_ == Style::Json ? write_json(report) : write_summary(report);
}

void GenerateOutput::emit(const std::string& piece) {
  text_ += piece;
  if (style_ == Style::Json || piece.empty()) return;
  write_file("", piece);
  std::fflush(stdout);
}

void GenerateOutput::write_json(const train::GenerateReport& report) const {
  const bool all = std::ssize(report.tokens) == options_.tokens;
  nlohmann::json devices = nlohmann::json::array();
  for (const train::DeviceMemory& device : report.devices) {
    devices.push_back({{"planned_bytes", device.planned_bytes}, {"peak_bytes", device.peak_bytes}});
  }
  const nlohmann::json object = {{"checkpoint", report.checkpoint.string()},
                                 {"step", report.step},
                                 {"prompt", printable(options_.prompt)},
                                 {"prompt_tokens", report.prompt_tokens},
                                 {"text", text_},
                                 {"tokens", report.tokens},
                                 {"stopped", all ? "tokens" : "context"},
                                 {"seconds", report.seconds},
                                 {"devices", devices}};
  write_file("", object.dump() + '\n');
}

void GenerateOutput::write_summary(const train::GenerateReport& report) const {
  write_file("", "\n");
  std::string memory;
  for (const train::DeviceMemory& device : report.devices) {
    memory += (memory.empty() ? "" : " + ") + format_bytes(device.planned_bytes);
  }
  complain("{} tokens in {}, {} of memory\n", report.tokens.size(), format_seconds(report.seconds),
           memory);
  const std::int64_t missing = options_.tokens - std::ssize(report.tokens);
  if (missing == 0) return;
  complain(
      "stopped {} tokens early: the model's context of {} is full; to continue, prompt it "
      "with the end of this text\n",
      missing, report.context);
}

}  // namespace cleave::app
