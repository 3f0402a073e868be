#pragma once

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "app/edge_run.h"
#include "app/process.h"

namespace cleave::testing {

inline constexpr std::chrono::seconds kOwnersPatience{120};

/// The program with which owners join: that of the server, or the words of CLEAVE_CLIENT, which may
/// be cleave-edge, and may be for another processor.
inline std::vector<std::string> client_command(std::vector<std::string> arguments) {
  const char* const client = std::getenv("CLEAVE_CLIENT");
  if (client == nullptr) return cleave_command(std::move(arguments));
  std::istringstream words(client);
  std::vector<std::string> command;
  for (std::string word; words >> word;) command.push_back(word);
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

/// A server with TLS, and owners that join it.
class ServedOwners {
 public:
  ServedOwners(const EdgeRun& run, std::vector<std::string> flags) : run_(run) {
    std::vector<std::string> command = {
        "serve",      run.path("run.toml"), "--set",  "train.out=" + run.path("hub"),
        "--state",    run.path("server"),   "--json", "--listen",
        "127.0.0.1:0"};
    command.insert(command.end(), flags.begin(), flags.end());
    server_ = std::make_unique<Process>(alone("hub", cleave_command(command)));
    if (!server_->prints("to join", kOwnersPatience)) throw std::runtime_error(server_->err());
    const std::string before = "listening on ", said = server_->err();
    const std::size_t at = said.find(before) + before.size();
    address_ = said.substr(at, said.find_first_of(",;", at) - at);
  }

  Process& join(int client, std::vector<std::string> flags = {}) {
    const std::string name = "clinic-" + std::to_string(client);
    std::vector<std::string> command = {
        "join",    address_,
        "--owner", name,
        "--data",  run_.path("own" + std::to_string(client) + ".txt"),
        "--keys",  run_.path(name + ".keys"),
        "--out",   run_.path(name)};
    if (!std::filesystem::exists(run_.path(name + ".keys")))
      command.insert(command.end(), {"--invitation", invitation()});
    command.insert(command.end(), flags.begin(), flags.end());
    return *joined_.emplace_back(std::make_unique<Process>(alone(name, client_command(command))));
  }

  nlohmann::json report() {
    const Answer answer = server_->wait(kOwnersPatience);
    if (answer.exit != 0) throw std::runtime_error(answer.err);
    return nlohmann::json::parse(answer.out);
  }

  nlohmann::json status() const {
    return nlohmann::json::parse(
        run(cleave_command({"status", address_, "--json", "--keys", run_.path("server")})).out);
  }

  Process& server() { return *server_; }

 private:
  /// With a cache of its own, as on a machine of its own.
  std::vector<std::string> alone(const std::string& name, std::vector<std::string> command) const {
    command.insert(command.begin(), {"env", "XDG_CACHE_HOME=" + run_.path(name + ".cache")});
    return command;
  }

  std::string invitation() const {
    const Answer answer = run(cleave_command({"serve", "invite", "--state", run_.path("server")}));
    return answer.out.substr(0, answer.out.find('\n'));
  }

  const EdgeRun& run_;
  std::unique_ptr<Process> server_;
  std::string address_;
  std::vector<std::unique_ptr<Process>> joined_;
};

/// From now on a client's data are where only the client is told.
inline void hand_out_data(const EdgeRun& run, int clients) {
  for (int client = 0; client < clients; ++client) {
    const std::string number = std::to_string(client);
    std::filesystem::rename(run.path("client" + number + ".txt"),
                            run.path("own" + number + ".txt"));
  }
}

/// … and where the config says again.
inline void take_back_data(const EdgeRun& run, int clients) {
  for (int client = 0; client < clients; ++client) {
    const std::string number = std::to_string(client);
    std::filesystem::rename(run.path("own" + number + ".txt"),
                            run.path("client" + number + ".txt"));
  }
}

}  // namespace cleave::testing
