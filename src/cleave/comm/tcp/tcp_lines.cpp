#include "cleave/comm/tcp/tcp_lines.h"

#include <algorithm>
#include <utility>

#include "cleave/base/check.h"
#include "cleave/base/units.h"
#include "cleave/base/utf8.h"
#include "cleave/base/version.h"

namespace cleave::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

// A call that nobody answers is given up after this, and tried again.
constexpr seconds kLongestCall{5};
constexpr milliseconds kCallAgain{50};

// So many calls without an answer, and the next one goes through the server.
constexpr int kDirectCalls = 2;

// Strangers that connect and say nothing must not use up a device's sockets.
constexpr std::size_t kMostOpenings = 64;

// How often broken lines are looked at while a device waits.
constexpr milliseconds kLook{20};

}  // namespace

TcpLines::TcpLines(TcpSetup setup) : setup_(std::move(setup)) {
  CLEAVE_CHECK(0 <= device() && device() < devices(), "device ", device(), " of ", devices());
  const Clock::time_point now = Clock::now();
  for (int peer = 0; peer < devices(); ++peer) {
    Line& line = lines_.emplace_back();
    line.broken_since = line.call_again = now;
    if (peer == device()) continue;
    line.link = std::make_unique<TcpLink>(device(), peer, setup_.epoch, setup_.early_bytes);
  }
  polled_.reserve(2 * lines_.size() + kMostOpenings + 2);
  await_all();
}

void TcpLines::await_all() {
  const Clock::time_point deadline = Clock::now() + setup_.open_within;
  const auto is_missing = [](const Line& line) { return line.link && !line.link->connected(); };
  for (auto missing = std::ranges::find_if(lines_, is_missing); missing != lines_.end();
       missing = std::ranges::find_if(lines_, is_missing)) {
    look_after_lines();
    await_sockets(kLook);
    // What it said may have come together with the news of the epoch, and is not on the socket.
    if (setup_.server != nullptr) listen_to_server();
    if (setup_.server != nullptr && !setup_.server->epoch_over().empty())
      throw DeviceLost(setup_.server->epoch_over());
    if (!missing->link->why_lost().empty()) throw DeviceLost(missing->link->why_lost());
    if (!is_missing(*missing) || Clock::now() < deadline) continue;
    throw DeviceLost(
        detail::concat("device ", missing->link->peer(), " did not come within ",
                       format_seconds(std::chrono::duration<double>(setup_.open_within).count()),
                       missing->last_error.empty() ? "" : " (" + missing->last_error + ")"));
  }
}

