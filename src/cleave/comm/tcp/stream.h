#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "cleave/comm/tcp/address.h"
#include "cleave/comm/tcp/frame.h"
#include "cleave/comm/tcp/identity.h"

namespace cleave::comm {

/// A connection ended or could not be made. Another one may go on where it stopped.
class ConnectionBroken : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// TLS 1.3 as one program does it: with its identity, or with none before it is enrolled. Who the
/// other end is must be asked of each stream; a handshake alone proves only that it has a key.
class Tls {
 public:
  explicit Tls(const Identity& identity);  ///< an empty key: no certificate is shown
  ~Tls();
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;

 private:
  friend class Stream;
  struct State;
  std::unique_ptr<State> state_;
};

class Dialling;

/// Who is at the other end of a stream with TLS.
struct PeerCertificate {
  std::string name;
  std::string fingerprint;
  std::string fault;  ///< why our authority does not vouch for it; empty if it does
};

/// A connection that never blocks, with TLS or without. Moves.
class Stream final : public ByteSource {
 public:
  enum class Role : std::uint8_t { Connects, Accepts };

  /// Takes over a socket. `tls` null: plaintext; else it must outlive the stream.
  Stream(int socket, Role role, const Tls* tls);

  /// Begins to connect, to whichever address of the host answers first in their order. Throws
  /// ConnectionBroken if that fails at once for all of them.
  static Stream connect(const Address& address, const Tls* tls);
  static Stream connect_to_any(const std::vector<Address>& addresses, const Tls* tls);

  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;
  ~Stream() override;

  /// True once bytes can flow. Goes on with the next address, over another socket, where nobody
  /// answers. Throws ConnectionBroken.
  bool open();

  /// Whether nobody has answered yet.
  bool is_connecting() const { return connecting_; }

  /// Whether TLS vouches for every byte that is read.
  bool is_authenticated() const { return session_ != nullptr; }

  /// Nothing if it showed none; for streams with TLS that are open.
  std::optional<PeerCertificate> peer() const;

  /// Throw ConnectionBroken when the other end is gone. `More`: another write follows at once.
  enum class Then : std::uint8_t { Flush, More };
  std::size_t read(std::span<std::byte> into) override;
  std::size_t write(std::span<const std::byte> bytes, Then then = Then::Flush);

  int socket() const { return socket_; }

  /// Whether the last call stopped because the socket took no more, or has nothing to read.
  bool awaits_room() const { return awaits_room_; }

  /// What the system has seen of late; 0 if it does not say.
  std::chrono::microseconds round_trip() const;

  /// "192.0.2.7:4242".
  std::string remote() const;
  std::string local_host() const;

 private:
  struct Session;
  void close() noexcept;
  void use(int socket);
  bool connect_next();
  std::size_t outcome(int result, const char* doing);
  std::size_t write_sealed(std::span<const std::byte> bytes, Then then);

  int socket_ = -1;
  bool connecting_ = false;
  bool shaking_hands_ = false;
  bool awaits_room_ = false;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Dialling> dialling_;  ///< while it connects
};

}  // namespace cleave::comm
