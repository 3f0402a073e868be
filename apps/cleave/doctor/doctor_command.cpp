#include <memory>

#include "command.h"
#include "files.h"
#include "json_text.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cleave/base/units.h"
#include "cleave/base/version.h"
#include "cleave/base/wrap.h"
#include "cleave/comm/pinning.h"
#include "cleave/engine/measure/machine.h"
#include "cleave/ops/accelerator.h"

namespace cleave::app {
namespace {

using engine::Machine;
using engine::MachineRates;

std::string binding_of(const Machine& machine) {
  const auto cores = comm::allowed_cores();
  const int devices = std::max(1, machine.allowed_cores);
  return comm::plan_pinning(cores, devices, 1).report;
}

/// Which numbers this machine shares with others, to the bit.
std::string exact_bits_of(const ops::InstructionSet& set) {
  if (!set.fused) return "no: there is no fused multiply-add; results are this machine's own";
  if (set.cheapest(DType::BF16) == ops::Arithmetic::Exact)
    return "f32 and bf16, as on every processor with fused multiply-add";
  return "f32 by default; bf16 with numerics.exact = true, without its bf16 instructions";
}

/// What an accelerator can do, and whether a run may use it.
std::string accelerator_text(const ops::AcceleratorInfo& info) {
  const auto yes = [](bool has) { return has ? "yes" : "no"; };
  return fmt::format(
      "{} ({}), {}, {} in one block at most; fused multiply-add: {}, denormals: {}, rounded "
      "division: "
      "{}, f64: {}; {}",
      info.name, info.platform, format_bytes(info.memory), format_bytes(info.largest_block),
      yes(info.fused), yes(info.denormals), yes(info.rounds_division), yes(info.doubles),
      info.problem.empty() ? "trains with the bits of processors"
                           : "cannot train with the bits of others: " + info.problem);
}

nlohmann::json accelerators_json(const ops::Accelerators& found) {
  nlohmann::json all = nlohmann::json::array();
  for (const ops::AcceleratorInfo& info : found.all) {
    all.push_back(
        {{"kind", info.kind},
         {"name", info.name},
         {"platform", info.platform},
         {"memory_bytes", info.memory},
         {"largest_block_bytes", info.largest_block},
         {"fused_multiply_add", info.fused},
         {"denormals", info.denormals},
         {"rounds_division", info.rounds_division},
         {"f64", info.doubles},
         {"exact", info.problem.empty()},
         {"problem", info.problem.empty() ? nlohmann::json() : nlohmann::json(info.problem)}});
  }
  return all;
}

nlohmann::json to_json(const Machine& m, const ops::Accelerators& accelerators,
                       const MachineRates& r) {
  nlohmann::json environment = nlohmann::json::object();
  for (const auto& [name, value] : m.environment) environment[name] = value;
  const auto or_null = [](const auto& value) {
    return value ? nlohmann::json(*value) : nlohmann::json();
  };
  const auto or_none = [](const std::string& text) {
    return text.empty() ? nlohmann::json() : nlohmann::json(text);
  };
  return {{"version", version()},
          {"processor", m.processor},
          {"simd", m.instructions.simd},
          {"onednn", or_none(m.instructions.onednn)},
          {"bf16_dot", m.instructions.bf16_dot},
          {"amx_bf16", m.instructions.amx_bf16},
          {"fused_multiply_add", m.instructions.fused},
          {"instruction_limit", or_none(m.instructions.limit)},
          {"hardware_threads", m.online},
          {"allowed_threads", m.allowed},
          {"allowed_cores", m.allowed_cores},
          {"processor_quota", or_null(m.processor_quota)},
          {"load", m.load},
          {"binding", binding_of(m)},
          {"memory_bytes", m.memory},
          {"memory_available_bytes", m.memory_available},
          {"container_memory_left_bytes", or_null(m.container_memory)},
          {"address_space_bytes", or_null(m.address_space)},
          {"huge_pages", m.huge_pages},
          {"mpi", or_none(m.mpi)},
          {"under_mpi", m.under_mpi},
          {"hwloc_opencl_plugin", or_none(m.opencl_plugin)},
          {"environment", environment},
          {"accelerators", accelerators_json(accelerators)},
          {"accelerator_problem", or_none(accelerators.problem)},
          {"disk_free_bytes", m.disk_free},
          {"f32_flops_one_thread", r.f32_one},
          {"f32_flops_all_threads", r.f32_all},
          {"bf16_flops_one_thread", r.bf16_one},
          {"bf16_flops_all_threads", r.bf16_all},
          {"memory_bytes_per_second", r.bandwidth},
          {"advice", engine::advice(m, r)}};
}

std::string to_text(const Machine& m, const ops::Accelerators& accelerators,
                    const MachineRates& r) {
  std::string text;
  const auto line = [&](std::string_view name, const std::string& value) {
    text += fmt::format("{:<14}", name) + wrap(value, 14);
  };
  line("cleave", std::string(version()));
  line("processor", m.processor);
  line("instructions",
       fmt::format(
           "{} for element-wise kernels, {}; bf16 dot products: {}, AMX: {}", m.instructions.simd,
           m.instructions.onednn.empty() ? "no oneDNN" : m.instructions.onednn + " in oneDNN",
           m.instructions.bf16_dot ? "yes" : "no", m.instructions.amx_bf16 ? "yes" : "no"));
  if (!m.instructions.limit.empty())
    line("", fmt::format("held down by CLEAVE_ISA={}", m.instructions.limit));
  line("exact bits", exact_bits_of(m.instructions));
  line("cores", fmt::format("{} hardware threads, {} allowed, on {} cores; load {:.1f}", m.online,
                            m.allowed, m.allowed_cores, m.load));
  if (m.processor_quota) line("quota", fmt::format("{:g} hardware threads", *m.processor_quota));
  line("binding", binding_of(m));
  line("memory",
       fmt::format("{}, {} available", format_bytes(m.memory), format_bytes(m.memory_available)));
  if (m.container_memory) line("container", format_bytes(*m.container_memory) + " left");
  if (m.address_space) line("ulimit -v", format_bytes(*m.address_space));
  line("huge pages", m.huge_pages.empty() ? "unknown" : m.huge_pages);
  line("MPI", (m.mpi.empty() ? "none: this cleave was built without it" : m.mpi) +
                  (m.under_mpi ? ", started by it" : ", not started by it"));
  for (const ops::AcceleratorInfo& info : accelerators.all) line(info.kind, accelerator_text(info));
  if (accelerators.all.empty()) line("accelerators", "none: " + accelerators.problem);
  for (const auto& [name, value] : m.environment) line("environment", name + "=" + value);
  line("disk", format_bytes(m.disk_free) + " free here");
  line("f32", fmt::format("{:.1f} GFLOP/s with one thread, {:.1f} with {}", r.f32_one / 1e9,
                          r.f32_all / 1e9, m.allowed));
  line("bf16", fmt::format("{:.1f} GFLOP/s with one thread, {:.1f} with {}", r.bf16_one / 1e9,
                           r.bf16_all / 1e9, m.allowed));
  line("bandwidth", fmt::format("{:.1f} GB/s with {} threads", r.bandwidth / 1e9, m.allowed));
  text += "\nWhat will limit you here:\n";
  for (const std::string& sentence : engine::advice(m, r)) text += "- " + wrap(sentence, 2);
  return text;
}

}  // namespace

void add_doctor_command(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand(
      "doctor", "Say what this machine offers, how fast it is, and what will limit a run here.");
  command->footer("Examples:\n  cleave doctor\n  mpirun -np 1 cleave doctor");
  command->add_flag("--json", *json, "Print one JSON object");
  command->callback([json] {
    const Machine machine = engine::look_at_machine();
    const ops::Accelerators accelerators = ops::find_accelerators();
    const MachineRates rates = engine::measure_machine(machine.allowed);
    write_file("", *json ? json_text(to_json(machine, accelerators, rates))
                         : to_text(machine, accelerators, rates));
  });
}

}  // namespace cleave::app
