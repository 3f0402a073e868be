#include "serve/survey_epoch.h"

#include <charconv>

#include "cleave/engine/measure/matmul_rate.h"

namespace cleave::app {
namespace {

constexpr std::string_view kSurvey = "survey on threads: ";

}  // namespace

std::string SurveyEpoch::run() const {
  return std::string(kSurvey) + std::to_string(threads);
}

std::optional<SurveyEpoch> SurveyEpoch::in(const std::string& run) {
  if (!run.starts_with(kSurvey)) return std::nullopt;
  SurveyEpoch epoch;
  std::from_chars(run.data() + kSurvey.size(), run.data() + run.size(), epoch.threads);
  return epoch;
}

double OwnRate::on(int threads) {
  if (said_ > 0) return -said_;
  if (measured_ == 0) measured_ = engine::matmul_rate(DType::F32, threads);
  return measured_;
}

engine::Survey take_survey(comm::TcpWorld& device, const SurveyEpoch& epoch, OwnRate& rate) {
  engine::Survey survey;
  // Before the others are waited for, so that nobody measures links beside one that computes.
  const double own = rate.on(epoch.threads);
  device.run(kSurveyProgram,
             [&](comm::Communicator& everyone) { survey = engine::survey(everyone, own); });
  return survey;
}

}  // namespace cleave::app
