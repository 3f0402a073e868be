#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ops/tensor.h"
#include <gtest/gtest.h>

#include "cleave/ops/accelerator.h"
#include "cleave/ops/compute.h"
#include "cleave/tensor/arena.h"

namespace cleave::testing {

inline constexpr std::int64_t kBytes = std::int64_t{24} << 20;
inline constexpr std::int64_t kScratch = std::int64_t{8} << 20;

/// The same tensors in two memories.
class Twins {
 public:
  explicit Twins(ops::Accelerator& accelerator)
      : accelerator_(accelerator),
        host_(kBytes),
        device_(kBytes, accelerator.memory()),
        on_host_(1, ops::Arithmetic::Exact),
        on_device_(1, ops::Arithmetic::Exact, &accelerator),
        roughly_(1, ops::Arithmetic::Fastest, &accelerator) {
    on_host_.set_scratch({host_.at(kBytes - kScratch), kScratch});
    for (ops::Compute* compute : {&on_device_, &roughly_})
      compute->set_scratch({device_.at(kBytes - kScratch), kScratch});
  }

  /// A tensor, by its place.
  struct Named {
    std::int64_t offset;
    DType dtype;
    Shape shape;
  };

  Named random(DType dtype, Shape shape) {
    Tensor values = Tensor::random(dtype, shape, ++seed_);
    return put(values.view());
  }
  Named ids(std::int64_t count, std::int32_t below) {
    Tensor values(DType::I32, {count});
    for (std::int64_t i = 0; i < count; ++i)
      values.view().as<std::int32_t>()[i] = static_cast<std::int32_t>(i * 7919 % below);
    return put(values.view());
  }
  Named put(View values) {
    const Named named{next_, values.dtype(), values.shape()};
    next_ += (values.byte_count() + 63) / 64 * 64;
    CLEAVE_CHECK(next_ <= kBytes - kScratch, "no room");
    const std::span bytes(values.bytes(), static_cast<std::size_t>(values.byte_count()));
    host_memory().copy_in(host_.at(named.offset), bytes);
    accelerator_.memory().copy_in(device_.at(named.offset), bytes);
    return named;
  }

  using At = std::function<View(const Named&)>;

  /// Runs it on the accelerator alone: what `result` is then.
  std::vector<std::byte> on_device(ops::Arithmetic arithmetic, const Named& result,
                                   const std::function<void(ops::Compute&, const At&)>& run) {
    run(computing(arithmetic), in(device_));
    std::vector<std::byte> copy(
        static_cast<std::size_t>(result.shape.elements() * size_of(result.dtype)));
    accelerator_.memory().copy_out(device_.at(result.offset), copy);
    return copy;
  }

  using Run = std::function<void(ops::Compute&, const At&)>;

  /// Runs it on both, and compares everything that was put here.
  void expect_same(const char* what, const Run& run,
                   ops::Arithmetic on_device = ops::Arithmetic::Exact) {
    run(on_host_, in(host_));
    run(computing(on_device), in(device_));
    std::vector<std::byte> copy(static_cast<std::size_t>(next_));
    accelerator_.memory().copy_out(device_.at(0), copy);
    std::int64_t differ = 0, first = -1;
    for (std::int64_t i = 0; i < next_; ++i) {
      if (copy[static_cast<std::size_t>(i)] == *host_.at(i)) continue;
      if (first < 0) first = i;
      ++differ;
    }
    EXPECT_EQ(differ, 0) << what << ": the first byte that differs is " << first << " of " << next_;
  }

 private:
  static At in(const Arena& arena) {
    return [&arena](const Named& n) { return View(arena.at(n.offset), n.dtype, n.shape); };
  }
  ops::Compute& computing(ops::Arithmetic arithmetic) {
    return arithmetic == ops::Arithmetic::Exact ? on_device_ : roughly_;
  }

  ops::Accelerator& accelerator_;
  Arena host_, device_;
  ops::Compute on_host_, on_device_, roughly_;
  std::int64_t next_ = 0;
  std::uint32_t seed_ = 0;
};

/// Tests of ops on the first accelerator, in one format; skipped where there is none.
class OnAccelerator : public ::testing::TestWithParam<DType> {
 protected:
  static void SetUpTestSuite() {
    const ops::Accelerators found = ops::find_accelerators();
    problem_ = found.problem;
    if (!found.all.empty()) accelerator_ = ops::open_accelerator(found.all[0]);
  }
  static void TearDownTestSuite() { accelerator_.reset(); }
  void SetUp() override {
    if (accelerator_ == nullptr) GTEST_SKIP() << problem_;
    twins_ = std::make_unique<Twins>(*accelerator_);
  }
  void TearDown() override { twins_.reset(); }

  Twins& twins() { return *twins_; }
  static DType dtype() { return GetParam(); }

  inline static std::unique_ptr<ops::Accelerator> accelerator_;
  inline static std::string problem_;
  std::unique_ptr<Twins> twins_;
};

}  // namespace cleave::testing
