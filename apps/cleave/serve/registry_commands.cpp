#include "serve/registry_commands.h"

#include <chrono>
#include <memory>
#include <vector>

#include "json_text.h"
#include "serve/network.h"
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cleave/base/check.h"
#include "cleave/comm/tcp/registry.h"
#include "cleave/report/text_table.h"

namespace cleave::app {
namespace {

struct RegistryFlags {
  std::string state;
  std::string device;
  int minutes = 60;
  bool json = false;
};

std::string day_of(std::chrono::system_clock::time_point time) {
  return fmt::format("{:%Y-%m-%d %H:%M}", fmt::gmtime(time));
}

void invite(const RegistryFlags& flags) {
  require(flags.minutes >= 1, "--minutes ", flags.minutes, " must be at least 1");
  comm::Registry registry(registry_directory(flags.state));
  const std::string invitation = registry.invite(std::chrono::minutes(flags.minutes));
  if (flags.json) return fmt::print("{}", json_text(nlohmann::json{{"invitation", invitation}}));
  fmt::print("{}\n", invitation);
}

void list(const RegistryFlags& flags) {
  const comm::Registry registry(registry_directory(flags.state));
  nlohmann::json json = nlohmann::json::array();
  std::vector<std::vector<std::string>> rows = {{"name", "fingerprint", "until (UTC)", ""}};
  for (const comm::DeviceRecord& device : registry.devices()) {
    json.push_back({{"name", device.name},
                    {"fingerprint", device.fingerprint},
                    {"expires", day_of(device.expires)},
                    {"revoked", device.revoked}});
    rows.push_back({device.name, device.fingerprint.substr(0, 16), day_of(device.expires),
                    device.revoked ? "revoked" : ""});
  }
  if (flags.json) return fmt::print("{}", json_text(nlohmann::json{{"devices", json}}));
  fmt::print("{}", report::text_table(rows));
}

void revoke(const RegistryFlags& flags) {
  comm::Registry registry(registry_directory(flags.state));
  const comm::DeviceRecord device = registry.revoke(flags.device);
  if (flags.json) {
    const nlohmann::json json = {{"name", device.name}, {"fingerprint", device.fingerprint}};
    return fmt::print("{}", json_text(nlohmann::json{{"revoked", json}}));
  }
  fmt::print("revoked {} ({})\n", device.name, device.fingerprint.substr(0, 16));
}

CLI::App* add(CLI::App& serve, const char* name, const char* help,
              const std::shared_ptr<RegistryFlags>& flags, void (*act)(const RegistryFlags&)) {
  CLI::App* command = serve.add_subcommand(name, help);
  command->add_option("--state", flags->state, kStateHelp);
  command->add_flag("--json", flags->json, "One JSON object on stdout");
  command->callback([flags, act] { act(*flags); });
  return command;
}

}  // namespace

std::filesystem::path registry_directory(const std::string& flag) {
  return flag.empty() ? state_directory("server") : std::filesystem::path(flag);
}

void add_registry_commands(CLI::App& serve) {
  const auto flags = std::make_shared<RegistryFlags>();
  add(serve, "invite", "Print an invitation with which one device can enrol, once.", flags, invite)
      ->add_option("--minutes", flags->minutes, "How long it is good for")
      ->capture_default_str();
  add(serve, "devices", "List the devices that have, or had, a certificate.", flags, list);
  add(serve, "revoke", "Take a device's certificate back.", flags, revoke)
      ->add_option("device", flags->device, "Its name, or how its fingerprint begins")
      ->required();
}

}  // namespace cleave::app
