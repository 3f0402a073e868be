#pragma once

#include <string>

namespace cleave::app {

struct OverheadFlags {
  std::string schedule = "zb-h1";
  int microbatches = 32;
  int repeats = 3;
  bool json = false;
};

/// Two real devices of one thread, GPT-2-124M cut in two, bf16, microbatches of 1 x 256 tokens: a
/// step against the slower half computing without messages, beside the other one doing the same.
void bench_overhead(const OverheadFlags& flags);

}  // namespace cleave::app
