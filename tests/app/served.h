#pragma once

#include <algorithm>
#include <csignal>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "app/tiny_run.h"

namespace cleave::testing {

/// For everything that a machine does at once, however busy it is.
inline constexpr std::chrono::seconds kServedPatience{120};

/// A server, and devices that join it. Each has caches and keys of its own.
class Served {
 public:
  /// With any port unless `flags` name one.
  Served(const TinyRun& run, TinyRun::Keys keys, TinyRun::Keys flags) : run_(run) {
    insecure_ = std::ranges::count(flags, "--insecure") > 0;
    if (std::ranges::count(flags, "--listen") == 0)
      flags.insert(flags.end(), {"--listen", "127.0.0.1:0"});
    flags.push_back("--json");
    if (!insecure_) flags.insert(flags.end(), {"--state", run.path("server")});
    std::vector<std::string> command = run.command(keys, flags);
    *std::ranges::find(command, "train") = "serve";
    server_ = std::make_unique<Process>(command);
    const std::string before = "listening on ";
    if (!server_->prints("to join", kServedPatience)) throw std::runtime_error(server_->err());
    const std::string said = server_->err();
    const std::size_t at = said.find(before) + before.size();
    address_ = said.substr(at, said.find_first_of(",;", at) - at);
  }

  Process& join(const std::string& name, TinyRun::Keys flags = {}) {
    return join_at(address_, name, std::move(flags));
  }

  /// The same by another way to the server.
  Process& join_at(const std::string& address, const std::string& name, TinyRun::Keys flags = {}) {
    flags.insert(flags.begin(), {"join", address, "--name", name});
    flags.push_back(insecure_ ? "--insecure" : "--keys=" + run_.path(name));
    return start(std::move(flags), name);
  }

  std::string invite() {
    const Answer answer = run(cleave_command({"serve", "invite", "--state", run_.path("server")}));
    return answer.out.substr(0, answer.out.find('\n'));
  }

  nlohmann::json status(const std::string& keys) {
    TinyRun::Keys flags = {"status", address_, "--json"};
    flags.push_back(insecure_ ? "--insecure" : "--keys=" + keys);
    return nlohmann::json::parse(run(cleave_command(flags)).out);
  }

  /// The report of a run that must succeed, on the server and on every device that was not killed.
  nlohmann::json report() {
    const Answer answer = server_->wait(kServedPatience);
    if (answer.exit != 0) throw std::runtime_error(answer.err);
    for (const auto& device : devices_) {
      const Answer joined = device->wait(kServedPatience);
      if (joined.exit != 0 && joined.exit != 128 + SIGKILL) throw std::runtime_error(joined.err);
    }
    return nlohmann::json::parse(answer.out);
  }

  Process& server() { return *server_; }
  const std::string& address() const { return address_; }

 private:
  Process& start(TinyRun::Keys flags, const std::string& name) {
    std::vector<std::string> command = cleave_command(std::move(flags));
    command.insert(command.begin(), {"env", "XDG_CACHE_HOME=" + run_.path(name + ".cache")});
    return *devices_.emplace_back(std::make_unique<Process>(command));
  }

  const TinyRun& run_;
  bool insecure_;
  std::unique_ptr<Process> server_;
  std::string address_;
  std::vector<std::unique_ptr<Process>> devices_;
};

}  // namespace cleave::testing
