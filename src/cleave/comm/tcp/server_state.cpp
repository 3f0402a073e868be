#include "cleave/comm/tcp/server_state.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/use_awaitable.hpp>

#include "cleave/base/check.h"
#include "cleave/base/units.h"

namespace cleave::comm {
namespace {

using namespace std::chrono_literals;
using SessionPointer = std::shared_ptr<Session>;

// How often silent devices are looked for. A look that comes much later than it should was missed
// because the server itself was stopped or had no processor, and so were the devices' signs of
// life.
constexpr auto kWatchEvery = 250ms;
constexpr auto kWatchMissed = 1s;

// Of what happened, so much is told to those who ask.
constexpr std::size_t kToldEvents = 10;

}  // namespace

Server::State::State(ServerSetup given)
    : setup(std::move(given)),
      seats(setup.needs, setup.owners, setup.latecomers),
      door(context, door_setup()) {
  asio::co_spawn(context, watch(), asio::detached);
}

DoorSetup Server::State::door_setup() {
  const auto request = [this](const char* name, std::size_t fields, auto method) {
    return Request{name, fields, [this, method](SessionPointer session, const Letter& letter) {
                     return (this->*method)(std::move(session), letter);
                   }};
  };
  return {
      .listen = setup.listen,
      .registry = setup.registry,
      .first_word_within = setup.first_word_within,
      .requests = {request("join", 8, &State::join), request("status", 2, &State::tell_status),
                   request("relay", 4, &State::relay), request("answer", 3, &State::answer_call)},
      .log = [this](const std::string& line) { log(line); },
      .on_end = [this](const Session& session, const std::string& why) { lose(session, why); }};
}

asio::awaitable<void> Server::State::join(SessionPointer session, const Letter& letter) {
  sit_down(session, letter);
  for (;;) {
    const Letter said = co_await session->next();
    hear(*session, said);
  }
}

void Server::State::sit_down(const SessionPointer& session, const Letter& letter) {
  const std::int64_t port = number_in(letter[4]);
  admit(port <= 65535, "port ", port);
  const bool own = letter[6] == own_key;
  const std::int64_t threads = number_in(letter[5]);
  admit(threads == 0 || threads >= setup.threads, "it offers ", threads,
        " threads, and devices.threads is ", setup.threads);
  check_device_name(letter[2]);
  if (!own) check_owner(*session, letter[7]);
  seats.take({.session = session,
              .name = letter[2],
              .owner = letter[7],
              .host = own ? "" : parse_address(session->remote()).host,
              .memory = number_in(letter[3]),
              .port = static_cast<std::uint16_t>(port),
              .fingerprint = door.fingerprint_of(*session)},
             own ? Seats::Whose::Own : Seats::Whose::Other);
  const std::size_t to_come = seats.epoch() == 0 ? seats.to_come() : 0;
  if (own) return roll.update(seats);
  if (seats.epoch() > 0) newcomers = true;
  note(MemberEvent{
      .kind = MemberEvent::Kind::Joined,
      .device = letter[2],
      .text = detail::concat("\"", letter[2], "\" at ", session->remote(), " has joined",
                             to_come > 0 ? detail::concat("; ", to_come, " to come") : "")});
  if (to_come > 0) return seats.tell_all({"waiting", std::to_string(to_come)});
  session->post({"waiting", "0"});
}

/// So that nobody joins in the name of another who has enrolled.
void Server::State::check_owner(Session& session, const std::string& owner) const {
  if (owner.empty() || setup.registry == nullptr) return;
  const std::optional<PeerCertificate> peer = session.stream().peer();
  admit(peer && peer->name == owner, "it joins as owner \"", owner,
        "\", and its certificate is of \"", peer ? peer->name : "", "\"; enrol it with --name ",
        owner);
}

/// A device's letters once it has joined.
void Server::State::hear(Session& session, const Letter& said) {
  struct Word {
    const char* name;
    std::size_t fields;
    void (*act)(State& state, Session& session, const Letter& said);
  };
  static constexpr Word kWords[] = {
      {"alive", 1, [](State&, Session&, const Letter&) {}},
      {"ready", 2,
       [](State& state, Session& from, const Letter& letter) {
         state.seats.note_ready(from, number_in(letter[1]));
       }},
      {"failed", 2,
       [](State& state, Session& from, const Letter& letter) { state.lose(from, letter[1]); }},
      {"bye", 1,
       [](State& state, Session& from, const Letter&) { state.note(state.seats.note_bye(from)); }}};
  const auto* word = std::ranges::find_if(kWords, [&](const Word& known) {
    return !said.empty() && said[0] == known.name && said.size() == known.fields;
  });
  admit(word != std::end(kWords), "a letter in the middle of a run");
  seats.note_heard(session);
  word->act(*this, session, said);
  roll.update(seats);
}

/// Its connection may be open still: it must not come back over it.
void Server::State::give_up(const SessionPointer& session, const std::string& why) {
  lose(*session, why);
  session->close();
}

asio::awaitable<void> Server::State::watch() {
  for (Clock::time_point last = Clock::now();;) {
    timer.expires_after(kWatchEvery);
    co_await timer.async_wait(asio::use_awaitable);
    const Clock::time_point now = Clock::now();
    if (now - last > kWatchEvery + kWatchMissed) seats.forgive(now - last);
    last = now;
    const Clock::duration longest = silence;
    for (const SessionPointer& session : seats.silent_since(now - longest))
      give_up(session,
              "silent for " + format_seconds(std::chrono::duration<double>(longest).count()));
    try {
      give_up_revoked();
    } catch (const std::exception& error) {
      log(error.what());  // the next look may find the registry readable again
    }
  }
}

/// Whoever takes a certificate back does so in another process, by the registry that both read.
void Server::State::give_up_revoked() {
  std::vector<std::pair<SessionPointer, std::string>> revoked;
  for (const Seat& seat : seats.all()) {
    if (!seat.is_here() || seat.is_own()) continue;
    const std::string fault = door.fault_of(seat.fingerprint);
    if (!fault.empty()) revoked.emplace_back(seat.session, fault);
  }
  for (const auto& [session, fault] : revoked) give_up(session, fault);
}

void Server::State::note(const std::optional<MemberEvent>& event) {
  if (event && !over) {
    log(event->text);
    told.push_back(event->text);
    if (told.size() > kToldEvents) told.pop_front();
    roll.add(*event);
  }
  roll.update(seats);
}

asio::awaitable<void> Server::State::tell_status(SessionPointer session, const Letter& /*letter*/) {
  door.fingerprint_of(*session);
  RunStatus now;
  {
    const std::lock_guard lock(mutex);
    now = status;
  }
  Letter reply = seats.status(now, told);
  co_await session->send(std::move(reply));
}

/// Of what is passed on between two devices of the present epoch.
Switchboard::Count Server::State::count_between(int first, int second) {
  seats.note_relayed(seats.epoch(), first, second, 0);
  return [this, epoch = seats.epoch(), first, second](std::size_t bytes) {
    seats.note_relayed(epoch, first, second, bytes);
  };
}

asio::awaitable<void> Server::State::relay(SessionPointer session, const Letter& letter) {
  const std::string fingerprint = door.fingerprint_of(*session);
  const Seat* from = seats.device(number_in(letter[2]));
  const Seat* to = seats.device(number_in(letter[3]));
  admit(from != nullptr && to != nullptr && from != to, "no such devices");
  admit(from->fingerprint == fingerprint, "it is not device ", from->device);
  log(detail::concat("device ", from->device, " reaches device ", to->device,
                     " through the server"));
  switchboard.call(session, from->device, *to->session, count_between(from->device, to->device));
  co_return;
}

asio::awaitable<void> Server::State::answer_call(SessionPointer session, const Letter& letter) {
  door.fingerprint_of(*session);
  return switchboard.answer(std::move(session), letter[2]);
}

}  // namespace cleave::comm
