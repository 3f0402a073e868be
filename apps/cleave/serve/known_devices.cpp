#include "serve/known_devices.h"

#include <algorithm>
#include <cmath>

#include "streams.h"

#include "cleave/base/check.h"

namespace cleave::app {
namespace {

using comm::Candidate;

// Rates are not known better than this, and equal devices make the plainer plan.
constexpr double kAboutAsFast = 0.15;

}  // namespace

std::string KnownDevices::survey(comm::Server& server, comm::TcpWorld& own,
                                 const std::vector<Candidate>& devices, const SurveyEpoch& epoch,
                                 OwnRate& rate) {
  comm::EpochSetup setup{.run = epoch.run(), .program = kSurveyProgram};
  for (const Candidate& device : devices) setup.seats.push_back(device.seat);
  server.begin(setup);
  try {
    own.await_epoch({});
    note(devices, take_survey(own, epoch, rate));
  } catch (const DeviceLost& error) {
    complain("cleave serve: the links could not be measured: {}\n", error.what());
    return error.what();
  }
  return "";
}

void KnownDevices::note(const std::vector<Candidate>& devices, const engine::Survey& survey) {
  for (std::size_t a = 0; a < devices.size(); ++a) {
    machines_[devices[a].seat] = {.rate = survey.rate[a], .place = survey.places[a]};
    for (std::size_t b = 0; b < devices.size(); ++b)
      links_[{devices[a].seat, devices[b].seat}] =
          survey.link(static_cast<int>(a), static_cast<int>(b));
  }
}

bool KnownDevices::knows(const std::vector<Candidate>& devices) const {
  return std::ranges::all_of(devices, [&](const Candidate& a) {
    return std::ranges::all_of(devices, [&](const Candidate& b) {
      return links_.contains({a.seat, b.seat});
    });
  });
}

/// The best that was measured on its host: processes that share one slow each other down.
double KnownDevices::rate_of(const Machine& machine) const {
  double best = machine.rate;
  for (const auto& [_, other] : machines_)
    if (other.place.host == machine.place.host) best = std::max(best, other.rate);
  return best;
}

double KnownDevices::speed_of(std::int64_t seat) const {
  const auto own = machines_.find(seat), server = machines_.find(0);
  if (own == machines_.end() || server == machines_.end()) return 1;
  if (own->second.rate < 0) return -own->second.rate;
  const double speed = rate_of(own->second) / rate_of(server->second);
  return std::abs(speed - 1) < kAboutAsFast || !(speed > 0) ? 1 : speed;
}

double KnownDevices::at_once(const std::vector<Candidate>& devices, int threads) const {
  std::vector<engine::ProcessPlace> places;
  double strangers = 0;
  for (const Candidate& device : devices) {
    const auto found = machines_.find(device.seat);
    if (found == machines_.end()) {
      ++strangers;
    } else {
      places.push_back(found->second.place);
    }
  }
  if (places.empty()) return 0;
  return strangers +
         engine::devices_at_once(places, static_cast<int>(places.size()), std::max(1, threads));
}

train::DeviceFacts KnownDevices::facts(const std::vector<Candidate>& devices, int threads) const {
  train::DeviceFacts facts;
  plan::LinkCosts slowest;
  for (const auto& [_, link] : links_) slowest = plan::slower(slowest, link);
  for (const Candidate& a : devices) {
    facts.speed.push_back(speed_of(a.seat));
    if (links_.empty()) continue;
    for (const Candidate& b : devices) {
      const auto link = links_.find({a.seat, b.seat});
      facts.links.push_back(link == links_.end() ? slowest : link->second);
    }
  }
  facts.at_once = at_once(devices, threads);
  return facts;
}

std::vector<comm::LinkStatus> KnownDevices::links(const std::vector<Candidate>& devices) const {
  std::vector<comm::LinkStatus> links;
  for (std::size_t a = 0; a < devices.size(); ++a) {
    for (std::size_t b = a + 1; b < devices.size(); ++b) {
      const auto link = links_.find({devices[a].seat, devices[b].seat});
      if (link == links_.end()) continue;
      links.push_back({.first = static_cast<int>(a),
                       .second = static_cast<int>(b),
                       .latency = link->second.latency,
                       .per_byte = link->second.per_byte});
    }
  }
  return links;
}

}  // namespace cleave::app
