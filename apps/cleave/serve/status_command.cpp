#include <memory>
#include <optional>
#include <vector>

#include "command.h"
#include "serve/network.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cleave/base/check.h"
#include "cleave/base/units.h"
#include "cleave/report/text_table.h"

namespace cleave::app {
namespace {

struct StatusFlags : NetworkFlags {
  bool json = false;
};

// Fields of the server's answer: of the run, what happened last, then of each device.
constexpr std::size_t kOfRun = 9, kOfDevice = 5;

/// Nothing if the letter is no such answer.
std::optional<nlohmann::json> json_of(const comm::Letter& letter) {
  if (letter.size() < kOfRun) return std::nullopt;
  const auto events = static_cast<std::size_t>(comm::number_in(letter[kOfRun - 1]));
  if (events > letter.size() - kOfRun || (letter.size() - kOfRun - events) % kOfDevice != 0)
    return std::nullopt;
  nlohmann::json happened = nlohmann::json::array(), devices = nlohmann::json::array();
  for (std::size_t i = 0; i < events; ++i) happened.push_back(letter[kOfRun + i]);
  for (std::size_t at = kOfRun + events; at < letter.size(); at += kOfDevice)
    devices.push_back(
        {{"device", letter[at].empty() ? nlohmann::json() : nlohmann::json(std::stoll(letter[at]))},
         {"name", letter[at + 1]},
         {"address", letter[at + 2]},
         {"memory_bytes", std::stoll(letter[at + 3])},
         {"state", letter[at + 4]}});
  return nlohmann::json{{"state", letter[1]},
                        {"step", std::stoll(letter[2])},
                        {"steps", std::stoll(letter[3])},
                        {"loss", std::stod(letter[4])},
                        {"step_seconds", std::stod(letter[5])},
                        {"plan", std::stoll(letter[6])},
                        {"layout", letter[7]},
                        {"events", happened},
                        {"devices", devices}};
}

std::string text_of(const nlohmann::json& status) {
  std::string text = status["state"].get<std::string>();
  const auto step = status["step"].get<std::int64_t>();
  if (step > 0)
    text += fmt::format(", step {} of {}, loss {:.4f}, {} per step\nplan {}: {}", step,
                        status["steps"].get<std::int64_t>(), status["loss"].get<double>(),
                        format_seconds(status["step_seconds"].get<double>()),
                        status["plan"].get<std::int64_t>(), status["layout"].get<std::string>());
  std::vector<std::vector<std::string>> rows = {{"device", "name", "address", "memory", ""}};
  for (const auto& device : status["devices"]) {
    const auto memory = device["memory_bytes"].get<std::int64_t>();
    rows.push_back({device["device"].is_null() ? "" : device["device"].dump(), device["name"],
                    device["address"], memory == 0 ? "" : format_bytes(memory), device["state"]});
  }
  text += "\n" + report::text_table(rows);
  for (const auto& event : status["events"]) text += event.get<std::string>() + "\n";
  return text;
}

void ask(const StatusFlags& flags) {
  const Contact contact(flags);
  const comm::Letter letter = comm::ask_server(contact.server(), {"status"});
  const std::optional<nlohmann::json> status = json_of(letter);
  require(status.has_value(), "the server's answer has ", letter.size(), " fields");
  fmt::print("{}", flags.json ? status->dump() + "\n" : text_of(*status));
}

}  // namespace

void add_status_command(CLI::App& app) {
  auto flags = std::make_shared<StatusFlags>();
  CLI::App* command = app.add_subcommand("status", "Ask a server how its run goes.");
  command->footer(
      "Examples:\n"
      "  cleave status server.example:4242\n"
      "  cleave status 127.0.0.1:4242 --keys ~/.local/state/cleave/server   on the server itself");
  add_network_flags(*command, *flags);
  command->add_flag("--json", flags->json, "One JSON object on stdout");
  command->callback([flags] { ask(*flags); });
}

}  // namespace cleave::app
