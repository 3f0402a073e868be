#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cleave/comm/communicator.h"
#include "cleave/engine/run/device.h"
#include "cleave/engine/stage/optimizer.h"
#include "cleave/secure/secret.h"
#include "cleave/train/config/config.h"
#include "cleave/train/step/batch_source.h"
#include "cleave/train/step/client_data.h"
#include "cleave/train/step/run_optimizer.h"

namespace cleave::train {

/// Adds up the gradients of a step's examples, each of them clipped, in a slot beside every
/// parameter; with the last one it adds noise, and lets the run's optimizer update by the mean.
///
/// The gradient buffers hold one example at a time, and NORM, which is over all parameters of all
/// devices, is what each is clipped by.
class ExampleOptimizer : public engine::Optimizer {
 public:
  /// `inner` must outlive it.
  ExampleOptimizer(const Config& config, RunOptimizer& inner);

  /// What the next run of the program brings of a step.
  struct Example {
    bool first = true;
    bool last = true;
    bool counts =
        true;  ///< false: nobody was drawn for the step, whose noise is added all the same
  };

  /// `key`: what the step's noise is drawn from.
  void begin(const Example& example, const secure::Bytes32& key);

  double clip() const override { return clip_; }
  void update(ops::Compute& compute, const engine::ParameterState& parameter,
              double gradient_scale) override;

 private:
  void close(const engine::ParameterState& parameter) const;

  RunOptimizer& inner_;
  double clip_;
  double deviation_;  ///< of the noise on a sum
  double batch_;      ///< examples that a step has in the mean
  Example example_;
  secure::Bytes32 key_ = {};
};

/// Steps of clients in which every example takes part by itself, with the chance train.batch /
/// examples of the client, as the accountant takes it. Who takes part, and the noise, are functions
/// of the client's secret, the round, the step and the parameter: a round that is repeated gives
/// away nothing new.
class ExampleSteps {
 public:
  /// All must outlive it; `world` is that of the devices that train a client.
  ExampleSteps(const Config& config, const ClientData& clients, comm::Communicator& world,
               RunOptimizer& optimizer);

  /// A step of a client, whose learning rate the run's optimizer has heard of. The loss is the mean
  /// over the examples that were drawn, and so is the norm, before clipping.
  struct Of {
    int client = 0;
    std::int64_t round = 0;
    std::int64_t step = 0;  ///< of the round
  };
  engine::StepResult run(const Of& of, engine::Device& device, BatchSource& source, bool stop);

  /// The client's examples that take part in the step that `key` is of, ascending.
  static std::vector<std::int64_t> drawn(const secure::Bytes32& key, std::int64_t examples,
                                         double chance);

 private:
  const secure::Bytes32& secret();

  const Config& config_;
  const ClientData& clients_;
  comm::Communicator& world_;
  ExampleOptimizer optimizer_;
  std::optional<secure::Bytes32> secret_;
};

/// What so many rounds cost of edge.epsilon towards whoever sees a client's updates, of one of its
/// examples more or less: that of the client whom they cost most. 0 unless edge.example_noise is
/// set.
double example_privacy_spent(const Config& config, const ClientData& clients, std::int64_t rounds);

/// Throws UserError if the run would cost more than edge.epsilon, or a client has fewer examples
/// than a step takes in the mean.
void check_examples(const Config& config, const ClientData& clients);

}  // namespace cleave::train
