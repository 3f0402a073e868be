#include "cleave/comm/tcp/server.h"

#include <algorithm>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/use_awaitable.hpp>

#include "cleave/base/check.h"
#include "cleave/base/units.h"
#include "cleave/base/version.h"
#include "cleave/comm/tcp/seats.h"
#include "cleave/comm/tcp/session.h"

namespace cleave::comm {
namespace {

using SessionPointer = std::shared_ptr<Session>;
using namespace std::chrono_literals;

// From the first packet to the end of the first letter.
constexpr auto kLongestFirstWord = 10s;

// Of connections that have not said yet who they are; the oldest goes when another one comes.
constexpr std::size_t kMostStrangers = 128;

// What a stranger may make the server hold.
constexpr std::uint64_t kLongestFirstLetter = 4096;

constexpr std::chrono::hours kCertificateValid{90 * 24};

}  // namespace

struct Server::State {
  explicit State(ServerSetup given)
      : setup(std::move(given)), listener(setup.listen), seats(setup.needs) {
    if (setup.registry != nullptr) tls.emplace(setup.registry->authority());
  }

  asio::awaitable<void> accept();
  asio::awaitable<void> serve(SessionPointer session);
  asio::awaitable<void> answer(SessionPointer session, const Letter& letter);
  asio::awaitable<void> join(SessionPointer session, const Letter& letter);
  asio::awaitable<void> enrol(SessionPointer session, const Letter& letter);
  asio::awaitable<void> renew(SessionPointer session, const Letter& letter);
  asio::awaitable<void> tell_status(SessionPointer session, const Letter& letter);
  asio::awaitable<void> relay(SessionPointer session, const Letter& letter);
  asio::awaitable<void> answer_call(SessionPointer session, const Letter& letter);

  static asio::awaitable<void> pass_on(SessionPointer from, SessionPointer to);

  void identify(Session& session, std::string& who) const;
  std::string fingerprint_of(Session& session) const;
  void leave(const Session& session, const std::string& why) {
    if (const auto line = seats.leave(session, why)) note(*line);
  }
  void note(const std::string& line) const {
    if (setup.log) setup.log(line);
  }

