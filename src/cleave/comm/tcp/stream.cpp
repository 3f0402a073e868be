#include "cleave/comm/tcp/stream.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cleave/base/check.h"
#include "cleave/comm/tcp/certificate_fault.h"
#include "cleave/comm/tcp/openssl.h"
#include "cleave/comm/tcp/resolve.h"
#include "cleave/comm/tcp/socket_ends.h"

namespace cleave::comm {
namespace {

using SslPointer = std::unique_ptr<SSL, OpensslFree<SSL_free>>;
using ContextPointer = std::unique_ptr<SSL_CTX, OpensslFree<SSL_CTX_free>>;

// Records of TLS have 16 KiB, and 22 B around them. Several pass through a socket at a time, each
// way: a call for every record costs as much as its encryption. With more, the two ends of
// a connection within one machine work in turns rather than at once.
constexpr int kRecord = 16 * 1024, kAroundRecord = 22, kRecordsSent = 8, kRecordsRead = 4;
constexpr int kSealedTogether = kRecordsSent * kRecord;

// Room for that many with what is around them, and for small frames that wait to leave with them:
// what does not fit would leave as a packet of its own, of a few bytes.
constexpr int kSealedRoom = kSealedTogether + kSealedTogether / 2;

// Exactly that many, and the few bytes by which OpenSSL aligns them: what begins with a record
// then ends with one, and no rest of a record needs a call of its own.
constexpr int kReadRoom = kRecordsRead * (kRecord + kAroundRecord) + 3;

/// Faults are noted and judged once the handshake is over, so that a refusal can say why.
int note_fault(int /*well*/, X509_STORE_CTX*) {
  return 1;
}

}  // namespace

// ── TLS ──────────────────────────────────────────────────────────────────────────────────────────

struct Tls::State {
  ContextPointer context;
};

Tls::Tls(const Identity& identity) : state_(std::make_unique<State>()) {
  // OpenSSL writes to sockets whose other end may be gone; the error code is enough.
  std::signal(SIGPIPE, SIG_IGN);
  state_->context.reset(SSL_CTX_new(TLS_method()));
  SSL_CTX* context = state_->context.get();
  CLEAVE_CHECK(context != nullptr, openssl_error());
  SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_read_ahead(context, 1);
  SSL_CTX_set_default_read_buffer_len(context, kReadRoom);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, note_fault);
  if (!identity.key.empty()) {
    SSL_CTX_use_certificate(context, certificate_of_pem(identity.certificate).get());
    SSL_CTX_use_PrivateKey(context, key_of_pem(identity.key).get());
    require(SSL_CTX_check_private_key(context) == 1,
            "the certificate does not belong to the private key beside it");
  }
  if (!identity.authority.empty())
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context),
                        certificate_of_pem(identity.authority).get());
}

Tls::~Tls() = default;

struct Stream::Session {
  SslPointer ssl;
  std::size_t sealed = 0;  ///< bytes of the write in hand that are encrypted, not all of them sent

  /// Puts a buffer between TLS and the socket.
  void gather_records() {
    BIO* const socket = SSL_get_wbio(ssl.get());
    BIO* const buffer = BIO_new(BIO_f_buffer());
    CLEAVE_CHECK(buffer != nullptr && BIO_set_write_buffer_size(buffer, kSealedRoom) == 1,
                 openssl_error());
    BIO_up_ref(socket);
    BIO_push(buffer, socket);
    SSL_set0_wbio(ssl.get(), buffer);
  }
};

// ── One connection ───────────────────────────────────────────────────────────────────────────────

Stream::Stream(int socket, Role role, const Tls* tls) {
  use(socket);
  if (role == Role::Accepts) fit_within_machine(socket_);
  if (tls == nullptr) return;
  session_ = std::make_unique<Session>();
  session_->ssl.reset(SSL_new(tls->state_->context.get()));
  CLEAVE_CHECK(session_->ssl != nullptr, openssl_error());
  SSL_set_fd(session_->ssl.get(), socket_);
  if (role == Role::Connects) {
    SSL_set_connect_state(session_->ssl.get());
  } else {
    SSL_set_accept_state(session_->ssl.get());
  }
  shaking_hands_ = true;
}

void Stream::use(int socket) {
  socket_ = socket;
  fcntl(socket_, F_SETFL, fcntl(socket_, F_GETFL) | O_NONBLOCK);
  const int on = 1;
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

Stream Stream::connect(const Address& address, const Tls* tls) {
  return connect_to_any({address}, tls);
}

Stream Stream::connect_to_any(const std::vector<Address>& addresses, const Tls* tls) {
  auto dialling = std::make_unique<Dialling>(addresses);
  const int socket = dialling->next_socket();
  if (socket < 0)
    throw ConnectionBroken("cannot connect to " + to_string(addresses.front()) + ": " +
                           std::strerror(dialling->error()));
  Stream stream(socket, Role::Connects, tls);
  stream.connecting_ = true;
  stream.dialling_ = std::move(dialling);
  return stream;
}

/// False if no address is left. Nothing was said yet, so that the session needs no other beginning.
bool Stream::connect_next() {
  const int socket = dialling_ ? dialling_->next_socket() : -1;
  if (socket < 0) return false;
  ::close(socket_);
  use(socket);
  if (session_ != nullptr) SSL_set_fd(session_->ssl.get(), socket_);
  awaits_room_ = true;
  return true;
}

Stream::Stream(Stream&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)),
      connecting_(other.connecting_),
      shaking_hands_(other.shaking_hands_),
      awaits_room_(other.awaits_room_),
      session_(std::move(other.session_)),
      dialling_(std::move(other.dialling_)) {}

