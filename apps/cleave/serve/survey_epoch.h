#pragma once

#include <optional>
#include <string>

#include "cleave/comm/tcp/tcp_world.h"
#include "cleave/engine/measure/survey.h"

namespace cleave::app {

/// Before a plan is made with devices that nobody knows, they meet in an epoch without a program:
/// each tells how fast it is, and every two measure the link between them.
struct SurveyEpoch {
  int threads = 1;  ///< of a device

  /// What devices are told instead of a config, and back; nothing if it is one.
  std::string run() const;
  static std::optional<SurveyEpoch> in(const std::string& run);
};

/// Instead of the hash of a program.
inline constexpr const char* kSurveyProgram = "survey";

/// How fast this machine computes, as devices tell each other: FLOP/s, measured once for each
/// program; or below 0, how many times as fast as the server it is said to be.
class OwnRate {
 public:
  explicit OwnRate(double said = 0) : said_(said) {}
  double on(int threads);

 private:
  double said_;
  double measured_ = 0;
};

/// This device's part of it. Throws DeviceLost.
engine::Survey take_survey(comm::TcpWorld& device, const SurveyEpoch& epoch, OwnRate& rate);

}  // namespace cleave::app
