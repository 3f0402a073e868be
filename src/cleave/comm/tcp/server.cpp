#include "cleave/comm/tcp/server.h"

#include <algorithm>
#include <utility>

#include <asio/post.hpp>

#include "cleave/base/check.h"
#include "cleave/comm/tcp/server_state.h"

namespace cleave::comm {
namespace {

constexpr std::chrono::seconds kLongestDeparture{2};

}  // namespace

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
      for (const State::SessionPointer& session : state_->seats.running())
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
  state_->silence = std::max(longest, State::kShortestSilence);
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
