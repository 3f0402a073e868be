#pragma once

#include <stdexcept>
#include <string>

#include "app/run_cleave.h"
#include "support/temporary_directory.h"
#include <nlohmann/json.hpp>

namespace cleave::testing {

/// Clients share out the texts of three people; `keys` are those of [edge].
inline std::string averaged(const std::string& keys) {
  return "[data]\npath = [{path = \"DIR/client0.txt\", weight = 1}, {path = \"DIR/client1.txt\", "
         "weight = 1}, {path = \"DIR/client2.txt\", weight = 1}]\n[edge]\nclients = 5\n" +
         keys;
}

/// The table of an owner of DIR/client<number>.txt, with `keys` of its own.
inline std::string clinic(int number, const std::string& keys = "") {
  const std::string digits = std::to_string(number);
  return "[[edge.owner]]\nname = \"clinic-" + digits + "\"\ndata = \"DIR/client" + digits +
         ".txt\"\n" + keys;
}

/// The tables of `clients` such owners, each with the same keys.
inline std::string clinics(int clients, const std::string& keys = "") {
  std::string tables;
  for (int client = 0; client < clients; ++client) tables += clinic(client, keys);
  return tables;
}

/// The server of split training, whose layers lie between those of the clients.
inline const std::string kHub = "[[edge.owner]]\nname = \"hub\"\nrole = \"server\"\n";

/// Clients that hold `layers` of the model, and the hub.
inline std::string clinics_and_hub(int clients, const std::string& layers = "[1, 1]",
                                   const std::string& keys = "") {
  return clinics(clients, "layers = " + layers + "\n" + keys) + kHub;
}

/// The learning rate of no step depends on how many steps a run has.
inline const std::string kLevelRate = "--set train.schedule=constant --set train.warmup=0 ";

/// A tiny run whose data belong to clients, in a directory of its own.
class EdgeRun {
 public:
  /// `edge`: the tables of [edge], in which DIR stands for the directory; client i of `clients`
  /// finds data in DIR/client<i>.txt.
  EdgeRun(const std::string& edge, int clients) {
    std::string tables = edge;
    for (std::size_t at = 0; (at = tables.find("DIR", at)) != std::string::npos;)
      tables.replace(at, 3, directory_.path(""));
    for (int client = 0; client < clients; ++client)
      directory_.write("client" + std::to_string(client) + ".txt", text_of(client));
    directory_.write("run.toml",
                     "[model]\nlayers = 4\nhidden = 32\nheads = 4\n[train]\nsteps = 4\nbatch = 4\n"
                     "sequence = 16\nlr = 1e-2\n" +
                         tables);
  }

  std::string path(const std::string& name) const { return directory_.path(name); }

  Answer verify(const std::string& flags = "") const {
    return run_cleave("verify --flow " + path("run.toml") + " " + flags);
  }
  Answer train(const std::string& flags, const std::string& out = "out") const {
    return run_cleave("train " + path("run.toml") + " --set train.out=" + path(out) + " " + flags);
  }

  /// The report of a run that must succeed; throws what it said if it does not.
  nlohmann::json report(const std::string& flags, const std::string& out = "out") const {
    const Answer answer = train(flags + " --json", out);
    if (answer.exit != 0) throw std::runtime_error(answer.err);
    return nlohmann::json::parse(answer.out);
  }

 private:
  /// Each client writes in a hand of its own.
  static std::string text_of(int client) {
    std::string text;
    for (unsigned i = 0, x = static_cast<unsigned>(client) + 1; i < 1500; ++i) {
      x = x * 1664525 + 1013904223;
      const unsigned shift = client % 2 == 0 ? 0 : x >> 20 & 1;
      text += static_cast<char>("the quick brown fox "[x >> 16 & 15] + shift);
    }
    return text;
  }

  TemporaryDirectory directory_;
};

}  // namespace cleave::testing
