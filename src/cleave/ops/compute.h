#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace cleave::ops {

/// Exact: bf16 is multiplied in f32, by chains of fused multiply-adds, and so a result has one set
/// of bits on every processor that has these. Fastest: by the instructions for it that a processor
/// may have (AVX-512-BF16, AMX), which round in ways of their own. f32 is the same in both.
enum class Arithmetic : std::uint8_t { Exact, Fastest };

class Accelerator;

/// The compute side of one device: its threads and its compiled kernels. One per device, driven by
/// one thread at a time. Several may work side by side, each with a team of its own.
class Compute {
 public:
  /// Kernels compiled so far; only ops/onednn knows what they are.
  class Kernels {
   public:
    virtual ~Kernels() = default;
  };

  /// `accelerator`, which must outlive this, computes instead of the threads; null: they do.
  explicit Compute(int threads, Arithmetic arithmetic = Arithmetic::Fastest,
                   Accelerator* accelerator = nullptr);
  ~Compute();
  Compute(Compute&&) noexcept;
  Compute& operator=(Compute&&) noexcept;

  int threads() const { return threads_; }
  Arithmetic arithmetic() const { return arithmetic_; }
  Accelerator* accelerator() const { return accelerator_; }

  /// Waits until everything that was asked of the device is done. Threads are done at once.
  void finish();

  /// Memory that an op may use during a call; its contents do not outlive the call. It belongs to
  /// the device's arena and is 64-byte aligned.
  void set_scratch(std::span<std::byte> bytes);
  std::span<std::byte> scratch() const { return scratch_; }

  /// Only a build with oneDNN has these.
  Kernels& kernels() { return *kernels_; }

 private:
  int threads_;
  Arithmetic arithmetic_;
  Accelerator* accelerator_;
  std::span<std::byte> scratch_;
  std::unique_ptr<Kernels> kernels_;
};

}  // namespace cleave::ops
