#include "cleave/layers/coded_edge.h"

#include "cleave/ops/codec.h"

namespace cleave {
namespace {

const Codec* codec_named(const std::string& name) {
  return name == "none" ? nullptr : find_codec(name);
}

Philox chance_of(const spec::CodedAttributes& how, const char* purpose) {
  return Philox(how.seed, purpose, how.edge);
}

}  // namespace

CodedEnd::CodedEnd(LayerSpec given)
    : Layer(std::move(given)),
      forward_(codec_named(spec().as<spec::CodedAttributes>().codecs.forward)),
      backward_(codec_named(spec().as<spec::CodedAttributes>().codecs.backward)),
      forward_chance_(chance_of(spec().as<spec::CodedAttributes>(), "codec, forward")),
      backward_chance_(chance_of(spec().as<spec::CodedAttributes>(), "codec, backward")) {}

void CodedEnd::encode(ops::Compute& compute, ConstView plain, const Codec* codec,
                      const Philox& random, View coded, const LayerCall& call) const {
  ops::encode(compute, plain, codec, {random, static_cast<std::uint64_t>(call.microbatch) << 32},
              coded);
}

void Encode::forward(ops::Compute& compute, const LayerCall& call) {
  encode(compute, call.x, forward_, forward_chance_, call.y, call);
}

void Encode::backward_input(ops::Compute& compute, const LayerCall& call) {
  if (call.dx) ops::decode(compute, call.dy, backward_, call.dx);
}

void Decode::forward(ops::Compute& compute, const LayerCall& call) {
  ops::decode(compute, call.x, forward_, call.y);
}

void Decode::backward_input(ops::Compute& compute, const LayerCall& call) {
  if (call.dx) encode(compute, call.dy, backward_, backward_chance_, call.dx, call);
}

}  // namespace cleave
