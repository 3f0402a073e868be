// What the examples share: a small run on threads of this process, and what it promises.
#pragma once

#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "cleave/comm/launcher.h"
#include "cleave/data/given_tokens.h"
#include "cleave/train/config/config.h"
#include "cleave/train/loop/run.h"

namespace example {

constexpr const char* kConfig = R"(
[model]
layers = 4
hidden = 64
heads = 4
vocab = 64
context = 32
[data]
path = "memory:cycle"
validation = 0
[train]
steps = 60
batch = 8
sequence = 32
lr = 3e-3
out = "example_out"
[numerics]
tensor_shards = 2
)";

/// Something to learn: every token follows from the one before.
inline void give_cycle() {
  std::array<std::int32_t, 64> cycle{};
  for (std::size_t i = 1; i < cycle.size(); ++i) cycle[i] = (cycle[i - 1] * 5 + 3) % 64;
  cleave::data::give_tokens("memory:cycle",
                            {.size = 64'000, .read = [cycle](std::int64_t offset, auto tokens) {
                               for (auto& token : tokens) token = cycle[offset++ % 64];
                             }});
}

/// Trains as kConfig says, with these settings, such as "parallel.pipeline=2".
inline cleave::train::RunReport train_with(const std::vector<std::string>& settings) {
  give_cycle();
  const auto config = cleave::train::parse_config(kConfig, "example", {.overrides = settings});
  cleave::comm::LocalLauncher launcher;
  cleave::train::RunObserver nobody;
  const auto report = cleave::train::run(
      config, {.start = {.existing = cleave::train::Existing::Overwrite}}, nobody, launcher);
  std::printf("%zu devices: loss %.4f -> %.4f, weights %s\n", report.devices.size(),
              report.losses.front(), report.losses.back(), report.weights.c_str());
  return report;
}

/// What every example promises, so that it can be run as a test: it learns, and one device and
/// several end with the same bits. Returns what main() returns.
inline int check(const cleave::train::RunReport& one, const cleave::train::RunReport& several) {
  const bool learned = one.losses.back() < 0.5 * one.losses.front();
  const bool same = one.weights == several.weights;
  if (!learned) std::printf("the loss did not fall by half\n");
  if (!same) std::printf("the weights depend on the layout\n");
  return learned && same ? 0 : 1;
}

}  // namespace example
