#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cleave::plan {

/// How attention runs: scores written to memory, or never leaving the chip.
enum class AttentionKernel : std::uint8_t { Plain, Flash };

/// Who wrote the kernels of a run. ZeRO-3 runs are PyTorch's FSDP or code like it.
enum class Kernels : std::uint8_t {
  Fused,  ///< element-wise work in few kernels, attention written for the hardware
  Eager,  ///< a kernel for each operation, attention written for the generation before
};

/// The training software that a kind of hardware is used with, unless one says otherwise.
enum class Software : std::uint8_t {
  Early,    ///< GPT writes its scores to memory and has dropout; Llama gathers logits for the loss
  Current,  ///< attention is fused, the loss split over the vocabulary, communication overlapped
};

/// One kind of device: what its data sheet says, and the share of it that programs sustain.
/// docs/planner.md says where the shares come from; none belongs to a single published run.
struct Hardware {
  std::string_view name;    ///< as in --cluster
  double peak_flops = 0;    ///< bf16 (fp16 on V100), dense, per second
  double matmul_flops = 0;  ///< what large products keep up for hours, power limit included
  double memory_bandwidth = 0;
  std::int64_t memory = 0;       ///< bytes on the device
  int processors = 0;            ///< units that take one tile of a product each
  int node = 8;                  ///< devices that share the fast links
  double link_bandwidth = 0;     ///< bytes per second and direction, inside a node
  double network_bandwidth = 0;  ///< bytes per second, direction and device, between nodes
  Software software = Software::Current;
};

/// What is left of the memory for tensors: the driver's context, communication buffers and
/// fragmentation take the rest.
std::int64_t usable_memory(const Hardware& hardware);

/// Knows names in any case. Throws UserError that lists the known names.
const Hardware& find_hardware(std::string_view name);

/// Equal devices of one kind, filled node by node.
struct Cluster {
  const Hardware* hardware = nullptr;
  std::int64_t devices = 0;
};

/// "a100-80gb:1024". Throws UserError that names what is wrong and the remedy.
Cluster parse_cluster(std::string_view text);

/// "a100-80gb:1024".
std::string to_string(const Cluster& cluster);

}  // namespace cleave::plan
