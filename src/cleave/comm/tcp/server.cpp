#include "cleave/comm/tcp/server.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <thread>

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>

#include "cleave/base/check.h"
#include "cleave/base/units.h"
#include "cleave/comm/tcp/door.h"
#include "cleave/comm/tcp/roll.h"
#include "cleave/comm/tcp/seats.h"
#include "cleave/comm/tcp/switchboard.h"

namespace cleave::comm {
namespace {

using SessionPointer = std::shared_ptr<Session>;
using namespace std::chrono_literals;

// How often silent devices are looked for. A look that comes much later than it should was missed
// because the server itself was stopped or had no processor, and so were the devices' signs of
// life.
constexpr auto kWatchEvery = 250ms;
constexpr auto kWatchMissed = 1s;

constexpr Clock::duration kShortestSilence = 3s;
constexpr auto kLongestDeparture = 2s;

// Of what happened, so much is told to those who ask.
constexpr std::size_t kToldEvents = 10;

}  // namespace

struct Server::State {
  explicit State(ServerSetup given)
      : setup(std::move(given)),
        seats(setup.needs, setup.owners, setup.latecomers),
        door(context, door_setup()) {
    asio::co_spawn(context, watch(), asio::detached);
  }

  DoorSetup door_setup();
  asio::awaitable<void> watch();
  asio::awaitable<void> join(SessionPointer session, const Letter& letter);
  asio::awaitable<void> tell_status(SessionPointer session, const Letter& letter);
  asio::awaitable<void> relay(SessionPointer session, const Letter& letter);
  asio::awaitable<void> answer_call(SessionPointer session, const Letter& letter);

  void sit_down(const SessionPointer& session, const Letter& letter);
  void check_owner(Session& session, const std::string& owner) const;
  void hear(Session& session, const Letter& said);
  void lose(const Session& session, const std::string& why) { note(seats.lose(session, why)); }
  void give_up(const SessionPointer& session, const std::string& why);
  void note(const std::optional<MemberEvent>& event);
  void log(const std::string& line) const {
    if (setup.log) setup.log(line);
  }

  ServerSetup setup;
  asio::io_context context{1};
  const std::string own_key = random_token();
  Seats seats;
  Switchboard switchboard{context};
  std::deque<std::string> told;  ///< what happened last
  Door door;
  asio::steady_timer timer{context};
  std::atomic<bool> newcomers = false;
  std::int64_t last_known = 0;  ///< seat, to whoever plans the next epoch
  std::atomic<Clock::duration> silence = kShortestSilence;
  Roll roll;
  bool over = false;  ///< the run is, and who leaves needs no mention
  std::mutex mutex;   // guards what follows
  RunStatus status;
  std::thread thread;
};

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

// ── Devices ──────────────────────────────────────────────────────────────────────────────────────

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
  }
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

// ── Those who ask, and those who cannot reach each other ─────────────────────────────────────────

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

asio::awaitable<void> Server::State::relay(SessionPointer session, const Letter& letter) {
  const std::string fingerprint = door.fingerprint_of(*session);
  const Seat* from = seats.device(number_in(letter[2]));
  const Seat* to = seats.device(number_in(letter[3]));
  admit(from != nullptr && to != nullptr && from != to, "no such devices");
  admit(from->fingerprint == fingerprint, "it is not device ", from->device);
  seats.note_relayed(from->device, to->device);
  log(detail::concat("device ", from->device, " reaches device ", to->device,
                     " through the server"));
  switchboard.call(session, *to->session);
  co_return;
}

asio::awaitable<void> Server::State::answer_call(SessionPointer session, const Letter& letter) {
  door.fingerprint_of(*session);
  return switchboard.answer(std::move(session), letter[2]);
}

// ── What other threads ask for ───────────────────────────────────────────────────────────────────

Server::Server(ServerSetup setup) {
  CLEAVE_CHECK(!setup.needs.empty(), "a run without devices");
  require(setup.registry != nullptr || is_loopback(setup.listen.host),
          "--insecure is for the loopback interface; ", to_string(setup.listen),
          " can be reached from elsewhere: listen on 127.0.0.1, or leave --insecure out");
  state_ = std::make_unique<State>(std::move(setup));
  state_->thread = std::thread([this] { state_->context.run(); });
}

Server::~Server() {
  state_->context.stop();
  state_->thread.join();
}

Address Server::address() const {
  return {state_->setup.listen.host, state_->door.port()};
}

const std::string& Server::own_key() const {
  return state_->own_key;
}

std::vector<Candidate> Server::await_ready(std::size_t least, Clock::duration patience,
                                           const std::function<bool()>& gives_up) {
  std::vector<Candidate> ready = state_->roll.await_ready(least, patience, gives_up, [this] {
    asio::post(state_->context, [this] {
      for (const SessionPointer& session : state_->seats.running())
        state_->give_up(session, "it did not give up its step in time");
    });
  });
  if (!ready.empty()) state_->last_known = ready.back().seat;
  return ready;
}

void Server::begin(const EpochSetup& epoch) {
  asio::post(state_->context, [this, epoch, known = state_->last_known] {
    // Somebody may have joined while the plan was made.
    state_->newcomers = std::ranges::any_of(state_->seats.all(), [&](const Seat& seat) {
      return seat.is_here() && seat.number > std::max<std::int64_t>(0, known);
    });
    state_->seats.begin(epoch);
    state_->roll.update(state_->seats);
  });
}

bool Server::has_newcomers() const {
  return state_->newcomers;
}

std::vector<MemberEvent> Server::take_events() {
  return state_->roll.take_events();
}

void Server::set_silence(Clock::duration longest) {
  state_->silence = std::max(longest, kShortestSilence);
}

void Server::publish(const RunStatus& status) {
  const std::lock_guard lock(state_->mutex);
  state_->status = status;
}

void Server::end(const std::string& failure) {
  asio::post(state_->context, [this, failure] {
    state_->over = true;
    state_->seats.tell_all({"end", failure});
  });
  state_->roll.await_departure(kLongestDeparture);
}

}  // namespace cleave::comm
