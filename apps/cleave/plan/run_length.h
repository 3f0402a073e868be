#pragma once

#include <optional>
#include <string>

#include "plan/plan_query.h"

#include "cleave/plan/tune/analytic/predict.h"

namespace cleave::app {

/// What a run over many tokens takes.
struct RunLength {
  double tokens = 0;
  double days = 0;
  double device_hours = 0;
  std::optional<double> cost;  ///< where a price is known
};

double tokens_per_second(const plan::Workload& workload, const plan::Prediction& prediction);

/// This counts the model's own arithmetic, and nothing that is recomputed.
double tflops_per_device(const plan::Workload& workload, const plan::Prediction& prediction);

/// The model's own arithmetic as a share of what the data sheet promises: MFU.
double flops_share(const plan::Workload& workload, const plan::Prediction& prediction);

/// Nothing without --tokens. Throws UserError if that, or the price, is no such number.
std::optional<RunLength> run_length(const PlanFlags& flags, const plan::Workload& workload,
                                    const plan::Prediction& prediction);

/// "1234567 tokens/s in sequences of 2048; 300B tokens take 12.3 days, …".
std::string describe_rate(const plan::Workload& workload, const plan::Prediction& prediction,
                          const std::optional<RunLength>& length);

}  // namespace cleave::app
