#pragma once

#include <array>
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
//                             optimizer.safetensors  name.m and name.v: the moments
//                             state.json             step, data position, seed, config, version
//                             manifest.json          sizes and checksums of all of it

/// What is saved of one parameter.
enum class Part : std::uint8_t { Weight, FirstMoment, SecondMoment };

inline constexpr std::array<Part, 3> kParts = {Part::Weight, Part::FirstMoment, Part::SecondMoment};

struct Parameter {
  std::string name;
  Shape shape;
};

/// Where every element goes; a function of the list of parameters alone, so that devices that hold
/// slices of the model agree without talking.
class CheckpointLayout {
 public:
  explicit CheckpointLayout(std::vector<Parameter> parameters);

  const std::vector<Parameter>& parameters() const { return parameters_; }
  const SafetensorsHeader& model() const { return model_; }
  const SafetensorsHeader& optimizer() const { return optimizer_; }

  const TensorEntry& entry(Part part, std::size_t parameter) const;

 private:
  std::vector<Parameter> parameters_;
  SafetensorsHeader model_;
  SafetensorsHeader optimizer_;
};

inline constexpr std::string_view kModelFile = "model.safetensors";
inline constexpr std::string_view kOptimizerFile = "optimizer.safetensors";
inline constexpr std::string_view kStateFile = "state.json";
inline constexpr std::string_view kManifestFile = "manifest.json";

/// "transformer.wte.weight" for weights, with ".m" or ".v" for the moments.
std::string tensor_name(Part part, std::string_view parameter);

/// The run beside its tensors.
struct CheckpointState {
  std::int64_t step = 0;           ///< updates done
  std::int64_t data_position = 0;  ///< the next step's place in the data
  std::int64_t seed = 0;
  std::string config;   ///< TOML, as --print-config
  std::string version;  ///< of cleave

  friend bool operator==(const CheckpointState&, const CheckpointState&) = default;
};

}  // namespace cleave::checkpoint
