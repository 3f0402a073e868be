#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cleave/checkpoint/safetensors.h"
#include "cleave/spec/lora.h"

namespace cleave::checkpoint {

// Low-rank adapters as PEFT saves them: adapter_config.json, and adapter_model.safetensors, in
// which our "x.lora_A.weight" is called "base_model.model.x.lora_A.weight".

inline constexpr std::string_view kAdapterConfigFile = "adapter_config.json";
inline constexpr std::string_view kAdapterModelFile = "adapter_model.safetensors";

/// What adapter_config.json says. Throws UserError if it is missing, no JSON, of another kind of
/// adapter, or asks for what cleave does not do; the sentence names the key.
Lora read_adapter_config(const std::filesystem::path& directory);

/// The tensors of an adapter, under our names.
class AdapterReader {
 public:
  /// Throws UserError if there is no such file, or it does not hold together.
  explicit AdapterReader(const std::filesystem::path& directory);

  /// Throws UserError, naming the tensor, unless these are all that the file has.
  void expect(const std::vector<TensorEntry>& tensors) const;

  void read(const std::string& name, std::int64_t first, std::span<float> elements) const;

 private:
  SafetensorsFile file_;
};

/// Writes an adapter into `directory`, which is made. `read` gives the elements of a tensor, by our
/// name. `transposed`: the weights beside it are stored [in, out], as those of GPT-2.
struct SavedAdapter {
  Lora lora;
  std::vector<TensorEntry> tensors = {};  ///< offsets are ignored
  bool transposed = false;
  std::string base = {};  ///< the directory of the model that it is for; empty: not known
  std::function<void(const TensorEntry& tensor, std::span<float> elements)> read = {};
};
void write_adapter(const std::filesystem::path& directory, const SavedAdapter& adapter);

}  // namespace cleave::checkpoint
