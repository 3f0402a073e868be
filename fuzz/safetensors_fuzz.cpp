#include <cstdlib>
#include <vector>

#include "memory_file.h"

#include "cleave/base/check.h"
#include "cleave/checkpoint/safetensors.h"

// Whatever the bytes are, opening them gives tensors that lie inside the file, or a UserError.

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const cleave::fuzz::MemoryFile bytes(data, size);
  try {
    const cleave::checkpoint::SafetensorsFile file(bytes.path());
    for (const auto& tensor : file.header().tensors) {
      if (tensor.offset < 0 || tensor.offset + tensor.bytes() > static_cast<std::int64_t>(size))
        std::abort();
      if (file.find(tensor.name) == nullptr) std::abort();
      std::vector<float> elements(static_cast<std::size_t>(tensor.shape.elements()));
      if (tensor.type != cleave::checkpoint::StoredType::I32) file.read(tensor, 0, elements);
    }
  } catch (const cleave::UserError&) {
  }
  return 0;
}
