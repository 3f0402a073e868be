#include "cleave/comm/tcp/seats.h"

#include <algorithm>

#include "cleave/base/units.h"

namespace cleave::comm {

const char* to_string(Seat::Presence presence) {
  switch (presence) {
    case Seat::Presence::Awaited:
      return "awaited";
    case Seat::Presence::Here:
      return "here";
    case Seat::Presence::Done:
      return "done";
    case Seat::Presence::Lost:
      return "lost";
  }
  return "";
}

std::size_t Seats::take(Seat seat, Whose whose) {
  const auto is_free = [](const Seat& other) { return !other.session; };
  const auto found =
      whose == Whose::Own ? all_.begin() : std::find_if(all_.begin() + 1, all_.end(), is_free);
  admit(found != all_.end() && is_free(*found), "the run has its ", all_.size(), " devices");
  for (const Seat& other : all_)
    admit(is_free(other) || seat.fingerprint.empty() || other.fingerprint != seat.fingerprint,
          "a device with this certificate is here already; enrol each device by itself");
  const auto number = static_cast<std::size_t>(found - all_.begin());
  admit(seat.memory == 0 || seat.memory >= needs_[number], "it offers ", format_bytes(seat.memory),
        ", and device ", number, " needs ", format_bytes(needs_[number]));
  *found = std::move(seat);
  found->presence = Seat::Presence::Here;
  return number;
}

std::size_t Seats::free() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(all_, [](const Seat& seat) { return !seat.session; }));
}

void Seats::begin(const std::string& run, const std::string& program) {
  begun_ = true;
  for (std::size_t number = 0; number < all_.size(); ++number) {
    Letter letter = {"run", std::to_string(number), run, program};
    for (const Seat& seat : all_)
      letter.insert(letter.end(), {seat.host, std::to_string(seat.port), seat.fingerprint});
    all_[number].session->post(std::move(letter));
  }
}

std::optional<std::string> Seats::leave(const Session& session, const std::string& why) {
  const auto seat =
      std::ranges::find_if(all_, [&](const Seat& s) { return s.session.get() == &session; });
  if (seat == all_.end() || seat->presence != Seat::Presence::Here) return std::nullopt;
  const auto number = seat - all_.begin();
  const std::string who = detail::concat("device ", number, " (", seat->name, ")");
  if (!begun_) {
    *seat = {};
    return who + " left before the run began";
  }
  seat->presence = Seat::Presence::Lost;
  tell_all({"lost", std::to_string(number), why});
  return who + " is lost: " + why;
}

void Seats::tell_all(const Letter& letter) const {
  for (const Seat& seat : all_) {
    if (seat.session) seat.session->post(letter);
  }
}

}  // namespace cleave::comm
