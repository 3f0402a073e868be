#include "cleave/comm/tcp/server_line.h"

#include <csignal>
#include <utility>

#include <poll.h>

#include "cleave/base/check.h"
#include "cleave/base/version.h"

namespace cleave::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kLongestAnswer{15};

// How often one who waits for the server looks up.
constexpr milliseconds kLineLook{200};

constexpr milliseconds kPulse{500};

constexpr const char* kSilent = "it does not answer; see that cleave serve listens there";

void look_at(const Stream& stream, bool writes, milliseconds most) {
  pollfd polled{
      .fd = stream.socket(), .events = static_cast<short>(writes ? POLLOUT : POLLIN), .revents = 0};
  poll(&polled, 1, static_cast<int>(most.count()));
}

void await_socket(const Stream& stream, bool writes, Clock::time_point deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
  if (left.count() <= 0) throw ConnectionBroken(kSilent);
  look_at(stream, writes, std::min<milliseconds>(left, seconds(1)));
}

/// Nobody answers at the server's address.
class NobodyThere : public ConnectionBroken {
 public:
  using ConnectionBroken::ConnectionBroken;
};

Stream open_stream(const ServerContact& server, Clock::time_point deadline) {
  std::optional<Stream> stream;
  try {
    stream.emplace(Stream::connect(server.address, server.tls));
    while (!stream->open()) await_socket(*stream, stream->awaits_room(), deadline);
  } catch (const ConnectionBroken& error) {
    if (stream && !stream->is_connecting()) throw;
    throw NobodyThere(error.what());
  }
  check_is_server(*stream, server);
  return std::move(*stream);
}

void send_letter(Stream& stream, LetterBox& letters, const Letter& letter,
                 Clock::time_point deadline) {
  letters.put(letter);
  while (!letters.flush(stream)) await_socket(stream, true, deadline);
}

Letter await_letter(Stream& stream, LetterBox& letters, Clock::time_point deadline) {
  for (;;) {
    if (std::optional<Letter> letter = letters.take(stream)) {
      if (letter->size() == 2 && letter->front() == "refused")
        throw UserError("the server refuses: " + letter->back());
      return std::move(*letter);
    }
    await_socket(stream, false, deadline);
  }
}

/// Calls `talk` and says of which server it is that something went wrong.
template <class Talk>
auto with_server(const ServerContact& server, Talk&& talk,
                 const ServerGone::Before& before = ServerGone::Before::NothingWasHeard) {
  const auto lost = [&](const std::exception& error, ServerGone::Before when) {
    return ServerGone("the server at " + to_string(server.address) + ": " + error.what(), when);
  };
  try {
    return talk();
  } catch (const NobodyThere& error) {
    throw lost(error, ServerGone::Before::NobodyAnswered);
  } catch (const ConnectionBroken& error) {
    throw lost(error, before);
  } catch (const ProtocolError& error) {
    throw lost(error, before);
  }
}

Assignment read_assignment(const Letter& letter, const ServerContact& server) {
  const std::size_t fixed = 6;
  if (letter.size() < fixed + 3 || (letter.size() - fixed) % 3 != 0)
    throw ProtocolError("it tells nothing of the run");
  Assignment assignment{.epoch = static_cast<std::uint32_t>(number_in(letter[1])),
                        .device = static_cast<int>(number_in(letter[2])),
                        .run = letter[3],
                        .program = letter[4],
                        .signature = letter[5]};
  for (std::size_t at = fixed; at < letter.size(); at += 3) {
    const std::string& host = letter[at].empty() ? server.address.host : letter[at];
    assignment.peers.push_back(
        {.address = {host, static_cast<std::uint16_t>(number_in(letter[at + 1]))},
         .fingerprint = letter[at + 2]});
  }
  return assignment;
}

}  // namespace

void check_is_server(const Stream& stream, const ServerContact& server) {
  if (server.tls == nullptr) return;
  const std::optional<PeerCertificate> peer = stream.peer();
  if (!peer || peer->fingerprint != server.fingerprint)
    throw ProtocolError(
        "it is not the server that invited this device: its certificate has another fingerprint");
}

