#include "serve/network.h"

#include <chrono>
#include <cstdlib>
#include <span>

#include <fmt/format.h>

#include "cleave/base/check.h"
#include "cleave/base/hash.h"
#include "cleave/comm/tcp/identity.h"
#include "cleave/comm/tcp/registry.h"
#include "cleave/schedule/text.h"

namespace cleave::app {
namespace {

namespace fs = std::filesystem;
using comm::Identity;

constexpr std::chrono::hours kRenewBefore{30 * 24};

/// The letter that a server answers with a certificate.
Identity with_certificate(const comm::ServerContact& server, comm::Letter question,
                          std::string key) {
  const comm::Letter reply = comm::ask_server(server, std::move(question));
  require(reply.size() == 3 && reply[0] == "certificate", "the server sends no certificate");
  return {.key = std::move(key), .certificate = reply[1], .authority = reply[2]};
}

}  // namespace

void add_network_flags(CLI::App& command, NetworkFlags& flags) {
  command.add_option("server", flags.server, "HOST:PORT of cleave serve")->required();
  command.add_option("--keys", flags.keys,
                     "Directory with this device's key and certificate; default: one for each "
                     "server, below ~/.local/state/cleave");
  command.add_flag("--insecure", flags.insecure,
                   "Without TLS, on the loopback interface only; the server must say so too");
}

fs::path state_directory(const std::string& name) {
  if (const char* state = std::getenv("XDG_STATE_HOME"); state != nullptr && *state != '\0')
    return fs::path(state) / "cleave" / name;
  const char* home = std::getenv("HOME");
  require(home != nullptr && *home != '\0',
          "neither HOME nor XDG_STATE_HOME says where keys are kept; name a directory");
  return fs::path(home) / ".local" / "state" / "cleave" / name;
}

fs::path keys_directory(const NetworkFlags& flags) {
  if (!flags.keys.empty()) return flags.keys;
  const comm::Address address = comm::parse_address(flags.server);
  return state_directory("devices") / fmt::format("{}_{}", address.host, address.port);
}

Contact::Contact(const NetworkFlags& flags) {
  server_.address = comm::parse_address(flags.server);
  if (flags.insecure) {
    require(comm::is_loopback(server_.address.host), "--insecure is for the loopback interface; ",
            flags.server, " is elsewhere: leave --insecure out and use an invitation");
    return;
  }
  const fs::path keys = keys_directory(flags);
  require(comm::is_identity_in(keys), "there is no certificate of ", flags.server, " in ",
          keys.string(),
          "; run cleave serve invite on the server, and pass what it prints with --invitation");
  const Identity identity = comm::load_identity(keys);
  tls_ = std::make_unique<comm::Tls>(identity);
  server_.tls = tls_.get();
  authority_ = identity.authority;
  server_.fingerprint = comm::read_certificate(identity.authority).fingerprint;
}

void enrol(const NetworkFlags& flags, const std::string& text, const std::string& name) {
  require(!flags.insecure, "--insecure uses no certificates; leave out --invitation");
  const comm::Invitation invitation = comm::parse_invitation(text);
  const comm::Tls stranger({});
  const comm::ServerContact server{.address = comm::parse_address(flags.server),
                                   .tls = &stranger,
                                   .fingerprint = invitation.fingerprint};
  const std::string key = comm::make_key();
  const Identity identity =
      with_certificate(server, {"enrol", invitation.token, comm::public_key_of(key), name}, key);
  comm::store_identity(identity, keys_directory(flags));
}

void renew_if_due(const NetworkFlags& flags) {
  if (flags.insecure) return;
  const fs::path keys = keys_directory(flags);
  const Contact contact(flags);
  const Identity old = comm::load_identity(keys);
  const auto ends = comm::read_certificate(old.certificate).ends;
  const auto now = std::chrono::system_clock::now();
  if (ends < now || ends - now > kRenewBefore) return;
  comm::store_identity(
      with_certificate(contact.server(), {"renew", comm::public_key_of(old.key)}, old.key), keys);
}

train::RunOptions shared_options(comm::Communicator& world, train::RunOptions options) {
  double numbers[] = {options.trace ? 1.0 : 0.0, static_cast<double>(options.patience.count()),
                      options.predict ? 1.0 : 0.0,
                      options.start.existing == train::Existing::Resume ? 1.0 : 0.0};
  world.broadcast(std::as_writable_bytes(std::span(numbers)), 0).wait();
  options.trace = numbers[0] > 0;
  options.patience = std::chrono::nanoseconds(static_cast<std::int64_t>(numbers[1]));
  options.predict = numbers[2] > 0;
  if (numbers[3] > 0) options.start.existing = train::Existing::Resume;
  return options;
}

std::string program_hash(const engine::CompiledStep& step) {
  Hasher hasher;
  hasher.add(schedule::to_text(step.program));
  for (const std::string& name : step.tensor_names) hasher.add(name + "\n");
  return to_hex(hasher.digest());
}

}  // namespace cleave::app