Stream& Stream::operator=(Stream&& other) noexcept {
  if (this == &other) return *this;
  close();
  socket_ = std::exchange(other.socket_, -1);
  connecting_ = other.connecting_;
  shaking_hands_ = other.shaking_hands_;
  awaits_room_ = other.awaits_room_;
  session_ = std::move(other.session_);
  dialling_ = std::move(other.dialling_);
  return *this;
}

Stream::~Stream() {
  close();
}

void Stream::close() noexcept {
  session_.reset();
  if (socket_ >= 0) ::close(std::exchange(socket_, -1));
}

bool Stream::open() {
  if (connecting_) {
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(socket_, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0 && connect_next()) return false;
    if (error != 0) throw ConnectionBroken(std::strerror(error));
    sockaddr_storage end{};
    size = sizeof end;
    awaits_room_ = true;
    if (getpeername(socket_, reinterpret_cast<sockaddr*>(&end), &size) != 0) return false;
    connecting_ = false;
    dialling_.reset();
    fit_within_machine(socket_);
  }
  awaits_room_ = false;
  if (!shaking_hands_) return true;
  ERR_clear_error();
  const int result = SSL_do_handshake(session_->ssl.get());
  if (result != 1) {
    outcome(result, "the TLS handshake");
    return false;
  }
  shaking_hands_ = false;
  session_->gather_records();
  return true;
}

/// What a result of OpenSSL means: bytes, 0 for "not now", or the end of the connection.
std::size_t Stream::outcome(int result, const char* doing) {
  if (result > 0) return static_cast<std::size_t>(result);
  const int saved = errno;
  const int code = SSL_get_error(session_->ssl.get(), result);
  awaits_room_ = code == SSL_ERROR_WANT_WRITE;
  if (code == SSL_ERROR_WANT_READ || code == SSL_ERROR_WANT_WRITE) return 0;
  std::string why = "closed by the other end";
  if (code == SSL_ERROR_SSL) why = openssl_error();
  if (code == SSL_ERROR_SYSCALL && saved != 0) why = std::strerror(saved);
  ERR_clear_error();
  throw ConnectionBroken(detail::concat(doing, ": ", why));
}

std::optional<PeerCertificate> Stream::peer() const {
  const X509Pointer certificate(
      session_ == nullptr ? nullptr : SSL_get1_peer_certificate(session_->ssl.get()));
  if (certificate == nullptr) return std::nullopt;
  const long fault = SSL_get_verify_result(session_->ssl.get());
  return PeerCertificate{.name = name_of(*certificate),
                         .fingerprint = fingerprint_of(*certificate),
                         .fault = certificate_fault(*certificate, fault)};
}

std::size_t Stream::read(std::span<std::byte> into) {
  if (session_ != nullptr) {
    ERR_clear_error();
    errno = 0;
    const int size = static_cast<int>(std::min<std::size_t>(into.size(), INT_MAX));
    return outcome(SSL_read(session_->ssl.get(), into.data(), size), "reading");
  }
  const ssize_t bytes = recv(socket_, into.data(), into.size(), 0);
  if (bytes > 0) return static_cast<std::size_t>(bytes);
  if (bytes == 0) throw ConnectionBroken("closed by the other end");
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return 0;
  throw ConnectionBroken(std::string("reading: ") + std::strerror(errno));
}

std::size_t Stream::write(std::span<const std::byte> bytes, Then then) {
  awaits_room_ = false;
  if (bytes.empty()) return 0;
  if (session_ != nullptr) return write_sealed(bytes, then);
  const int flags = MSG_NOSIGNAL | (then == Then::More ? MSG_MORE : 0);
  const ssize_t sent = send(socket_, bytes.data(), bytes.size(), flags);
  if (sent >= 0) return static_cast<std::size_t>(sent);
  awaits_room_ = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
  if (awaits_room_) return 0;
  throw ConnectionBroken(std::string("writing: ") + std::strerror(errno));
}

/// Encrypts record after record, then sends them together. What is encrypted counts as written once
/// all of it is sent; until then the same bytes are handed over again, as OpenSSL itself wants it.
std::size_t Stream::write_sealed(std::span<const std::byte> bytes, Then then) {
  SSL* const ssl = session_->ssl.get();
  std::size_t& sealed = session_->sealed;
  ERR_clear_error();
  errno = 0;
  const std::size_t most = std::min<std::size_t>(bytes.size(), kSealedTogether);
  while (sealed < most) {
    const int size = static_cast<int>(most - sealed);
    const std::size_t taken = outcome(SSL_write(ssl, bytes.data() + sealed, size), "writing");
    if (taken == 0) return 0;
    sealed += taken;
  }
  if (then == Then::Flush && BIO_flush(SSL_get_wbio(ssl)) <= 0) {
    awaits_room_ = BIO_should_retry(SSL_get_wbio(ssl));
    if (awaits_room_) return 0;
    throw ConnectionBroken(std::string("writing: ") + std::strerror(errno));
  }
  return std::exchange(sealed, 0);
}

std::chrono::microseconds Stream::round_trip() const {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(socket_, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return {};
  return std::chrono::microseconds(info.tcpi_rtt);
}

std::string Stream::remote() const {
  return remote_end(socket_);
}

std::string Stream::local_host() const {
  const std::string host = host_here(socket_);
  return host.empty() ? "nowhere" : host;
}

}  // namespace cleave::comm
