// cleave's own code allocates nothing inside a step. Every call of operator new and of malloc and
// its kin is counted by whose code it comes from: the return address lies in this program, of which
// all of cleave is a part, or in a shared library (oneDNN, OpenMP, the C++ library).

#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>

#include <gtest/gtest.h>

#include "cleave/comm/local/local_world.h"
#include "cleave/engine/compile/compile.h"
#include "cleave/engine/run/device.h"
#include "cleave/train/step/random_source.h"
#include "cleave/train/step/run_optimizer.h"

extern "C" {
extern char __executable_start;
extern char etext;
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* memory, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);
}

namespace {

struct Counts {
  std::int64_t ours = 0;
  std::int64_t libraries = 0;
  std::int64_t library_bytes = 0;  // asked for, not held
};

thread_local Counts counts;

void note(const void* caller, std::size_t bytes) {
  const char* at = static_cast<const char*>(caller);
  if (at >= &__executable_start && at < &etext) {
    ++counts.ours;
  } else {
    ++counts.libraries;
    counts.library_bytes += static_cast<std::int64_t>(bytes);
  }
}

}  // namespace

#define NOTE(bytes) note(__builtin_return_address(0), bytes)

extern "C" {

void* malloc(std::size_t size) {
  NOTE(size);
  return __libc_malloc(size);
}

void* calloc(std::size_t count, std::size_t size) {
  NOTE(count * size);
  return __libc_calloc(count, size);
}

void* realloc(void* memory, std::size_t size) {
  NOTE(size);
  return __libc_realloc(memory, size);
}

void* aligned_alloc(std::size_t alignment, std::size_t size) {
  NOTE(size);
  return __libc_memalign(alignment, size);
}

int posix_memalign(void** memory, std::size_t alignment, std::size_t size) {
  NOTE(size);
  *memory = __libc_memalign(alignment, size);
  return *memory == nullptr ? 12 : 0;  // ENOMEM
}

}  // extern "C"

// Not through our malloc, which would take the caller for this program whoever it is.
void* operator new(std::size_t size) {
  NOTE(size);
  if (void* memory = __libc_malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}

void* operator new(std::size_t size, std::align_val_t alignment) {
  NOTE(size);
  if (void* memory = __libc_memalign(static_cast<std::size_t>(alignment), size)) return memory;
  throw std::bad_alloc();
}

void operator delete(void* memory) noexcept {
  std::free(memory);
}

void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}

void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace cleave::train {
namespace {

constexpr int kMicrobatches = 4;

/// The counts of each device's third step: pools that grow with what is in flight at once, which is
/// a matter of timing, have had two steps to do so.
Counts allocated_in_a_step(const model::Family* kind, DType dtype, const engine::Layout& layout) {
  const ModelShape shape{.kind = kind,
                         .layers = 4,
                         .hidden = 64,
                         .heads = 4,
                         .kv_heads = 4,
                         .ffn = 128,
                         .vocab = 61,
                         .context = 16,
                         .tie_embeddings = kind == &model::gpt};
  const engine::CompiledStep step =
      engine::compile(model::graph_of(shape, {.sequences = 1, .sequence = 16, .dtype = dtype}),
                      {.layout = layout, .microbatches = kMicrobatches / layout.data});
  std::mutex mutex;
  Counts total;
  comm::run_devices(step.devices(), [&](comm::Communicator& world) {
    engine::Device device(step, world.rank(), 1, world);
    device.initialise(7);
    RunOptimizer optimizer({.steps = 3, .lr = 1e-2, .warmup = 1});
    RandomSource source(1, 61);
    Counts before;
    for (int s = 0; s < 3; ++s) {
      optimizer.begin_step(s);
      before = counts;
      device.executor().run(
          {.source = &source, .optimizer = &optimizer, .loss_scale = 1.0f / (kMicrobatches * 16)});
    }
    const std::lock_guard lock(mutex);
    total.ours += counts.ours - before.ours;
    total.libraries += counts.libraries - before.libraries;
    total.library_bytes += counts.library_bytes - before.library_bytes;
  });
  return total;
}

TEST(Allocations, AreCountedByWhoseCodeAsksForThem) {
  const Counts before = counts;
  auto* ours = new int(1);
  asm volatile("" : : "r"(ours) : "memory");
  delete ours;
  EXPECT_EQ(counts.ours - before.ours, 1);
}

TEST(Allocations, OurCodeMakesNoneInsideAStep) {
  for (const model::Family* kind : {&model::gpt, &model::llama}) {
    for (const DType dtype : {DType::F32, DType::BF16}) {
      for (const engine::Layout& layout :
           {engine::Layout{}, engine::Layout{.pipeline = 2},
            engine::Layout{.pipeline = 2, .data = 2, .schedule = "zb-h1"},
            engine::Layout{.tensor = 2, .schedule = "zb-h1"},
            engine::Layout{.tensor = 2, .sequence_parallel = true}}) {
        const Counts step = allocated_in_a_step(kind, dtype, layout);
        EXPECT_EQ(step.ours, 0) << kind->name << ", " << to_string(dtype) << ", pipeline "
                                << layout.pipeline << ", data " << layout.data << ", tensor "
                                << layout.tensor;
        RecordProperty("library_calls", std::to_string(step.libraries));
        RecordProperty("library_bytes", std::to_string(step.library_bytes));
      }
    }
  }
}

}  // namespace
}  // namespace cleave::train
