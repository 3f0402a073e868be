#include <cstddef>
#include <cstdint>

#include "answer_on.h"

#include "cleave/schedule/text.h"

// Whatever the bytes are, reading them gives a program or a UserError.

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  cleave::fuzz::answer_on([&] {
    return cleave::schedule::read_text({reinterpret_cast<const char*>(data), size}).program;
  });
  return 0;
}
