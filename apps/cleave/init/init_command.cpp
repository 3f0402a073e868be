#include <filesystem>
#include <memory>

#include "command.h"
#include "files.h"
#include "init/purposes.h"
#include "json_text.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cleave/base/check.h"
#include "cleave/train/config/config_value.h"

namespace cleave::app {
namespace {

namespace fs = std::filesystem;

struct InitFlags {
  std::string purpose;
  std::string data;
  std::string output = "run.toml";
  bool json = false;
};

std::string replaced(std::string text, std::string_view what, const std::string& by) {
  for (auto at = text.find(what); at != text.npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
  return text;
}

/// As TOML has it. Absolute, so that the config works wherever it is copied to and started from.
std::string path_value(const fs::path& path) {
  return to_toml(train::Value{fs::absolute(path).lexically_normal().string()});
}

void require_free(const fs::path& path) {
  std::error_code ignored;
  require(!fs::exists(path, ignored), path.string(),
          " exists already; move it away, or choose another name with --output");
}

/// The data of the config: what the user has, or a sample beside the config.
fs::path data_of(const InitFlags& flags) {
  if (!flags.data.empty()) {
    std::error_code ignored;
    require(fs::exists(flags.data, ignored), "there is no ", flags.data,
            "; give --data a text file or a directory of text, or leave it out for a sample");
    return flags.data;
  }
  const fs::path sample = fs::path(flags.output).parent_path() / "sums.txt";
  require_free(sample);
  write_file(sample.string(), sample_text());
  return sample;
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
  const fs::path data = data_of(flags);
  const fs::path out = fs::path(flags.output).parent_path() / "out";
  write_file(flags.output,
             replaced(replaced(std::string(purpose.config), "{data}", path_value(data)), "{out}",
                      path_value(out)));
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
  verb->add_option(
      "--data", flags->data,
      "What to learn from: a text file or a directory of text; without it, a sample is "
      "written");
  verb->add_option("--output", flags->output, "The config to write")->capture_default_str();
  verb->add_flag("--json", flags->json, "Print one JSON object");
  verb->footer(
      "Examples:\n"
      "  cleave init text\n"
      "  cleave init text --data ~/notes --output notes.toml");
  verb->callback([flags] {
    if (flags->purpose.empty()) return list_purposes(flags->json);
    write_config(*flags);
  });
}

}  // namespace cleave::app
