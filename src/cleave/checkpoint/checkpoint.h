#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/checkpoint/safetensors.h"
#include "cleave/spec/shape.h"

namespace cleave::checkpoint {

// A checkpoint does not know the layout that wrote it: tensors under their logical names and full
// shapes, f32 throughout.
//
//   checkpoints/latest -> step-00000100
//   checkpoints/step-00000100/model.safetensors      master weights
//                             optimizer.safetensors  name.<slot>, such as name.m: what the
//                                                    optimizer keeps beside each parameter
//                             state.json             step, data position, seed, config, version
//                             manifest.json          sizes and checksums of all of it

struct Parameter {
  std::string name;
  Shape shape;
  std::vector<std::string> slots = {};
};

/// What of a parameter: its weight, or its slot of this number.
enum class Part : std::int32_t { Weight = -1 };

/// Whether two shapes are of the same rows: but for dims of 1 before the first other one, and for
/// how what follows it is divided. A convolution [out, channels, height, width] has the rows of a
/// matrix [out, channels · height · width].
bool same_rows(const Shape& a, const Shape& b);

/// "transformer.wte.weight" for weights, with ".m" for the slot m.
std::string tensor_name(std::string_view parameter, std::string_view slot = {});

/// Where every element goes; a function of the list of parameters alone, so that devices that hold
/// slices of the model agree without talking.
class CheckpointLayout {
 public:
  explicit CheckpointLayout(std::vector<Parameter> parameters);

  const std::vector<Parameter>& parameters() const { return parameters_; }
  const SafetensorsHeader& model() const { return model_; }
  const SafetensorsHeader& optimizer() const { return optimizer_; }

  /// Over both files: weights first.
  std::size_t tensors() const { return model_.tensors.size() + optimizer_.tensors.size(); }
  const TensorEntry& entry(std::size_t tensor) const;

  /// Which tensor a part of a parameter is.
  std::size_t index(Part part, std::size_t parameter) const;

 private:
  std::vector<Parameter> parameters_;
  std::vector<std::size_t> first_slot_;  ///< [parameter] among the tensors of `optimizer_`
  SafetensorsHeader model_;
  SafetensorsHeader optimizer_;
};

inline constexpr std::string_view kModelFile = "model.safetensors";
inline constexpr std::string_view kOptimizerFile = "optimizer.safetensors";
inline constexpr std::string_view kStateFile = "state.json";
inline constexpr std::string_view kManifestFile = "manifest.json";

/// The run beside its tensors.
struct CheckpointState {
  std::int64_t step = 0;           ///< updates done
  std::int64_t data_position = 0;  ///< the next step's place in the data
  std::int64_t seed = 0;
  std::string config;   ///< TOML, as --print-config
  std::string version;  ///< of cleave
  std::string data;     ///< hexadecimal digest of the data; empty from versions that kept none

  friend bool operator==(const CheckpointState&, const CheckpointState&) = default;
};

}  // namespace cleave::checkpoint
