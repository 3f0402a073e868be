#include <memory>
#include <optional>
#include <vector>

#include "command.h"
#include "json_text.h"
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

// Fields of the server's answer: of the run; what happened last and whom it waits for, one each;
// then of each link and device.
constexpr std::size_t kOfRun = 11, kOfLink = 5, kOfDevice = 6;

nlohmann::json link_of(const comm::Letter& letter, std::size_t at) {
  const std::string& relayed = letter[at + 2];
  return {{"devices", {std::stoll(letter[at]), std::stoll(letter[at + 1])}},
          {"way", relayed.empty() ? "direct" : "relayed"},
          {"relayed_bytes", relayed.empty() ? 0 : std::stoll(relayed)},
          {"latency_seconds", std::stod(letter[at + 3])},
          {"seconds_per_byte", std::stod(letter[at + 4])}};
}

nlohmann::json device_of(const comm::Letter& letter, std::size_t at) {
  return {
      {"device", letter[at].empty() ? nlohmann::json() : nlohmann::json(std::stoll(letter[at]))},
      {"name", letter[at + 1]},
      {"address", letter[at + 2]},
      {"memory_bytes", std::stoll(letter[at + 3])},
      {"state", letter[at + 4]},
      {"stages", letter[at + 5]}};
}

/// Nothing if the letter is no such answer.
std::optional<nlohmann::json> json_of(const comm::Letter& letter) {
  if (letter.size() < kOfRun) return std::nullopt;
  const auto count = [&](std::size_t field) {
    return static_cast<std::size_t>(comm::number_in(letter[field]));
  };
  const std::size_t events = count(kOfRun - 3), waits = count(kOfRun - 2);
  const std::size_t links = count(kOfRun - 1), rest = letter.size() - kOfRun;
  if (events > rest || waits > rest - events || links > (rest - events - waits) / kOfLink ||
      (rest - events - waits - links * kOfLink) % kOfDevice != 0)
    return std::nullopt;
  const auto first = letter.begin() + kOfRun;
  const std::vector<std::string> happened(first, first + static_cast<std::ptrdiff_t>(events));
  const std::vector<std::string> awaited(first + static_cast<std::ptrdiff_t>(events),
                                         first + static_cast<std::ptrdiff_t>(events + waits));
  nlohmann::json ways = nlohmann::json::array(), devices = nlohmann::json::array();
  std::size_t at = kOfRun + events + waits;
  for (std::size_t i = 0; i < links; ++i, at += kOfLink) ways.push_back(link_of(letter, at));
  for (; at < letter.size(); at += kOfDevice) devices.push_back(device_of(letter, at));
  return nlohmann::json{{"state", letter[1]},
                        {"step", std::stoll(letter[2])},
                        {"steps", std::stoll(letter[3])},
                        {"loss", std::stod(letter[4])},
                        {"step_seconds", std::stod(letter[5])},
                        {"plan", std::stoll(letter[6])},
                        {"layout", letter[7]},
                        {"waits_for", awaited},
                        {"events", happened},
                        {"links", ways},
                        {"devices", devices}};
}

/// A row for each two devices.
std::string links_of(const nlohmann::json& links) {
  std::vector<std::vector<std::string>> rows = {
      {"link", "way", "latency", "bandwidth", "passed on"}};
  for (const auto& link : links) {
    const auto per_byte = link["seconds_per_byte"].get<double>();
    rows.push_back(
        {fmt::format("{}-{}", link["devices"][0].get<int>(), link["devices"][1].get<int>()),
         link["way"], format_seconds(link["latency_seconds"].get<double>()),
         per_byte > 0 ? format_bytes(static_cast<std::int64_t>(1 / per_byte)) + "/s" : "",
         link["way"] == "relayed" ? format_bytes(link["relayed_bytes"].get<std::int64_t>()) : ""});
  }
  return report::text_table(rows);
}

std::string text_of(const nlohmann::json& status) {
  std::string text = status["state"].get<std::string>();
  const auto step = status["step"].get<std::int64_t>();
  if (step > 0)
    text += fmt::format(", step {} of {}, loss {:.4f}, {} per step\nplan {}: {}", step,
                        status["steps"].get<std::int64_t>(), status["loss"].get<double>(),
                        format_seconds(status["step_seconds"].get<double>()),
                        status["plan"].get<std::int64_t>(), status["layout"].get<std::string>());
  for (const auto& name : status["waits_for"]) text += "\nwaits for " + name.get<std::string>();
  std::vector<std::vector<std::string>> rows = {
      {"device", "name", "address", "memory", "state", "stages"}};
  for (const auto& device : status["devices"]) {
    const auto memory = device["memory_bytes"].get<std::int64_t>();
    rows.push_back({device["device"].is_null() ? "" : device["device"].dump(), device["name"],
                    device["address"], memory == 0 ? "" : format_bytes(memory), device["state"],
                    device["stages"]});
  }
  text += "\n" + report::text_table(rows);
  if (!status["links"].empty()) text += links_of(status["links"]);
  for (const auto& event : status["events"]) text += event.get<std::string>() + "\n";
  return text;
}

void ask(const StatusFlags& flags) {
  const Contact contact(flags);
  const comm::Letter letter = comm::ask_server(contact.server(), {"status"});
  const std::optional<nlohmann::json> status = json_of(letter);
  require(status.has_value(), "the server's answer has ", letter.size(), " fields");
  fmt::print("{}", flags.json ? json_text(*status) : text_of(*status));
}

}  // namespace

void add_status_command(CLI::App& app) {
  auto flags = std::make_shared<StatusFlags>();
  CLI::App* command = app.add_subcommand("status", "Ask a server how its run goes.");
  command->footer(
      "Examples:\n"
      "  cleave status server.example:4242\n"
      "  cleave status 127.0.0.1:4242 --keys ~/.local/state/cleave/server   on it");
  add_network_flags(*command, *flags);
  command->add_flag("--json", flags->json, "One JSON object on stdout");
  command->callback([flags] { ask(*flags); });
}

}  // namespace cleave::app
