#include <filesystem>
#include <memory>

#include "command.h"
#include "files.h"
#include "init/purposes.h"
#include "json_text.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cleave/base/check.h"

namespace cleave::app {
namespace {

namespace fs = std::filesystem;

struct InitFlags {
  std::string purpose;
  Belongings given;
  std::string output = "run.toml";
  bool json = false;
};

std::string replaced(std::string text, std::string_view what, const std::string& by) {
  for (auto at = text.find(what); at != text.npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
  return text;
}

void require_free(const fs::path& path) {
  std::error_code ignored;
  require(!fs::exists(path, ignored), path.string(),
          " exists already; move it away, or choose another name with --output");
}

/// The data of the config: what the user has, or a sample beside the config, which is to be
/// written.
fs::path data_of(const InitFlags& flags, const Purpose& purpose) {
  if (flags.given.data.empty()) {
    const fs::path sample = fs::path(flags.output).parent_path() / purpose.sample;
    require_free(sample);
    return sample;
  }
  std::error_code ignored;
  require(fs::exists(flags.given.data, ignored), "there is no ", flags.given.data,
          "; give --data what you have, or leave it out for a sample");
  return flags.given.data;
}

/// The text of the config. Writes the sample, if there is to be one, and takes it away again if the
/// purpose lacks something else.
std::string config_text(const InitFlags& flags, const Purpose& purpose, const fs::path& data) {
  const fs::path out = fs::path(flags.output).parent_path() / "out";
  Filling filling = {{"{data}", path_value(data)}, {"{out}", path_value(out)}};
  const bool sample = flags.given.data.empty();
  if (sample) purpose.write_sample(data);
  try {
    if (purpose.fill)
      for (auto& place : purpose.fill({.data = data.string(), .model = flags.given.model}))
        filling.push_back(std::move(place));
  } catch (...) {
    std::error_code ignored;
    if (sample) fs::remove_all(data, ignored);
    throw;
  }
  std::string text(purpose.config);
  for (const auto& [place, what] : filling) text = replaced(text, place, what);
  return text;
}

void list_purposes(bool as_json) {
  nlohmann::json all = nlohmann::json::array();
  std::string text = "What for? cleave init PURPOSE [--data PATH]\n";
  for (const Purpose& purpose : purposes()) {
    all.push_back({{"name", purpose.name}, {"about", purpose.about}});
    text += fmt::format("  {:<10} {}\n", purpose.name, purpose.about);
  }
  write_file("", as_json ? json_text(nlohmann::json{{"purposes", all}}) : text);
}

void write_config(const InitFlags& flags) {
  const Purpose& purpose = find_purpose(flags.purpose);
  require_free(flags.output);
  const fs::path data = data_of(flags, purpose);
  write_file(flags.output, config_text(flags, purpose, data));
  const std::string run = replaced(std::string(purpose.run), "{config}", flags.output);
  if (flags.json) {
    const nlohmann::json all = {{"config", flags.output}, {"data", data.string()}, {"run", run}};
    return write_file("", json_text(all));
  }
  write_file("",
             fmt::format("wrote {}, which reads {}; now: {}\n", flags.output, data.string(), run));
}

}  // namespace

void add_init_command(CLI::App& app) {
  auto flags = std::make_shared<InitFlags>();
  CLI::App* verb = app.add_subcommand("init", "Write a config with comments, for a purpose.");
  verb->add_option("purpose", flags->purpose, "What for; without it, list what there is");
  verb->add_option("--data", flags->given.data,
                   "What to learn from: text (text, cluster), .jsonl (fine-tune), a packed set of "
                   "images (vision), a directory with an entry for each client (edge); without it, "
                   "a sample is written");
  verb->add_option("--model", flags->given.model,
                   "What fine-tune begins with: a Hugging Face directory");
  verb->add_option("--output", flags->output, "The config to write")->capture_default_str();
  verb->add_flag("--json", flags->json, "Print one JSON object");
  verb->footer(
      "Examples:\n"
      "  cleave init text\n"
      "  cleave init text --data ~/notes --output notes.toml\n"
      "  cleave init fine-tune --model models/SmolLM2-135M --data talk.jsonl");
  verb->callback([flags] {
    if (flags->purpose.empty()) return list_purposes(flags->json);
    write_config(*flags);
  });
}

}  // namespace cleave::app
