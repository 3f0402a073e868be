#include <algorithm>
#include <array>
#include <chrono>
#include <memory>

#include "command.h"
#include "files.h"
#include "json_text.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cleave/base/check.h"
#include "cleave/plan/time/simulator.h"
#include "cleave/report/text_table.h"
#include "cleave/schedule/generators.h"
#include "cleave/schedule/passes.h"
#include "cleave/schedule/verifier.h"

namespace cleave::app {

namespace {

using schedule::PipelineShape;

constexpr std::array kShapes = {PipelineShape{4, 8}, PipelineShape{8, 32}, PipelineShape{16, 64},
                                PipelineShape{32, 256}, PipelineShape{64, 512}};

struct MeasuredSchedule {
  std::string kind;
  PipelineShape shape;
  std::int64_t instructions = 0;  ///< of the final program
  std::array<double, 4> seconds = {};
};

constexpr std::array<const char*, 4> kPhases = {"generate", "lower", "verify", "simulate"};

double seconds_of(const auto& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// The best of as many rounds as fit into a tenth of a second, at least one.
MeasuredSchedule measure(const std::string& kind, const PipelineShape& shape) {
  MeasuredSchedule best{.kind = kind, .shape = shape};
  best.seconds.fill(1e9);
  for (double spent = 0; spent < 0.1;) {
    schedule::Program program;
    schedule::Program final;
    const std::array<double, 4> round = {
        seconds_of([&] { program = schedule::generate(kind, shape); }),
        seconds_of([&] { final = schedule::lower(program, {}); }),
        seconds_of([&] { CLEAVE_CHECK(schedule::verify(final).empty(), kind, " is not sound"); }),
        seconds_of([&] { plan::simulate(final, plan::uniform_costs(final, {.comm = 0.1})); })};
    best.instructions = schedule::instruction_count(final);
    for (std::size_t i = 0; i < round.size(); ++i) {
      best.seconds[i] = std::min(best.seconds[i], round[i]);
      spent += round[i];
    }
  }
  return best;
}

double total(const MeasuredSchedule& measured) {
  double sum = 0;
  for (double seconds : measured.seconds) sum += seconds;
  return sum;
}

std::vector<std::string> row_of(const MeasuredSchedule& measured) {
  std::vector<std::string> row = {
      measured.kind, fmt::format("{} x {}", measured.shape.devices, measured.shape.microbatches),
      fmt::format("{}", measured.instructions)};
  const auto rate = [&](double seconds) {
    return fmt::format("{:.2f}", 1e-6 * static_cast<double>(measured.instructions) / seconds);
  };
  for (double seconds : measured.seconds) row.push_back(rate(seconds));
  row.push_back(rate(total(measured)));
  row.push_back(fmt::format("{:.2f}", 1e3 * total(measured)));
  return row;
}

nlohmann::json json_of(const MeasuredSchedule& measured) {
  nlohmann::json json = {{"schedule", measured.kind},
                         {"stages", measured.shape.devices},
                         {"microbatches", measured.shape.microbatches},
                         {"instructions", measured.instructions},
                         {"seconds", {{"total", total(measured)}}}};
  const auto count = static_cast<double>(measured.instructions);
  json["instructions_per_second"]["total"] = count / total(measured);
  for (std::size_t i = 0; i < kPhases.size(); ++i) {
    json["seconds"][kPhases[i]] = measured.seconds[i];
    json["instructions_per_second"][kPhases[i]] = count / measured.seconds[i];
  }
  return json;
}

void run(const std::string& kind, bool json) {
  nlohmann::json list;
  std::vector<std::vector<std::string>> rows = {
      {"schedule", "size", "instructions", "generate", "lower", "verify", "simulate", "all", "ms"}};
  std::vector<std::string> kinds = {kind};
  if (kind.empty()) {
    kinds.clear();
    for (std::string_view name : schedule::schedule_names()) kinds.emplace_back(name);
  }
  for (const std::string& each : kinds) {
    for (const PipelineShape& shape : kShapes) {
      const MeasuredSchedule measured = measure(each, shape);
      rows.push_back(row_of(measured));
      list.push_back(json_of(measured));
    }
  }
  if (json) return write_file("", json_text(nlohmann::json{{"results", list}}));
  write_file("",
             report::text_table(rows) + "\nMillions of instructions per second; ms: all of it.\n");
}

}  // namespace

void add_bench_schedule_command(CLI::App& bench) {
  auto kind = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  CLI::App* verb = bench.add_subcommand(
      "schedule", "Instructions per second of generate, lower, verify and simulate.");
  verb->add_option("--kind", *kind, "One schedule; default: every one");
  verb->add_flag("--json", *json, "Print one JSON object");
  verb->footer("Example:\n  cleave bench schedule --kind zbv");
  verb->callback([kind, json] { run(*kind, *json); });
}

}  // namespace cleave::app
