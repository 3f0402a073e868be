#include "cleave/comm/tcp/door.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>

#include "cleave/base/check.h"
#include "cleave/base/units.h"
#include "cleave/base/version.h"
#include "cleave/comm/tcp/seats.h"

namespace cleave::comm {
namespace {

using SessionPointer = std::shared_ptr<Session>;

// Of connections that have not said yet who they are; the oldest goes when another one comes.
constexpr std::size_t kMostStrangers = 128;

// What a stranger may make the server hold.
constexpr std::uint64_t kLongestFirstLetter = 4096;

constexpr std::chrono::hours kCertificateValid{90 * 24};

constexpr std::chrono::milliseconds kLookForRoom{100};

}  // namespace

Door::Door(asio::io_context& context, DoorSetup setup)
    : context_(context),
      setup_(std::move(setup)),
      listener_(setup_.listen),
      waiter_(context, listener_.socket()) {
  if (setup_.registry != nullptr) tls_.emplace(setup_.registry->authority());
  const auto add = [&](const char* name, std::size_t fields, auto method) {
    setup_.requests.push_back(
        {name, fields, [this, method](SessionPointer session, const Letter& letter) {
           return (this->*method)(std::move(session), letter);
         }});
  };
  add("enrol", 5, &Door::enrol);
  add("renew", 3, &Door::renew);
  asio::co_spawn(context_, accept(), asio::detached);
}

// The listener closes the socket.
Door::~Door() {
  waiter_.release();
}

asio::awaitable<void> Door::accept() {
  for (;;) {
    co_await waiter_.async_wait(asio::posix::stream_descriptor::wait_read, asio::use_awaitable);
    while (std::optional<Stream> stream = listener_.accept(tls_ ? &*tls_ : nullptr)) {
      lacks_room_ = false;
      welcome(std::move(*stream));
    }
    if (!listener_.lack().empty()) co_await await_room();
  }
}

/// Who cannot be let in stays at the door, which would be opened again and again.
asio::awaitable<void> Door::await_room() {
  if (!std::exchange(lacks_room_, true))
    setup_.log("cannot let anybody in: " + listener_.lack() + "; see ulimit -n");
  asio::steady_timer timer(context_, kLookForRoom);
  co_await timer.async_wait(asio::use_awaitable);
}

void Door::welcome(Stream stream) {
  auto session = std::make_shared<Session>(context_, std::move(stream), kLongestFirstLetter);
  session->limit(setup_.first_word_within);
  std::erase_if(strangers_, [](const auto& stranger) { return stranger.expired(); });
  if (strangers_.size() >= kMostStrangers) {
    if (const SessionPointer oldest = strangers_.front().lock()) {
      setup_.log(detail::concat("refused ", oldest->remote(), ": ", kMostStrangers,
                                " others have come since, and it has said nothing yet"));
      oldest->close();
    }
    strangers_.pop_front();
  }
  strangers_.push_back(session);
  asio::co_spawn(context_, serve(session), asio::detached);
}

asio::awaitable<void> Door::serve(SessionPointer session) {
  std::string who = session->remote(), refused;
  Stage stage = Stage::Opening;
  try {
    co_await session->open();
    stage = Stage::Listening;
    identify(*session, who);
    const Letter letter = co_await session->next();
    session->allow();
    stage = Stage::Answering;
    std::erase_if(strangers_, [&](const auto& stranger) { return stranger.lock() == session; });
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
    note_end(session, stage, who, error.what());
    setup_.on_end(*session, error.what());
  }
  if (refused.empty()) co_return;
  setup_.log("refused " + who + ": " + refused);
  setup_.on_end(*session, refused);
  try {
    Letter reply = {"refused", refused};
    co_await session->send(std::move(reply));
  } catch (const std::exception&) {
    // It has gone without waiting for the answer.
  }
}

/// Of connections that broke before they had said what they want; what becomes of the others is
/// known to who answers them. One that only came and went needs no mention.
void Door::note_end(const SessionPointer& session, Stage stage, const std::string& who,
                    const std::string& why) const {
  const std::chrono::duration<double> longest = setup_.first_word_within;
  if (session->was_late())
    return setup_.log("refused " + who + ": no letter within " + format_seconds(longest.count()));
  const bool gave_way = std::ranges::none_of(
      strangers_, [&](const auto& stranger) { return stranger.lock() == session; });
  if (gave_way) return;
  if (stage == Stage::Opening && tls_) setup_.log("refused " + who + ": no TLS: " + why);
  if (stage == Stage::Listening && session->letters().is_within_letter())
    setup_.log("refused " + who + ": it ended in the middle of its first letter");
}

/// Who shows a certificate must have one that is good; who shows none may only ask for one.
void Door::identify(Session& session, std::string& who) const {
  if (!tls_) return;
  const std::optional<PeerCertificate> peer = session.stream().peer();
  if (!peer) return;
  who += " (" + peer->name + ")";
  admit(peer->fault.empty(), "its certificate is not accepted: ", peer->fault);
  const std::string fault = fault_of(peer->fingerprint);
  admit(fault.empty(), fault);
}

/// The server's own certificate is in no list.
std::string Door::fault_of(const std::string& fingerprint) const {
  if (!tls_ || fingerprint == setup_.registry->fingerprint()) return "";
  return setup_.registry->fault_of(fingerprint);
}

std::string Door::fingerprint_of(Session& session) const {
  if (!tls_) return "";
  const std::optional<PeerCertificate> peer = session.stream().peer();
  admit(peer.has_value(), "it shows no certificate; enrol it first with an invitation");
  return peer->fingerprint;
}

/// Not a coroutine itself: what it finds outlives the call.
asio::awaitable<void> Door::answer(SessionPointer session, const Letter& letter) {
  const auto request = std::ranges::find_if(
      setup_.requests, [&](const Request& known) { return letter[0] == known.name; });
  admit(request != setup_.requests.end(), "a letter that there is not");
  admit(letter.size() == request->fields, "a letter \"", request->name, "\" of ", letter.size(),
        " fields where ", request->fields, " are due");
  return request->answer(std::move(session), letter);
}

asio::awaitable<void> Door::enrol(SessionPointer session, const Letter& letter) {
  admit(tls_.has_value(), "this server uses no certificates");
  const std::string certificate =
      setup_.registry->enrol(letter[2], letter[3], letter[4], kCertificateValid);
  setup_.log("enrolled " + session->remote() + " as \"" + letter[4] + "\"");
  Letter reply = {"certificate", certificate, setup_.registry->authority().certificate};
  co_await session->send(std::move(reply));
}

asio::awaitable<void> Door::renew(SessionPointer session, const Letter& letter) {
  admit(tls_.has_value(), "this server uses no certificates");
  const std::string fingerprint = fingerprint_of(*session);
  const std::string certificate = setup_.registry->renew(fingerprint, letter[2], kCertificateValid);
  setup_.log("renewed the certificate of " + session->remote());
  Letter reply = {"certificate", certificate, setup_.registry->authority().certificate};
  co_await session->send(std::move(reply));
}

}  // namespace cleave::comm
