#include "cleave/ops/onednn/matmul_kernel.h"

#include <array>

#include "cleave/base/check.h"
#include "cleave/ops/onednn/team.h"

namespace cleave::ops::onednn {
namespace {

using dnnl::memory;

memory::data_type type_of(DType dtype) {
  return dtype == DType::BF16 ? memory::data_type::bf16 : memory::data_type::f32;
}

struct Layout {
  std::int64_t rows, cols, stride, batch_stride;
  Transpose transpose = Transpose::No;
};

memory::desc operand(const MatmulSpec& spec, DType dtype, const Layout& at) {
  const bool swapped = at.transpose == Transpose::Yes;
  const std::int64_t row = swapped ? 1 : at.stride;
  const std::int64_t col = swapped ? at.stride : 1;
  if (spec.batch == 1) return {{at.rows, at.cols}, type_of(dtype), memory::dims{row, col}};
  return {{spec.batch, at.rows, at.cols}, type_of(dtype), memory::dims{at.batch_stride, row, col}};
}

memory::desc bias_of(const MatmulSpec& spec) {
  if (spec.bias == Bias::None) return {};
  if (spec.batch == 1) return {{1, spec.n}, type_of(spec.bias_dtype), memory::dims{spec.n, 1}};
  return {{1, 1, spec.n}, type_of(spec.bias_dtype), memory::dims{spec.n, spec.n, 1}};
}

dnnl::matmul::primitive_desc compile(const dnnl::engine& engine, const MatmulSpec& spec) {
  const memory::desc a =
      operand(spec, spec.in, {spec.m, spec.k, spec.a_stride, spec.a_batch_stride, spec.a});
  const memory::desc b =
      operand(spec, spec.in, {spec.k, spec.n, spec.b_stride, spec.b_batch_stride, spec.b});
  const memory::desc out =
      operand(spec, spec.out, {spec.m, spec.n, spec.out_stride, spec.out_batch_stride});
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (spec.write == Write::Accumulate) {
    dnnl::post_ops add_previous;
    add_previous.append_sum(1.0f);
    attributes.set_post_ops(add_previous);
  }
  const dnnl::matmul::desc product = spec.bias == Bias::None
                                         ? dnnl::matmul::desc(a, b, out)
                                         : dnnl::matmul::desc(a, b, bias_of(spec), out);
  return {product, attributes, engine};
}

void point(memory& operand, const void* at) {
  // oneDNN takes a mutable address even for what it only reads.
  dnnl_memory_set_data_handle(operand.get(), const_cast<void*>(at));
}

}  // namespace

MatmulKernel::MatmulKernel(const dnnl::engine& engine, const MatmulSpec& spec, int threads)
    : threads_(threads), stream_(engine) {
  const TeamOf team(threads);
  const dnnl::matmul::primitive_desc compiled = compile(engine, spec);
  primitive_ = dnnl::matmul(compiled);
  scratch_bytes_ = static_cast<std::int64_t>(compiled.scratchpad_desc().get_size());
  const auto hollow = [&](const memory::desc& desc) {
    return desc.get_size() == 0 ? memory() : memory(desc, engine, DNNL_MEMORY_NONE);
  };
  a_ = hollow(compiled.src_desc());
  b_ = hollow(compiled.weights_desc());
  out_ = hollow(compiled.dst_desc());
  bias_ = hollow(bias_of(spec));
  scratch_ = hollow(compiled.scratchpad_desc());
}

void MatmulKernel::run(const MatmulPointers& at) {
  const TeamOf team(threads_);
  // The C interface: the C++ one builds a map and a vector on every call.
  std::array<dnnl_exec_arg_t, 5> args;
  int count = 0;
  const auto pass = [&](int role, memory& operand, const void* address) {
    if (!operand.get(true)) return;
    point(operand, address);
    args[count++] = {role, operand.get()};
  };
  pass(DNNL_ARG_SRC, a_, at.a);
  pass(DNNL_ARG_WEIGHTS, b_, at.b);
  pass(DNNL_ARG_DST, out_, at.out);
  pass(DNNL_ARG_BIAS, bias_, at.bias);
  pass(DNNL_ARG_SCRATCHPAD, scratch_, at.scratch);
  const dnnl_status_t status =
      dnnl_primitive_execute(primitive_.get(), stream_.get(), count, args.data());
  CLEAVE_CHECK(status == dnnl_success, "oneDNN status ", status);
}

}  // namespace cleave::ops::onednn
