#include <memory>
#include <vector>

#include "command.h"
#include "files.h"
#include "json_text.h"
#include "version/commit.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cleave/base/version.h"
#ifdef CLEAVE_ENGINE
#include "cleave/comm/mpi/session.h"
#include "cleave/ops/accelerator.h"
#include "cleave/ops/instruction_set.h"
#include "cleave/ops/product_library.h"
#endif

namespace cleave::app {
namespace {

std::string compiler() {
#ifdef __clang__
  return "clang " __clang_version__;
#else
  return "g++ " __VERSION__;
#endif
}

/// What this build can do beyond planning.
std::vector<std::string> features() {
#ifdef CLEAVE_ENGINE
  std::vector<std::string> names = {"plan", "train", "tcp"};
  if (!comm::mpi_version().empty()) names.push_back("mpi");
  if (!ops::instruction_set().onednn.empty()) names.push_back("onednn");
  if (ops::built_with_opencl()) names.push_back("opencl");
  if (!ops::product_library().empty()) names.push_back("clblast");
  return names;
#else
  return {"plan"};
#endif
}

/// Chosen on this processor, widest first; none without the engine.
std::vector<std::string> instruction_sets() {
#ifdef CLEAVE_ENGINE
  const ops::InstructionSet set = ops::instruction_set();
  std::vector<std::string> names = {"kernels " + set.simd};
  if (!set.onednn.empty()) names.push_back("oneDNN " + set.onednn);
  if (set.bf16_dot) names.push_back("bf16 dot products");
  if (set.amx_bf16) names.push_back("AMX");
  return names;
#else
  return {};
#endif
}

std::string version_lines(const std::string& program) {
  return fmt::format("{} {}\ncommit        {}\ncompiler      {}\nfeatures      {}\n{}", program,
                     version(), commit(), compiler(), fmt::join(features(), ", "),
                     instruction_sets().empty()
                         ? ""
                         : fmt::format("instructions  {}\n", fmt::join(instruction_sets(), ", ")));
}

nlohmann::json version_json() {
  return {{"version", version()},
          {"commit", commit()},
          {"compiler", compiler()},
          {"features", features()},
          {"instructions", instruction_sets()}};
}

}  // namespace

void add_version_command(CLI::App& app) {
  CLI::App* verb = app.add_subcommand(
      "version", "Print version, commit, compiler, features and instruction sets.");
  verb->footer("Example:\n  " + app.get_name() + " version");
  auto json = std::make_shared<bool>(false);
  verb->add_flag("--json", *json, "Print one JSON object");
  verb->callback([json, program = app.get_name()] {
    write_file("", *json ? json_text(version_json()) : version_lines(program));
  });
}

}  // namespace cleave::app
