#include <cstdlib>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "checked.h"
#include "memory_file.h"
#include <nlohmann/json.hpp>

#include "cleave/base/check.h"
#include "cleave/base/hash.h"
#include "cleave/base/shallow_json.h"
#include "cleave/checkpoint/manifest.h"

// Whatever the bytes are, they are a manifest or a state, or a UserError. What is read is written
// and read back equal.

namespace {

namespace checkpoint = cleave::checkpoint;
using cleave::fuzz::MemoryFile;

const std::uint8_t* bytes_of(const std::string& text) {
  return reinterpret_cast<const std::uint8_t*>(text.data());
}

template <class Value>
void read_twice(const MemoryFile& file, Value (*read)(const std::filesystem::path&)) {
  static cleave::fuzz::Checked<Value> values;
  std::optional<Value> value;
  try {
    value = read(file.path());
  } catch (const cleave::UserError&) {
    return;
  }
  values.check_once(std::move(*value), [&](const Value& first) {
    const std::string text = checkpoint::to_json(first);
    if (read(MemoryFile(bytes_of(text), text.size()).path()) != first) std::abort();
  });
}

/// The same with the checksum that a manifest must have, so that the fuzzer gets past it.
std::string with_checksum(const std::string& text) {
  try {
    nlohmann::json root = cleave::parse_shallow<nlohmann::json>(text);
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
  // What is not JSON is refused by both in the same way, with the same function.
  const bool json = nlohmann::json::accept(data, data + size);
  if (json || size % 2 == 0) read_twice(file, checkpoint::read_state);
  if (json || size % 2 == 1) read_twice(file, checkpoint::read_manifest);
  if (!json) return 0;
  const std::string sound = with_checksum({reinterpret_cast<const char*>(data), size});
  if (!sound.empty())
    read_twice(MemoryFile(bytes_of(sound), sound.size()), checkpoint::read_manifest);
  return 0;
}