bool TcpLines::await_sockets(Clock::duration most) {
  polled_.clear();
  polled_.push_back({.fd = setup_.listener->socket(), .events = POLLIN, .revents = 0});
  if (setup_.server != nullptr)
    polled_.push_back({.fd = setup_.server->socket(), .events = POLLIN, .revents = 0});
  const auto add = [&](int socket, bool awaits_room) {
    const int events = POLLIN | (awaits_room ? POLLOUT : 0);
    polled_.push_back({.fd = socket, .events = static_cast<short>(events), .revents = 0});
  };
  bool whole = true;
  for (const Line& line : lines_) {
    if (line.link && line.link->connected()) add(line.link->socket(), line.link->awaits_room());
    if (line.link && !line.link->connected() && !line.link->ended()) whole = false;
  }
  for (const auto& opening : openings_) add(opening->socket(), opening->awaits_room());
  if (!whole || !openings_.empty()) most = std::min<Clock::duration>(most, kLook);
  const auto ns = std::chrono::duration_cast<nanoseconds>(most).count();
  const timespec timeout{.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
  const int ready = ppoll(polled_.data(), polled_.size(), &timeout, nullptr);
  if (ready > 0) {
    for (Line& line : lines_) {
      if (line.link) line.link->advance();
    }
    if (setup_.server != nullptr) listen_to_server();
  }
  if (ready > 0 || !whole || !openings_.empty()) look_after_lines();
  return ready > 0;
}

void TcpLines::look_after_lines() {
  const Clock::time_point now = Clock::now();
  while (openings_.size() < kMostOpenings) {
    std::optional<Stream> stream = setup_.listener->accept(setup_.tls);
    if (!stream) break;
    openings_.push_back(std::make_unique<Opening>(std::move(*stream), now + kLongestCall));
  }
  look_after_openings();
  for (Line& line : lines_) {
    if (!line.link || line.link->ended()) continue;
    if (line.link->connected()) {
      line.was_connected = true;
      line.broken_since = now;
      continue;
    }
    if (line.was_connected && now - line.broken_since >= setup_.resume_within) {
      line.link->lose(
          detail::concat("device ", line.link->peer(), " is lost (", line.link->last_break(), ")"));
      continue;
    }
    if (device() > line.link->peer() && now >= line.call_again) call(line);
  }
}

void TcpLines::call(Line& line) {
  const int peer = line.link->peer();
  const bool calling = std::ranges::any_of(openings_, [&](const auto& opening) {
    return opening->calls() && opening->callee() == peer;
  });
  if (calling) return;
  line.call_again = Clock::now() + kCallAgain;
  // A device that does not answer may still be within the server's reach.
  const bool relayed = setup_.server != nullptr && line.failed_calls >= kDirectCalls;
  const Greeting greeting{.from = device(),
                          .to = peer,
                          .epoch = setup_.epoch,
                          .program = setup_.program,
                          .seen = line.link->seen()};
  try {
    const Address& to = relayed ? setup_.server->server().address
                                : setup_.peers[static_cast<std::size_t>(peer)].address;
    auto opening = std::make_unique<Opening>(Stream::connect(to, setup_.tls), greeting,
                                             Clock::now() + kLongestCall);
    if (relayed)
      opening->go_through_server({.server = setup_.server->server(),
                                  .request = {"relay", std::string(version()),
                                              std::to_string(device()), std::to_string(peer)},
                                  .other = peer});
    openings_.push_back(std::move(opening));
  } catch (const ConnectionBroken& error) {
    line.last_error = error.what();
    ++line.failed_calls;
  }
}

/// Answers those who call through it, and gives up when it says that the epoch is over.
void TcpLines::listen_to_server() {
  ServerLine& server = *setup_.server;
  server.advance();
  for (const ServerLine::Call& call : server.take_calls()) {
    try {
      auto opening = std::make_unique<Opening>(Stream::connect(server.server().address, setup_.tls),
                                               Clock::now() + kLongestCall);
      opening->go_through_server({.server = server.server(),
                                  .request = {"answer", std::string(version()), call.number},
                                  .other = call.from});
      openings_.push_back(std::move(opening));
    } catch (const ConnectionBroken&) {
      // The one who called tries again.
    }
  }
  // Without one of its devices, or without the server, no step of this epoch comes to its end.
  if (server.epoch_over().empty()) return;
  for (Line& line : lines_) {
    if (line.link && !line.link->ended()) line.link->lose(server.epoch_over());
  }
}

void TcpLines::look_after_openings() {
  const Opening::Judge judge = [this](const Greeting& greeting, const Opening& opening) {
    return this->judge(greeting, opening);
  };
  for (auto& opening : openings_) {
    try {
      if (!opening->advance(judge)) continue;
      Line& line = lines_[static_cast<std::size_t>(opening->greeting().from)];
      const Integrity integrity = opening->integrity();  // asks the stream, before it is released
      line.link->attach(opening->release_stream(), opening->release_reader(),
                        opening->greeting().seen, integrity);
      line.link->advance();
      line.failed_calls = 0;
    } catch (const std::exception& error) {
      note_failure(*opening, error.what());
    }
    opening.reset();
  }
  std::erase(openings_, nullptr);
}

void TcpLines::note_failure(const Opening& opening, const std::string& reason) {
  const int other = opening.calls() ? opening.callee() : opening.greeting().from;
  if (other < 0 || other >= devices()) return;
  lines_[static_cast<std::size_t>(other)].last_error = printable_line(reason);
  if (opening.calls()) ++lines_[static_cast<std::size_t>(other)].failed_calls;
}

/// By its own certificate, or by the word of the server, which has seen that. Otherwise every
/// device of the run could take the place of another.
void TcpLines::check_identity(int device, const Opening& opening) const {
  if (opening.relayed()) {
    if (device != opening.vouched())
      throw ProtocolError(detail::concat("it says that it is device ", device,
                                         ", and the server that it is device ", opening.vouched()));
    return;
  }
  if (setup_.tls == nullptr) return;
  const std::optional<PeerCertificate> certificate = opening.stream().peer();
  if (!certificate) throw ProtocolError(detail::concat("device ", device, " shows no certificate"));
  if (certificate->fingerprint != setup_.peers[static_cast<std::size_t>(device)].fingerprint)
    throw ProtocolError(detail::concat("the certificate of \"", certificate->name,
                                       "\" is not that of device ", device));
}

/// Whether the other end is the device that it says, in this epoch and with this program.
std::uint64_t TcpLines::judge(const Greeting& greeting, const Opening& opening) {
  const bool known = greeting.to == device() && 0 <= greeting.from && greeting.from < devices() &&
                     greeting.from != device();
  if (!known)
    throw ProtocolError(detail::concat("a greeting from device ", greeting.from, " to device ",
                                       greeting.to, " reached device ", device(), " of ",
                                       devices()));
  check_identity(greeting.from, opening);
  if (greeting.epoch != setup_.epoch)
    throw ProtocolError(
        detail::concat("it is in epoch ", greeting.epoch, ", this is epoch ", setup_.epoch));
  if (greeting.program != setup_.program)
    throw ProtocolError(detail::concat("it runs program ", greeting.program,
                                       ", this device runs program ", setup_.program));
  if (greeting.integrity != opening.integrity())
    throw ProtocolError(detail::concat("its payloads are vouched for by ",
                                       name_of(greeting.integrity), ", on this connection by ",
                                       name_of(opening.integrity())));
  TcpLink& link = *lines_[static_cast<std::size_t>(greeting.from)].link;
  // Frames of a lost link may be of messages whose memory is no longer there.
  if (!link.why_lost().empty()) throw ProtocolError(link.why_lost());
  // What is still on its way over an older connection will come again over this one.
  link.disconnect("replaced by another");
  return link.seen();
}

}  // namespace cleave::comm
