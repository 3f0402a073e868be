#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "serve/survey_epoch.h"

#include "cleave/comm/tcp/server.h"
#include "cleave/engine/measure/survey.h"
#include "cleave/train/tune/device_facts.h"

namespace cleave::app {

/// What surveys told of devices and links, by seat: kept for the plans after a loss, for which
/// nothing is measured.
class KnownDevices {
 public:
  /// Lets `devices`, which are ready and of which `own` is the first, measure their links. Returns
  /// why nothing was learnt, if one of them was lost meanwhile.
  std::string survey(comm::Server& server, comm::TcpWorld& own,
                     const std::vector<comm::Candidate>& devices, const SurveyEpoch& epoch,
                     OwnRate& rate);

  /// `devices` took part in a survey, in this order.
  void note(const std::vector<comm::Candidate>& devices, const engine::Survey& survey);

  /// Whether every device and every link between two of them is known.
  bool knows(const std::vector<comm::Candidate>& devices) const;

  /// For a plan with these, each on `threads` threads. What is not known of a device is taken to be
  /// as with the server, of a link as with the slowest.
  train::DeviceFacts facts(const std::vector<comm::Candidate>& devices, int threads) const;

  /// The links of the epoch that `devices` are about to begin.
  std::vector<comm::LinkStatus> links(const std::vector<comm::Candidate>& devices) const;

 private:
  struct Machine {
    double rate = 0;
    engine::ProcessPlace place;
  };
  double rate_of(const Machine& machine) const;
  double speed_of(std::int64_t seat) const;
  double at_once(const std::vector<comm::Candidate>& devices, int threads) const;

  std::map<std::int64_t, Machine> machines_;  ///< [seat]
  std::map<std::pair<std::int64_t, std::int64_t>, plan::LinkCosts> links_;
};

}  // namespace cleave::app
