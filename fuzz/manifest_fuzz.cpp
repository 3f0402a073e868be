#include <cstdlib>
#include <span>
#include <string>

#include "memory_file.h"
#include <nlohmann/json.hpp>

#include "cleave/base/check.h"
#include "cleave/base/hash.h"
#include "cleave/checkpoint/manifest.h"
#include "cleave/checkpoint/shallow_json.h"

// Whatever the bytes are, they are a manifest or a state, or a UserError. What is read is written
// and read back equal.

namespace {

namespace checkpoint = cleave::checkpoint;
using cleave::fuzz::MemoryFile;

const std::uint8_t* bytes_of(const std::string& text) {
  return reinterpret_cast<const std::uint8_t*>(text.data());
}

template <class Read>
void read_twice(const MemoryFile& file, Read read) {
  try {
    const auto value = read(file.path());
    const std::string text = checkpoint::to_json(value);
    if (read(MemoryFile(bytes_of(text), text.size()).path()) != value) std::abort();
  } catch (const cleave::UserError&) {
  }
}

/// The same with the checksum that a manifest must have, so that the fuzzer gets past it.
std::string with_checksum(const std::uint8_t* data, std::size_t size) {
  try {
    nlohmann::json root = checkpoint::parse_shallow({reinterpret_cast<const char*>(data), size});
    if (!root.is_object()) return "";
    root.erase("checksum");
    const std::string body = root.dump();
    root["checksum"] = cleave::to_hex(cleave::hash_of(std::as_bytes(std::span(body))));
    return root.dump();
  } catch (const std::exception&) {
    return "";
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const MemoryFile file(data, size);
  read_twice(file, checkpoint::read_state);
  read_twice(file, checkpoint::read_manifest);
  const std::string sound = with_checksum(data, size);
  if (!sound.empty())
    read_twice(MemoryFile(bytes_of(sound), sound.size()), checkpoint::read_manifest);
  return 0;
}
