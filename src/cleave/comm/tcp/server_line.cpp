#include "cleave/comm/tcp/server_line.h"

#include <utility>

#include <poll.h>

#include "cleave/base/check.h"
#include "cleave/base/version.h"

namespace cleave::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kLongestAnswer{15};

void await_socket(const Stream& stream, bool writes, Clock::time_point deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
  if (left <= 0) throw ConnectionBroken("it does not answer");
  pollfd polled{
      .fd = stream.socket(), .events = static_cast<short>(writes ? POLLOUT : POLLIN), .revents = 0};
  poll(&polled, 1, static_cast<int>(std::min<std::int64_t>(left, 1000)));
}

Stream open_stream(const ServerContact& server, Clock::time_point deadline) {
  Stream stream = Stream::connect(server.address, server.tls);
  while (!stream.open()) await_socket(stream, stream.awaits_room(), deadline);
  check_is_server(stream, server);
  return stream;
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
auto with_server(const ServerContact& server, Talk&& talk) {
  const auto lost = [&](const std::exception& error) {
    return DeviceLost("the server at " + to_string(server.address) + ": " + error.what());
  };
  try {
    return talk();
  } catch (const ConnectionBroken& error) {
    throw lost(error);
  } catch (const ProtocolError& error) {
    throw lost(error);
  }
}

Assignment read_assignment(const Letter& letter, const ServerContact& server) {
  const std::size_t fixed = 4;
  if (letter.size() < fixed + 3 || (letter.size() - fixed) % 3 != 0)
    throw ProtocolError("it tells nothing of the run");
  Assignment assignment{
      .device = static_cast<int>(number_in(letter[1])), .run = letter[2], .program = letter[3]};
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

Assignment ServerLine::join(const Offer& offer,
                            const std::function<void(int to_come)>& on_waiting) {
  return with_server(server_, [&] {
    const Letter first = {"join",
                          std::string(version()),
                          offer.name,
                          std::to_string(offer.memory),
                          std::to_string(offer.port),
                          std::to_string(offer.threads),
                          offer.key};
    send_letter(*stream_, letters_, first, Clock::now() + kLongestAnswer);
    for (;;) {
      // The others may take days to come.
      const Letter letter = await_letter(*stream_, letters_, Clock::time_point::max());
      if (letter.front() == "run") return read_assignment(letter, server_);
      if (letter.size() != 2 || letter.front() != "waiting")
        throw ProtocolError("something else than news of the run");
      on_waiting(static_cast<int>(number_in(letter.back())));
    }
  });
}

void ServerLine::advance() {
  if (!stream_) return;
  try {
    while (const std::optional<Letter> letter = letters_.take(*stream_)) {
      if (letter->size() == 2 && letter->front() == "call") calls_.push_back(letter->back());
      if (letter->size() == 3 && letter->front() == "lost")
        lost_[static_cast<int>(number_in((*letter)[1]))] = letter->back();
    }
  } catch (const std::exception&) {
    stream_.reset();  // the devices still have each other
  }
}

void ServerLine::say_bye() {
  if (!stream_) return;
  try {
    letters_.put({"bye"});
    letters_.flush(*stream_);
  } catch (const ConnectionBroken&) {
    stream_.reset();
  }
}

const std::string* ServerLine::lost(int device) const {
  const auto found = lost_.find(device);
  return found == lost_.end() ? nullptr : &found->second;
}

}  // namespace cleave::comm
