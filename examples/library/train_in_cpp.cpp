// Trains from C++: a config as text, an observer that hears of every step, a report at the end.
#include <cstdio>
#include <fstream>

#include "cleave/base/check.h"
#include "cleave/comm/launcher.h"
#include "cleave/train/config/config.h"
#include "cleave/train/loop/run.h"

constexpr const char* kConfig = R"(
model = { kind = "llama", layers = 4, hidden = 64, heads = 4 }
data = { path = "counting.txt" }
train = { steps = 30, sequence = 64, lr = 3e-3, out = "counting" }
parallel = { pipeline = 2 }
)";

struct Printer : cleave::train::RunObserver {
  void on_step(const cleave::train::StepReport& step) override {
    if (step.step % 10 == 0)
      std::printf("step %ld: loss %.3f\n", static_cast<long>(step.step), step.loss);
  }
};

int main() try {
  std::ofstream text("counting.txt");
  for (int i = 0; i < 3000; ++i) text << i << ' ';
  text.close();

  const auto config = cleave::train::parse_config(kConfig, "counting");
  Printer printer;
  cleave::comm::LocalLauncher launcher;  // devices are threads of this process
  const auto report = cleave::train::run(
      config, {.start = {.existing = cleave::train::Existing::Overwrite}}, printer, launcher);
  std::printf("weights %s in %s\n", report.weights.c_str(), report.checkpoint.c_str());
  return report.losses.back() < report.losses.front() ? 0 : 1;
} catch (const cleave::UserError& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
