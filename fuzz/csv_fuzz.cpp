#include <cstddef>
#include <cstdint>

#include "answer_on.h"

#include "cleave/schedule/torch_csv.h"

// Whatever the bytes are, reading them as CSV gives a program or a UserError.

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  cleave::fuzz::answer_on([&] {
    return cleave::schedule::parse_torch_csv({reinterpret_cast<const char*>(data), size});
  });
  return 0;
}
