#include "cleave/ops/gemm_limit.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <unordered_map>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

#include "cleave/ops/onednn/amx_matmul.h"
#include "cleave/ops/onednn/team.h"

namespace cleave::ops {
namespace {

using dnnl::memory;

double now() {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(time).count();
}

memory::data_type type_of(DType dtype) {
  return dtype == DType::BF16 ? memory::data_type::bf16 : memory::data_type::f32;
}

enum class Weights { Plain, Transposed, Reordered };

dnnl::matmul::primitive_desc compile(const dnnl::engine& engine, const MatmulSpec& spec,
                                     Weights weights) {
  using Tag = memory::format_tag;
  const Tag plain = spec.batch == 1 ? Tag::ab : Tag::abc;
  const Tag transposed = spec.batch == 1 ? Tag::ba : Tag::acb;
  const auto matrix = [&](std::int64_t rows, std::int64_t columns, DType dtype, Tag tag) {
    const memory::dims dims =
        spec.batch == 1 ? memory::dims{rows, columns} : memory::dims{spec.batch, rows, columns};
    return memory::desc(dims, type_of(dtype), tag);
  };
  const Tag tag = weights == Weights::Plain        ? plain
                  : weights == Weights::Transposed ? transposed
                                                   : Tag::any;
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return {{matrix(spec.m, spec.k, spec.in, plain), matrix(spec.k, spec.n, spec.in, tag),
           matrix(spec.m, spec.n, spec.out, plain)},
          attributes,
          engine};
}

/// oneDNN 2.6 has no bf16 below AVX-512; the step converts to f32 there, and so does its limit.
MatmulSpec supported(MatmulSpec spec) {
  if (!onednn::has_matmul(spec.in)) {
    spec.in = DType::F32;
    spec.out = DType::F32;
  }
  return spec;
}

/// Memory that grows to the largest operand, filled with numbers of ordinary size.
class Room {
 public:
  void reserve(std::size_t bytes) {
    if (bytes / 64 + 1 <= lines_.size()) return;
    lines_.resize(bytes / 64 + 1);
    for (Line& line : lines_) {
      // 0x3C3C is 0.0115 as bf16, and 0x3C3C3C3C as f32.
      std::memset(line.bytes, 0x3C, sizeof line.bytes);
    }
  }
  void* data() { return lines_.data(); }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> lines_;
};

}  // namespace

class GemmLimit::Products {
 public:
  Products(int threads, std::span<const CountedMatmul> products)
      : threads_(threads), engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    const onednn::TeamOf team(threads);
    for (const CountedMatmul& product : products) add(product);
    for (Product& product : products_) choose_layout(product);
  }

  double run() {
    const onednn::TeamOf team(threads_);
    const double start = now();
    for (Product& product : products_) {
      for (std::int64_t i = 0; i < product.count; ++i) execute(product.candidates.front());
    }
    return now() - start;
  }

 private:
  struct Candidate {
    dnnl::matmul primitive;
    std::unordered_map<int, memory> args;
    double seconds = 0;
  };
  struct Product {
    std::int64_t count;
    std::vector<dnnl::matmul::primitive_desc> layouts;
    std::vector<Candidate> candidates;
  };

  void add(const CountedMatmul& counted) {
    Product product{counted.count, {}, {}};
    const MatmulSpec spec = supported(counted.spec);
    for (Weights weights : {Weights::Reordered, Weights::Transposed, Weights::Plain}) {
      const dnnl::matmul::primitive_desc layout = compile(engine_, spec, weights);
      a_.reserve(layout.src_desc().get_size());
      b_.reserve(layout.weights_desc().get_size());
      out_.reserve(layout.dst_desc().get_size());
      scratch_.reserve(layout.scratchpad_desc().get_size());
      product.layouts.push_back(layout);
    }
    products_.push_back(std::move(product));
  }

  /// Leaves the fastest candidate.
  void choose_layout(Product& product) {
    for (const dnnl::matmul::primitive_desc& layout : product.layouts) {
      Candidate candidate{
          dnnl::matmul(layout),
          {{DNNL_ARG_SRC, memory(layout.src_desc(), engine_, a_.data())},
           {DNNL_ARG_WEIGHTS, memory(layout.weights_desc(), engine_, b_.data())},
           {DNNL_ARG_DST, memory(layout.dst_desc(), engine_, out_.data())},
           {DNNL_ARG_SCRATCHPAD, memory(layout.scratchpad_desc(), engine_, scratch_.data())}}};
      candidate.seconds = time(candidate);
      product.candidates.push_back(std::move(candidate));
    }
    const auto best =
        std::min_element(product.candidates.begin(), product.candidates.end(),
                         [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
    std::iter_swap(product.candidates.begin(), best);
    product.candidates.resize(1);
  }

  /// The least of several runs; of fewer when they are long, which are also the steadier ones.
  double time(Candidate& candidate) {
    constexpr double kEnough = 0.05;
    double best = 1e30;
    double spent = 0;
    for (int i = 0; i < 3 || (spent < kEnough && i < 50); ++i) {
      const double start = now();
      execute(candidate);
      const double seconds = now() - start;
      best = std::min(best, seconds);
      spent += seconds;
      if (spent > 4 * kEnough) break;
    }
    return best;
  }

  void execute(Candidate& candidate) {
    candidate.primitive.execute(stream_, candidate.args);
    stream_.wait();
  }

  int threads_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  Room a_, b_, out_, scratch_;
  std::vector<Product> products_;
};

GemmLimit::GemmLimit(const Compute& compute, std::span<const CountedMatmul> products)
    : products_(std::make_unique<Products>(compute.threads(), products)) {}

GemmLimit::~GemmLimit() = default;

double GemmLimit::run() {
  return products_->run();
}

}  // namespace cleave::ops
