#pragma once

#include <string>
#include <vector>

#include "serve/known_devices.h"
#include "serve/survey_epoch.h"

#include "cleave/comm/tcp/server.h"
#include "cleave/train/tune/regroup.h"

namespace cleave::app {

/// What the config of a run comes to on the devices that are here: layouts follow from the memory
/// that they offer, their speed and their links. What changes a bit is the config's, whoever comes.
class ServedPlans {
 public:
  /// In `config`, nothing is "auto"; in `asked` something may be, and is decided by the devices.
  ServedPlans(const train::Config& config, const train::Config& asked)
      : config_(config), asked_(asked) {}

  KnownDevices& known() { return known_; }
  const KnownDevices& known() const { return known_; }

  /// Whether the first plan depends on who comes.
  bool are_open() const { return train::needs_plan(asked_); }

  SurveyEpoch survey_epoch() const;

  /// What "auto" stands for, or else how far the devices look ahead. Puts them into the order in
  /// which the plan has them. Throws DoesNotFit.
  train::Config first(std::vector<comm::Candidate>& devices) const;

  /// After `present`, which had other devices. Puts the candidates into the order in which the plan
  /// has them.
  train::Regrouping next(const train::Config& present,
                         std::vector<comm::Candidate>& candidates) const;

  /// Why the run cannot go on once it has lost a device; empty if it can. Asked before anybody is
  /// there, it measures what the plan after a loss needs, so that this need not be done then.
  std::string lack_after_a_loss() const;

 private:
  const train::Config config_;
  const train::Config asked_;
  KnownDevices known_;
};

}  // namespace cleave::app