  ServerSetup setup;
  std::optional<Tls> tls;
  asio::io_context context{1};
  Listener listener;
  asio::posix::stream_descriptor waiter{context};
  const std::string own_key = random_token();
  Seats seats;
  std::deque<std::weak_ptr<Session>> strangers;
  std::map<std::string, SessionPointer> calls;  ///< relayed ones, by their number
  std::mutex mutex;                             // guards what follows
  RunStatus status;
  std::thread thread;
};

// ── Coming in ────────────────────────────────────────────────────────────────────────────────────

asio::awaitable<void> Server::State::accept() {
  for (;;) {
    co_await waiter.async_wait(asio::posix::stream_descriptor::wait_read, asio::use_awaitable);
    while (std::optional<Stream> stream = listener.accept(tls ? &*tls : nullptr)) {
      auto session = std::make_shared<Session>(context, std::move(*stream), kLongestFirstLetter);
      session->limit(kLongestFirstWord);
      std::erase_if(strangers, [](const auto& stranger) { return stranger.expired(); });
      if (strangers.size() >= kMostStrangers) {
        if (const SessionPointer oldest = strangers.front().lock()) oldest->close();
        strangers.pop_front();
      }
      strangers.push_back(session);
      asio::co_spawn(context, serve(session), asio::detached);
    }
  }
}

asio::awaitable<void> Server::State::serve(SessionPointer session) {
  std::string who = session->remote(), refused;
  try {
    co_await session->open();
    identify(*session, who);
    const Letter letter = co_await session->next();
    session->allow();
    std::erase_if(strangers, [&](const auto& stranger) { return stranger.lock() == session; });
    session->letters().limit(kLongestLetter);
    admit(letter.size() >= 2, "a letter of ", letter.size(), " fields");
    admit(letter[1] == version(), "it runs cleave ", letter[1], ", this is cleave ", version());
    co_await answer(session, letter);
  } catch (const Refusal& error) {
    refused = error.what();
  } catch (const UserError& error) {
    refused = error.what();
  } catch (const ProtocolError& error) {
    refused = error.what();
  } catch (const std::exception& error) {
    if (session->was_late()) note("refused " + who + ": no letter within 10 s");
    leave(*session, error.what());
  }
  if (refused.empty()) co_return;
  note("refused " + who + ": " + refused);
  leave(*session, refused);
  try {
    Letter reply = {"refused", refused};
    co_await session->send(std::move(reply));
  } catch (const std::exception&) {
    // It has gone without waiting for the answer.
  }
}

/// Who shows a certificate must have one that is good; who shows none may only ask for one.
void Server::State::identify(Session& session, std::string& who) const {
  if (!tls) return;
  const std::optional<PeerCertificate> peer = session.stream().peer();
  if (!peer) return;
  who += " (" + peer->name + ")";
  admit(peer->fault.empty(), "its certificate is not accepted: ", peer->fault);
  if (peer->fingerprint == setup.registry->fingerprint()) return;
  const std::string fault = setup.registry->fault_of(peer->fingerprint);
  admit(fault.empty(), fault);
}

std::string Server::State::fingerprint_of(Session& session) const {
  if (!tls) return "";
  const std::optional<PeerCertificate> peer = session.stream().peer();
  admit(peer.has_value(), "it shows no certificate; enrol it first with an invitation");
  return peer->fingerprint;
}

/// Not a coroutine itself: those do not keep tables.
asio::awaitable<void> Server::State::answer(SessionPointer session, const Letter& letter) {
  struct Kind {
    const char* name;
    std::size_t fields;
    asio::awaitable<void> (State::*answer)(SessionPointer, const Letter&);
  };
  static constexpr Kind kKinds[] = {
      {"join", 7, &State::join},   {"enrol", 5, &State::enrol},
      {"renew", 3, &State::renew}, {"status", 2, &State::tell_status},
      {"relay", 4, &State::relay}, {"answer", 3, &State::answer_call}};
  const auto kind =
      std::ranges::find_if(kKinds, [&](const Kind& k) { return letter[0] == k.name; });
  admit(kind != std::end(kKinds), "a letter that there is not");
  admit(letter.size() == kind->fields, "a letter \"", kind->name, "\" of ", letter.size(),
        " fields where ", kind->fields, " are due");
  return (this->*kind->answer)(std::move(session), letter);
}

// ── Certificates ─────────────────────────────────────────────────────────────────────────────────

asio::awaitable<void> Server::State::enrol(SessionPointer session, const Letter& letter) {
  admit(tls.has_value(), "this server uses no certificates");
  const std::string certificate =
      setup.registry->enrol(letter[2], letter[3], letter[4], kCertificateValid);
  note("enrolled " + session->remote() + " as \"" + letter[4] + "\"");
  Letter reply = {"certificate", certificate, setup.registry->authority().certificate};
  co_await session->send(std::move(reply));
}

asio::awaitable<void> Server::State::renew(SessionPointer session, const Letter& letter) {
  const std::string fingerprint = fingerprint_of(*session);
  const std::string certificate = setup.registry->renew(fingerprint, letter[2], kCertificateValid);
  note("renewed the certificate of " + session->remote());
  Letter reply = {"certificate", certificate, setup.registry->authority().certificate};
  co_await session->send(std::move(reply));
}

// ── Devices ──────────────────────────────────────────────────────────────────────────────────────

asio::awaitable<void> Server::State::join(SessionPointer session, const Letter& letter) {
  const std::int64_t port = number_in(letter[4]);
  admit(port <= 65535, "port ", port);
  const bool own = letter[6] == own_key;
  const std::int64_t threads = number_in(letter[5]);
  admit(threads == 0 || threads >= setup.threads, "it offers ", threads,
        " threads, and devices.threads is ", setup.threads);
  const std::size_t number = seats.take({.session = session,
                                         .name = letter[2],
                                         .host = own ? "" : parse_address(session->remote()).host,
                                         .memory = number_in(letter[3]),
                                         .port = static_cast<std::uint16_t>(port),
                                         .fingerprint = fingerprint_of(*session)},
                                        own ? Seats::Whose::Own : Seats::Whose::Other);
  const std::size_t free = seats.free();
  note(detail::concat("device ", number, " is \"", letter[2], "\" at ", session->remote(),
                      free > 0 ? detail::concat("; ", free, " to come") : ""));
  if (free == 0) {
    seats.begin(setup.run, setup.program);
  } else {
    seats.tell_all({"waiting", std::to_string(free)});
  }
  for (;;) {
    const Letter said = co_await session->next();
    admit(said.size() == 1 && said[0] == "bye", "a letter in the middle of a run");
    seats.at(number).presence = Seat::Presence::Done;  // its connection may close now
  }
}

asio::awaitable<void> Server::State::tell_status(SessionPointer session, const Letter& /*letter*/) {
  fingerprint_of(*session);
  RunStatus now;
  {
    const std::lock_guard lock(mutex);
    now = status;
  }
  Letter reply = {"status",
                  seats.begun() ? "running" : "waiting",
                  std::to_string(now.step),
                  std::to_string(now.steps),
                  std::to_string(now.loss),
                  std::to_string(now.step_seconds)};
  for (const Seat& seat : seats.all())
    reply.insert(reply.end(), {seat.name, seat.session ? seat.session->remote() : "",
                               std::to_string(seat.memory), to_string(seat.presence)});
  co_await session->send(std::move(reply));
}

// ── What goes through the server ─────────────────────────────────────────────────────────────────

/// The caller waits until the one it calls has opened a connection of its own.
asio::awaitable<void> Server::State::relay(SessionPointer session, const Letter& letter) {
  const std::string fingerprint = fingerprint_of(*session);
  const auto from = static_cast<std::size_t>(number_in(letter[2]));
  const auto to = static_cast<std::size_t>(number_in(letter[3]));
  const std::size_t count = seats.all().size();
  admit(seats.begun() && from < count && to < count && from != to, "no such devices");
  admit(seats.at(from).fingerprint == fingerprint, "it is not device ", from);
  std::erase_if(calls, [](const auto& call) { return call.second->was_late(); });
  const std::string number = random_token();
  calls[number] = session;
  session->limit(kLongestFirstWord);
  note(detail::concat("device ", from, " reaches device ", to, " through the server"));
  seats.at(to).session->post({"call", number});
  co_return;
}

asio::awaitable<void> Server::State::pass_on(SessionPointer from, SessionPointer to) {
  try {
    co_await from->pass_on_to(*to);
  } catch (const std::exception&) {
    // One end is gone; the other is told by the end of its connection.
  }
  from->close();
  to->close();
}

asio::awaitable<void> Server::State::answer_call(SessionPointer session, const Letter& letter) {
  fingerprint_of(*session);
  const auto call = calls.find(letter[2]);
  admit(call != calls.end(), "nobody has called");
  const SessionPointer caller = call->second;
  calls.erase(call);
  caller->allow();
  const Letter connected(1, "connected");
  co_await session->send(connected);
  co_await caller->send(connected);
  asio::co_spawn(context, pass_on(caller, session), asio::detached);
  co_await pass_on(session, caller);
}

// ── The thread ───────────────────────────────────────────────────────────────────────────────────

Server::Server(ServerSetup setup) {
  CLEAVE_CHECK(!setup.needs.empty(), "a run without devices");
  require(setup.registry != nullptr || is_loopback(setup.listen.host),
          "--insecure is for the loopback interface; ", to_string(setup.listen),
          " can be reached from elsewhere: listen on 127.0.0.1, or leave --insecure out");
  state_ = std::make_unique<State>(std::move(setup));
  state_->waiter.assign(state_->listener.socket());
  asio::co_spawn(state_->context, state_->accept(), asio::detached);
  state_->thread = std::thread([this] { state_->context.run(); });
}

Server::~Server() {
  state_->context.stop();
  state_->thread.join();
  state_->waiter.release();
}

Address Server::address() const {
  return {state_->setup.listen.host, state_->listener.port()};
}

const std::string& Server::own_key() const {
  return state_->own_key;
}

void Server::publish(const RunStatus& status) {
  const std::lock_guard lock(state_->mutex);
  state_->status = status;
}

}  // namespace cleave::comm
