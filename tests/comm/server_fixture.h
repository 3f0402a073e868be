#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "support/errors.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>

#include "cleave/comm/tcp/server.h"
#include "cleave/comm/tcp/server_line.h"

namespace cleave::comm {

using namespace std::chrono_literals;

inline constexpr std::chrono::hours kDay{24};

/// A server, and what a device needs to come to it.
class ServerTest : public ::testing::Test {
 protected:
  void start(int devices, bool insecure = false, Latecomers latecomers = Latecomers::Refused,
             Clock::duration first_word_within = 10s) {
    server_ =
        std::make_unique<Server>(ServerSetup{.listen = {"127.0.0.1", 0},
                                             .registry = insecure ? nullptr : &registry_,
                                             .needs = std::vector<std::int64_t>(devices, 1000),
                                             .latecomers = latecomers,
                                             .first_word_within = first_word_within,
                                             .log = [this](const std::string& line) {
                                               const std::lock_guard lock(mutex_);
                                               log_ += line + "\n";
                                             }});
  }

  /// Waits until `devices` are ready, and begins an epoch with all that are.
  void begin(std::size_t devices) {
    EpochSetup epoch{.run = "steps = 3", .program = "5eed"};
    for (const Candidate& candidate : server_->await_ready(devices, 60s, {}))
      epoch.seats.push_back(candidate.seat);
    server_->begin(epoch);
  }

  Identity enrol(const std::string& name) {
    const Invitation invitation = parse_invitation(registry_.invite(10min));
    const Tls stranger({});
    Identity identity{.key = make_key()};
    const Letter reply = ask_server(contact(stranger),
                                    {"enrol", invitation.token, public_key_of(identity.key), name});
    identity.certificate = reply.at(1);
    identity.authority = reply.at(2);
    return identity;
  }

  ServerContact contact(const Tls& tls) {
    return {.address = server_->address(), .tls = &tls, .fingerprint = registry_.fingerprint()};
  }

  /// What a device that shows `identity` is told when it joins.
  std::string refusal(const Identity& identity, std::int64_t memory = 0) {
    const Tls tls(identity);
    return testing::user_error([&] {
      ServerLine line(contact(tls));
      line.open();
      line.join({.name = "late", .memory = memory, .port = 1});
      line.await_epoch({});
    });
  }

  bool logged(const std::string& text) {
    for (int look = 0; look < 200; ++look) {
      {
        const std::lock_guard lock(mutex_);
        if (log_.find(text) != std::string::npos) return true;
      }
      std::this_thread::sleep_for(10ms);
    }
    return false;
  }

  testing::TemporaryDirectory directory_;
  Registry registry_{directory_.path() / "server"};
  std::mutex mutex_;
  std::string log_;
  std::unique_ptr<Server> server_;  ///< last: its thread writes to the log until it ends
};

/// A device of which only the line to the server counts.
class Caller {
 public:
  Caller(Server& server, const std::string& name, const std::string& key = "")
      : line_({.address = server.address()}) {
    line_.open();
    line_.join({.name = name, .port = 1, .key = key});
  }

  std::uint32_t epoch() { return line_.await_epoch({}).value().epoch; }

  /// Why the epoch is over, once the server says that it is.
  std::string over() {
    for (int look = 0; look < 2000 && line_.epoch_over().empty(); ++look) {
      line_.advance();
      std::this_thread::sleep_for(10ms);
    }
    return line_.epoch_over();
  }

  ServerLine& line() { return line_; }

 private:
  ServerLine line_;
};

}  // namespace cleave::comm
