#include "cleave/comm/tcp/opening.h"

#include <utility>

#include "cleave/base/check.h"
#include "cleave/base/version.h"

namespace cleave::comm {
namespace {

// What a stranger may make us hold.
constexpr std::uint64_t kLongestGreeting = 4096;

constexpr const char* kGreeting = "device";
constexpr const char* kWelcome = "welcome";
constexpr const char* kRefused = "refused";
constexpr const char* kConnected = "connected";

Integrity integrity_in(const std::string& field) {
  for (const Integrity each : {Integrity::Checksum, Integrity::Connection})
    if (field == name_of(each)) return each;
  throw ProtocolError("payloads that neither checksums nor the connection vouch for");
}

}  // namespace

Letter letter_of(const Greeting& greeting) {
  return {kGreeting,
          std::string(version()),
          std::to_string(greeting.from),
          std::to_string(greeting.to),
          std::to_string(greeting.epoch),
          greeting.program,
          std::to_string(greeting.seen),
          name_of(greeting.integrity)};
}

const char* name_of(Integrity integrity) {
  return integrity == Integrity::Checksum ? "checksums" : "the connection";
}

Greeting read_greeting(const Letter& letter) {
  if (letter.size() != 8 || letter[0] != kGreeting)
    throw ProtocolError("something else than the greeting of a device");
  if (letter[1] != version())
    throw ProtocolError(
        detail::concat("it runs cleave ", letter[1], ", this is cleave ", version()));
  return {.from = static_cast<int>(number_in(letter[2])),
          .to = static_cast<int>(number_in(letter[3])),
          .epoch = static_cast<std::uint32_t>(number_in(letter[4])),
          .program = letter[5],
          .seen = static_cast<std::uint64_t>(number_in(letter[6])),
          .integrity = integrity_in(letter[7])};
}

Opening::Opening(Stream stream, Clock::time_point deadline)
    : stream_(std::move(stream)), calls_(false), deadline_(deadline), letters_(kLongestGreeting) {}

Opening::Opening(Stream stream, Greeting greeting, Clock::time_point deadline)
    : stream_(std::move(stream)),
      calls_(true),
      callee_(greeting.to),
      greeting_(std::move(greeting)),
      deadline_(deadline),
      letters_(kLongestGreeting) {}

bool Opening::advance(const Judge& judge) {
  if (Clock::now() >= deadline_) throw ConnectionBroken("no greeting in time");
  if (at_ == At::Handshake) {
    if (!stream_.open()) return false;
    if (relayed()) {
      check_is_server(stream_, relay_->server);
      letters_.put(relay_->request);
      at_ = At::Server;
    } else {
      begin_letters(judge);
    }
  }
  if (!letters_.flush(stream_)) return false;
  if (at_ == At::Server) {
    const std::optional<Letter> letter = letters_.take(stream_);
    if (!letter) return false;
    if (*letter != Letter{kConnected})
      throw ProtocolError("the server does not connect: " +
                          (letter->empty() ? "it answers with nothing" : letter->back()));
    begin_letters(judge);
    if (!letters_.flush(stream_)) return false;
  }
  if (at_ == At::Letters) {
    const std::optional<Letter> letter = letters_.take(stream_);
    if (!letter || !answer(*letter, judge)) return false;
    at_ = At::Answered;
  }
  return letters_.flush(stream_);
}

void Opening::begin_letters(const Judge& judge) {
  at_ = At::Letters;
  if (!calls_) return;
  greeting_.integrity = integrity();
  Greeting theirs = greeting_;
  std::swap(theirs.from, theirs.to);
  judge(theirs, *this);
  letters_.put(letter_of(greeting_));
}

bool Opening::answer(const Letter& letter, const Judge& judge) {
  if (calls_) {
    if (letter.size() == 2 && letter[0] == kRefused) throw ProtocolError(letter[1]);
    if (letter.size() != 2 || letter[0] != kWelcome)
      throw ProtocolError("neither a welcome nor a refusal");
    std::swap(greeting_.from, greeting_.to);
    greeting_.seen = static_cast<std::uint64_t>(number_in(letter[1]));
    return true;
  }
  try {
    greeting_ = read_greeting(letter);
    letters_.put({kWelcome, std::to_string(judge(greeting_, *this))});
  } catch (const ProtocolError& error) {
    letters_.put({kRefused, error.what()});
    letters_.flush(stream_);
    throw;
  }
  return true;
}

}  // namespace cleave::comm
