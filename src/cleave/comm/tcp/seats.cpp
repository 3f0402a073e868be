#include "cleave/comm/tcp/seats.h"

#include <algorithm>
#include <chrono>
#include <iomanip>
#include <sstream>

#include "cleave/base/units.h"

namespace cleave::comm {
namespace {

// Of those who are gone, so many are remembered for who asks.
constexpr std::ptrdiff_t kRemembered = 32;

// Devices show life twice a second; one that has not for so long is on its way to be given up.
constexpr std::chrono::milliseconds kSilenceToMention{1500};

/// "device 2 (weak)", or "\"weak\"" if it has no part in the epoch.
std::string who_is(const Seat& seat) {
  if (seat.device == kNobody) return "\"" + seat.name + "\"";
  return detail::concat("device ", seat.device, " (", seat.name, ")");
}

/// Not std::to_string(), which has no place for nanoseconds.
std::string in_full(double seconds) {
  std::ostringstream text;
  text << std::setprecision(9) << seconds;
  return text.str();
}

}  // namespace

const char* to_string(Seat::Presence presence) {
  switch (presence) {
    case Seat::Presence::Ready:
      return "ready";
    case Seat::Presence::Running:
      return "running";
    case Seat::Presence::Left:
      return "left";
    case Seat::Presence::Lost:
      return "lost";
  }
  return "";
}

const char* to_string(MemberEvent::Kind kind) {
  switch (kind) {
    case MemberEvent::Kind::Joined:
      return "joined";
    case MemberEvent::Kind::Left:
      return "left";
    case MemberEvent::Kind::Lost:
      return "lost";
  }
  return "";
}

const Seat& Seats::take(Seat seat, Whose whose) {
  const bool own = whose == Whose::Own;
  const auto owned = static_cast<std::size_t>(std::ranges::count_if(all_, &Seat::is_own));
  admit(!own || owned < own_devices(), "the server's own device is here already");
  admit(epoch_ == 0 ? own || to_come() > 0 || latecomers_ == Latecomers::Welcome
                    : latecomers_ == Latecomers::Welcome,
        "the run has its ", needs_.size(), " devices");
  for (const Seat& other : all_)
    admit(own || !other.is_here() || seat.fingerprint.empty() ||
              other.fingerprint != seat.fingerprint,
          "a device with this certificate is here already; enrol each device by itself");
  if (!own && (!owners_.empty() || (epoch_ == 0 && to_come() > 0))) {
    const std::size_t device = device_for(seat);
    admit(seat.memory == 0 || seat.memory >= needs_[device], "it offers ",
          format_bytes(seat.memory), ", and device ", device, " needs ",
          format_bytes(needs_[device]));
  }
  seat.number = own ? -static_cast<std::int64_t>(owned) : next_++;
  seat.heard = Clock::now();
  forget_the_oldest();
  return all_.emplace_back(std::move(seat));
}

/// The server's own devices are never waited for: they come by themselves.
std::size_t Seats::to_come() const {
  const auto others = std::ranges::count_if(
      all_, [](const Seat& seat) { return seat.is_here() && !seat.is_own(); });
  return needs_.size() - std::min(needs_.size(), static_cast<std::size_t>(others) + own_devices());
}

std::size_t Seats::own_devices() const {
  if (owners_.empty()) return 1;
  return static_cast<std::size_t>(std::ranges::count(owners_, owners_[0]));
}

/// Which device somebody who joins would be in the first epoch. Throws Refusal.
std::size_t Seats::device_for(const Seat& seat) const {
  admit(!owners_.empty() || seat.owner.empty(), "it joins as owner \"", seat.owner,
        "\", and the devices of this run have no owners; leave --owner out");
  if (owners_.empty()) return needs_.size() - to_come();
  const auto found = std::ranges::find(owners_, seat.owner);
  std::string clients;
  for (const std::string& owner : owners_)
    if (owner != owners_[0]) clients += (clients.empty() ? "" : ", ") + owner;
  admit(found != owners_.end() && seat.owner != owners_[0], "it joins as owner \"", seat.owner,
        "\", and the clients of this run are ", clients, "; pass one of them with --owner");
  for (const Seat& other : all_)
    admit(!other.is_here() || other.owner != seat.owner, "owner ", seat.owner, " is here already");
  return static_cast<std::size_t>(found - owners_.begin());
}

void Seats::begin(const EpochSetup& setup) {
  ++epoch_;
  relayed_.clear();
  for (Seat& seat : all_) seat.device = kNobody;
  std::vector<Seat*> devices;  // null: lost since it was chosen, and forgotten
  Letter peers;
  for (const std::int64_t number : setup.seats) {
    const auto found = std::ranges::find(all_, number, &Seat::number);
    Seat* const seat = found == all_.end() ? nullptr : &*found;
    peers.insert(peers.end(), {seat ? seat->host : "", std::to_string(seat ? seat->port : 0),
                               seat ? seat->fingerprint : ""});
    if (seat != nullptr) seat->device = static_cast<int>(devices.size());
    devices.push_back(seat);
  }
  for (Seat* seat : devices) {
    if (seat == nullptr) continue;
    Letter letter = {"run",     std::to_string(epoch_), std::to_string(seat->device),
                     setup.run, setup.program,          setup.signature};
    letter.insert(letter.end(), peers.begin(), peers.end());
    seat->session->post(std::move(letter));
    if (seat->is_here()) seat->presence = Seat::Presence::Running;
  }
  // Whoever was lost since it was chosen has its part in the epoch all the same: so it ends at
  // once.
  for (std::size_t device = 0; device < devices.size(); ++device) {
    if (devices[device] == nullptr || !devices[device]->is_here())
      tell_all({"lost", std::to_string(epoch_), std::to_string(device), "it left"});
  }
}

void Seats::note_ready(const Session& session, std::int64_t epoch) {
  Seat* seat = find(session);
  if (seat == nullptr || seat->presence != Seat::Presence::Running || epoch != epoch_) return;
  seat->presence = Seat::Presence::Ready;
}

std::optional<MemberEvent> Seats::note_bye(const Session& session) {
  Seat* seat = find(session);
  if (seat == nullptr || !seat->is_here()) return std::nullopt;
  seat->presence = Seat::Presence::Left;
  return MemberEvent{
      .kind = MemberEvent::Kind::Left, .device = seat->name, .text = who_is(*seat) + " has left"};
}

std::optional<MemberEvent> Seats::lose(const Session& session, const std::string& why) {
  Seat* seat = find(session);
  if (seat == nullptr || !seat->is_here()) return std::nullopt;
  const bool ran = seat->presence == Seat::Presence::Running;
  seat->presence = ran ? Seat::Presence::Lost : Seat::Presence::Left;
  if (ran) tell_all({"lost", std::to_string(epoch_), std::to_string(seat->device), why});
  if (!ran && seat->is_own()) return std::nullopt;  // the server says itself that it ends
  return MemberEvent{.kind = ran ? MemberEvent::Kind::Lost : MemberEvent::Kind::Left,
                     .device = seat->name,
                     .text = who_is(*seat) + (ran ? " is lost: " : " has left: ") + why};
}

void Seats::note_heard(const Session& session) {
  if (Seat* seat = find(session)) seat->heard = Clock::now();
}

std::vector<std::shared_ptr<Session>> Seats::silent_since(Clock::time_point since) const {
  std::vector<std::shared_ptr<Session>> silent;
  for (const Seat& seat : all_) {
    if (seat.is_here() && !seat.is_own() && seat.heard < since) silent.push_back(seat.session);
  }
  return silent;
}

void Seats::forgive(Clock::duration absence) {
  for (Seat& seat : all_) seat.heard += absence;
}

std::vector<std::shared_ptr<Session>> Seats::running() const {
  std::vector<std::shared_ptr<Session>> sessions;
  for (const Seat& seat : all_) {
    if (seat.presence == Seat::Presence::Running) sessions.push_back(seat.session);
  }
  return sessions;
}

void Seats::tell_all(const Letter& letter) const {
  for (const Seat& seat : all_) {
    if (seat.is_here()) seat.session->post(letter);
  }
}

const Seat* Seats::device(std::int64_t number) const {
  const auto found = std::ranges::find_if(
      all_, [&](const Seat& seat) { return seat.device == number && number >= 0; });
  return found == all_.end() ? nullptr : &*found;
}

/// Whether the present epoch has lost a device, so that it cannot go on.
bool Seats::is_broken_up() const {
  return std::ranges::any_of(
      all_, [](const Seat& seat) { return seat.device != kNobody && !seat.is_here(); });
}

/// Those without whom nothing goes on, each as a sentence has it.
std::vector<std::string> Seats::waits_for(const RunStatus& run) const {
  std::vector<std::string> names;
  if (epoch_ == 0) {
    for (const std::string& owner : owners_)
      if (owner != owners_[0] && std::ranges::none_of(all_, [&](const Seat& seat) {
            return seat.is_here() && seat.owner == owner;
          }))
        names.push_back(owner);
    if (owners_.empty() && to_come() > 0)
      names.push_back(
          detail::concat(to_come(), to_come() == 1 ? " device" : " devices", " to join"));
    return names;
  }
  const Clock::time_point now = Clock::now();
  const bool over = is_broken_up();
  for (const Seat& seat : all_) {
    if (seat.presence != Seat::Presence::Running || seat.is_own()) continue;
    const std::chrono::duration<double> silence = now - seat.heard;
    if (silence > kSilenceToMention)
      names.push_back(who_is(seat) + ", silent for " + format_seconds(silence.count()));
    else if (over)
      names.push_back(who_is(seat) + ", which gives up its step");
  }
  if (names.empty() && running().empty() && !run.lack.empty()) names.push_back(run.lack);
  return names;
}

Letter Seats::status(const RunStatus& run, const std::deque<std::string>& events) const {
  const bool runs = !running().empty() && !is_broken_up();
  const char* state = epoch_ == 0 ? "waiting" : runs ? "running" : "planning";
  const std::vector<std::string> waits = waits_for(run);
  Letter letter = {"status",
                   state,
                   std::to_string(run.step),
                   std::to_string(run.steps),
                   std::to_string(run.loss),
                   std::to_string(run.step_seconds),
                   std::to_string(run.plan),
                   run.layout,
                   std::to_string(events.size()),
                   std::to_string(waits.size()),
                   std::to_string(run.links.size())};
  letter.insert(letter.end(), events.begin(), events.end());
  letter.insert(letter.end(), waits.begin(), waits.end());
  for (const LinkStatus& link : run.links) {
    const auto relayed = relayed_.find({link.first, link.second});
    letter.insert(letter.end(), {std::to_string(link.first), std::to_string(link.second),
                                 relayed == relayed_.end() ? "" : std::to_string(relayed->second),
                                 in_full(link.latency), in_full(link.per_byte)});
  }
  for (const Seat& seat : all_) {
    const bool has_part = 0 <= seat.device && seat.device < std::ssize(run.parts);
    letter.insert(letter.end(),
                  {seat.device == kNobody ? "" : std::to_string(seat.device), seat.name,
                   seat.session->remote(), std::to_string(seat.memory), to_string(seat.presence),
                   has_part ? run.parts[static_cast<std::size_t>(seat.device)] : ""});
  }
  for (std::size_t i = epoch_ == 0 ? to_come() : 0; i > 0; --i)
    letter.insert(letter.end(), {"", "", "", "0", "awaited", ""});
  return letter;
}

Seat* Seats::find(const Session& session) {
  const auto found =
      std::ranges::find_if(all_, [&](const Seat& s) { return s.session.get() == &session; });
  return found == all_.end() ? nullptr : &*found;
}

void Seats::forget_the_oldest() {
  const auto is_gone = [](const Seat& seat) { return !seat.is_here() && seat.device == kNobody; };
  while (std::ranges::count_if(all_, is_gone) > kRemembered)
    all_.erase(std::ranges::find_if(all_, is_gone));
}

}  // namespace cleave::comm