Letter ask_server(const ServerContact& server, Letter question) {
  return with_server(server, [&] {
    const Clock::time_point deadline = Clock::now() + kLongestAnswer;
    question.insert(question.begin() + 1, std::string(version()));
    LetterBox letters(kLongestLetter);
    Stream stream = open_stream(server, deadline);
    send_letter(stream, letters, question, deadline);
    return await_letter(stream, letters, deadline);
  });
}

void ServerLine::open() {
  with_server(server_,
              [&] { stream_.emplace(open_stream(server_, Clock::now() + kLongestAnswer)); });
}

int ServerLine::socket() const {
  const std::lock_guard lock(mutex_);
  return stream_ ? stream_->socket() : -1;
}

void ServerLine::join(const Offer& offer) {
  say({"join", std::string(version()), offer.name, std::to_string(offer.memory),
       std::to_string(offer.port), std::to_string(offer.threads), offer.key, offer.owner});
}

std::optional<Letter> ServerLine::take() {
  const std::lock_guard lock(mutex_);
  if (!stream_) throw ConnectionBroken(epoch_over_.empty() ? "it is gone" : epoch_over_);
  letters_.flush(*stream_);
  std::optional<Letter> letter = letters_.take(*stream_);
  if (letter) before_ = ServerGone::Before::WordWasHeard;
  return letter;
}

/// False if it is none that may come at any time.
bool ServerLine::read_news(const Letter& letter) {
  if (letter.size() == 3 && letter[0] == "call") {
    calls_.push_back({.number = letter[1], .from = static_cast<int>(number_in(letter[2]))});
  } else if (letter.size() == 4 && letter[0] == "lost") {
    if (number_in(letter[1]) == epoch_ && epoch_over_.empty())
      epoch_over_ = detail::concat("device ", number_in(letter[2]), " is lost (", letter[3], ")");
  } else if (letter.size() == 2 && letter[0] == "end") {
    run_over_ = true;
    failure_ = letter[1];
    if (epoch_over_.empty())
      epoch_over_ = "the run has ended" + (failure_.empty() ? "" : ": " + failure_);
  } else {
    return letter.size() == 2 && letter[0] == "waiting";
  }
  return true;
}

std::optional<Assignment> ServerLine::await_epoch(const OnWaiting& on_waiting,
                                                  const std::function<bool()>& gives_up) {
  return with_server(
      server_,
      [&]() -> std::optional<Assignment> {
        const Clock::time_point deadline = Clock::now() + first_word_within_;
        for (;;) {
          if (run_over_ || (gives_up && gives_up())) return std::nullopt;
          const std::optional<Letter> letter = take();
          if (!letter) {
            const bool silent = before_ == ServerGone::Before::NothingWasHeard;
            if (silent && Clock::now() >= deadline) throw ConnectionBroken(kSilent);
            look_at(*stream_, false, kLineLook);
            continue;
          }
          if (letter->size() == 2 && letter->front() == "refused")
            throw UserError("the server refuses: " + letter->back());
          if (!letter->empty() && letter->front() == "run") {
            const Assignment assignment = read_assignment(*letter, server_);
            epoch_ = assignment.epoch;
            epoch_over_.clear();
            calls_.clear();
            return assignment;
          }
          if (!read_news(*letter)) throw ProtocolError("something else than news of the run");
          if (letter->front() == "waiting" && on_waiting)
            on_waiting(static_cast<int>(number_in(letter->back())));
        }
      },
      before_);
}

void ServerLine::advance() {
  try {
    while (const std::optional<Letter> letter = take()) read_news(*letter);
  } catch (const std::exception& error) {
    const std::lock_guard lock(mutex_);
    stream_.reset();
    if (epoch_over_.empty())
      epoch_over_ = detail::concat("the server is gone (", error.what(), ")");
  }
}

void ServerLine::say(const Letter& letter) {
  const std::lock_guard lock(mutex_);
  if (!stream_) return;
  try {
    letters_.put(letter);
    letters_.flush(*stream_);
  } catch (const ConnectionBroken&) {
    // Whoever reads from it notices.
  }
}

Pulse::Pulse(ServerLine& line)
    : thread_([this, &line] {
        // Signals are for the thread that trains.
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, nullptr);
        std::unique_lock lock(mutex_);
        while (!end_.wait_for(lock, kPulse, [this] { return ended_; })) line.say({"alive"});
      }) {}

Pulse::~Pulse() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  end_.notify_one();
  thread_.join();
}

}  // namespace cleave::comm
