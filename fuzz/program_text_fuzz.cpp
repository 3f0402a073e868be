#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "cleave/base/check.h"
#include "cleave/schedule/text.h"
#include "cleave/schedule/torch_csv.h"
#include "cleave/schedule/verifier.h"

// Whatever the bytes are, reading them gives a program or a UserError, and the verifier answers on
// every program that can be read. A program that was read is written and read back unchanged.

namespace {

using cleave::UserError;
using cleave::schedule::Level;
using cleave::schedule::Program;

void answer_on(const Program& program) {
  for (const Level level : {Level::Compute, Level::Messages, Level::Final, Level::Forward})
    for (const auto& violation : verify(program, level))
      if (to_string(program, violation).empty()) std::abort();
  const std::string text = to_text(program);
  if (cleave::schedule::parse_program(text) != program) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    answer_on(cleave::schedule::read_text(text).program);
  } catch (const UserError&) {
  }
  try {
    answer_on(cleave::schedule::parse_torch_csv(text));
  } catch (const UserError&) {
  }
  return 0;
}
