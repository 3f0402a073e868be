#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/spec/dtype.h"
#include "cleave/tensor/memory.h"
#include "cleave/tensor/view.h"

namespace cleave::ops {

/// What a kernel of an accelerator is called with: a tensor in its memory, which may be empty, a
/// whole number or an f32.
class KernelArgument {
 public:
  enum class Kind : std::uint8_t { Tensor, Number, Real };

  KernelArgument(ConstView tensor) : kind_(Kind::Tensor), at_(tensor.bytes()) {}
  KernelArgument(View tensor) : kind_(Kind::Tensor), at_(tensor.bytes()) {}
  KernelArgument(const std::byte* at) : kind_(Kind::Tensor), at_(at) {}
  KernelArgument(std::int64_t number) : kind_(Kind::Number), number_(number) {}
  KernelArgument(float real) : kind_(Kind::Real), real_(real) {}

  Kind kind() const { return kind_; }
  const std::byte* at() const { return at_; }
  std::int64_t number() const { return number_; }
  float real() const { return real_; }

 private:
  Kind kind_;
  const std::byte* at_ = nullptr;
  std::int64_t number_ = 0;
  float real_ = 0;
};

/// One call of a kernel of ops/device: `groups` groups of `lanes` lanes.
struct KernelCall {
  const char* kernel;
  DType dtype;  ///< of the elements: which of the two compiled forms
  std::int64_t groups;
  int lanes;
  std::span<const KernelArgument> arguments;
};

/// A device that computes with kernels of its own, in a memory of its own. Calls are done in order;
/// launch() does not wait for them, copies do. One thread at a time launches.
class Accelerator {
 public:
  virtual ~Accelerator() = default;

  virtual const std::string& name() const = 0;
  virtual Memory& memory() = 0;
  virtual void launch(const KernelCall& call) = 0;
  virtual void finish() = 0;
};

/// What an accelerator of this machine is and can do.
struct AcceleratorInfo {
  std::string kind;      ///< what `devices.kind` calls it: "opencl:0"
  std::string name;      ///< as its driver has it
  std::string platform;  ///< and its version
  std::int64_t memory = 0;
  std::int64_t largest_block = 0;  ///< bytes: all of a device's tensors are one block
  bool fused = false;              ///< multiplies and adds in one instruction
  bool denormals = false;
  bool rounds_division = false;  ///< correctly, and square roots
  bool doubles = false;
  std::string problem;  ///< why it cannot train with the bits of the others; empty: it can
};

struct Accelerators {
  std::vector<AcceleratorInfo> all;
  std::string problem;  ///< why there is none; empty if there is one
};

/// The accelerators of this machine, in the order in which `opencl:N` counts them.
Accelerators find_accelerators();

/// Whether this build knows OpenCL at all. Asks no driver.
bool built_with_opencl();

/// What device `index` of a run with `kind` ("cpu", "opencl" or "opencl:N") computes on: "opencl"
/// deals the accelerators out in turn. Null for "cpu". Throws UserError, with what there is, if
/// there is no such accelerator or if it cannot be exact.
const AcceleratorInfo* choose_accelerator(const Accelerators& found, std::string_view kind,
                                          int index);

class Compute;

/// Throws UserError if an accelerator computes: it has no kernel for `what`.
void require_processor(const Compute& compute, std::string_view what);

/// Opens the one of find_accelerators() that has this kind. Throws UserError if its kernels cannot
/// be built; the compiler's log is kept, and the error says where.
std::unique_ptr<Accelerator> open_accelerator(const AcceleratorInfo& info);

}  // namespace cleave::ops
