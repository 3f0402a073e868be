#include <cstddef>
#include <cstdint>
#include <string_view>

#include "answer_on.h"

#include "cleave/base/check.h"
#include "cleave/schedule/text.h"

// Whatever the bytes are, reading them gives a program or a UserError.

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    cleave::fuzz::answer_on(
        cleave::schedule::read_text({reinterpret_cast<const char*>(data), size}).program);
  } catch (const cleave::UserError&) {
  }
  return 0;
}
