#pragma once

#include "cleave/base/codec.h"
#include "cleave/layers/layer.h"
#include "cleave/spec/coded_edge.h"

namespace cleave {

/// What both ends of a coded edge know: the codec of either way, and how numbers are drawn. Element
/// i of microbatch m of the run goes by number m · 2^32 + i, whichever device has it.
class CodedEnd : public Layer {
 public:
  explicit CodedEnd(LayerSpec spec);

 protected:
  void encode(ops::Compute& compute, ConstView plain, const Codec* codec, const Philox& random,
              View coded, const LayerCall& call) const;

  const Codec* forward_;   ///< null: as it is
  const Codec* backward_;  ///< likewise
  Philox forward_chance_;
  Philox backward_chance_;
};

/// y is x in coded form; dx what the coded dy stands for.
class Encode : public CodedEnd {
 public:
  using CodedEnd::CodedEnd;
  void forward(ops::Compute& compute, const LayerCall& call) override;
  void backward_input(ops::Compute& compute, const LayerCall& call) override;
};

/// y is what the coded x stands for; dx is dy in coded form.
class Decode : public CodedEnd {
 public:
  using CodedEnd::CodedEnd;
  void forward(ops::Compute& compute, const LayerCall& call) override;
  void backward_input(ops::Compute& compute, const LayerCall& call) override;
};

}  // namespace cleave
