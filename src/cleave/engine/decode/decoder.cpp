#include "cleave/engine/decode/decoder.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "cleave/base/check.h"
#include "cleave/model/family.h"
#include "cleave/ops/elementwise.h"
#include "cleave/plan/tune/partition.h"

namespace cleave::engine {
namespace {

/// A prompt is read in blocks of this many tokens: enough to make its products worth their weights.
constexpr std::int64_t kBlockTokens = 64;
constexpr std::int64_t kStagingBytes = std::int64_t{1} << 18;
constexpr std::size_t kMostKept = 4;
constexpr int kTag = 0;  // of activations between devices

using plan::Region;
/// What a forward pass has: no gradients.
constexpr std::array kForwardRegions = {Region::Input, Region::Output, Region::KeptForInput,
                                        Region::KeptForWeight, Region::Work};

std::string cache_name(const LayerSpec& layer, const TensorSpec& cache) {
  return layer.name + " " + cache.name;
}

const std::string& value_name(const ParameterSpec& parameter) {
  return parameter.tied_to.empty() ? parameter.name : parameter.tied_to;
}

std::int64_t bytes_of(const plan::StageLayout& layout, Region region) {
  return region == Region::Work ? layout.forward_work : layout.bytes_of(region);
}

std::vector<SegmentSpec> segments_of(const ModelShape& shape, const Decoder::Options& options,
                                     std::int64_t tokens) {
  return model::graph_of(shape,
                         {.sequence = tokens, .dtype = options.dtype, .cache = options.length})
      .segments;
}

/// Where each device's segments begin, and the end: as even as can be in bytes, since that is what
/// a device must hold, and what it reads for every token.
std::vector<std::int64_t> borders_of(const std::vector<SegmentSpec>& segments, int devices) {
  require(devices <= std::ssize(segments), devices, " devices cannot share a model of ",
          segments.size(), " pieces (its layers, embedding and head); use fewer");
  std::vector<double> bytes;
  for (const SegmentSpec& segment : segments) {
    std::int64_t sum = 0;
    for (const LayerSpec& layer : segment.layers) {
      for (const ParameterSpec& p : layer.parameters) sum += p.elements() * size_of(layer.y.dtype);
      for (const TensorSpec& cache : layer.caches) sum += cache.bytes();
    }
    bytes.push_back(static_cast<double>(sum));
  }
  std::vector<std::int64_t> borders = {0};
  for (std::int64_t size : plan::balance(bytes, devices)) borders.push_back(borders.back() + size);
  return borders;
}

std::span<std::byte> bytes_of(View view) {
  return {view.bytes(), static_cast<std::size_t>(view.byte_count())};
}

}  // namespace

std::int64_t Decoder::TokenPass::bytes() const {
  std::int64_t sum = 0;
  for (Region region : kForwardRegions) sum += bytes_of(layout, region);
  return sum;
}

LayerCall Decoder::TokenPass::call(std::size_t layer, std::span<View> kept) const {
  const LayerSpec& spec = layers[layer]->spec();
  const plan::LayerPlaces& places = layout.layers[layer];
  const std::size_t reads = spec.reads.size();
  const std::size_t count = spec.kept_by_forward.size();
  CLEAVE_CHECK(reads + count <= kept.size(), spec.name, " keeps too many tensors");
  for (std::size_t i = 0; i < reads; ++i)
    kept[i] = view_at(frame, places.reads[i], spec.reads[i].tensor);
  for (std::size_t i = 0; i < count; ++i) {
    kept[reads + i] = view_at(frame, places.kept_by_forward[i], spec.kept_by_forward[i].tensor);
  }
  LayerCall call;
  call.x = view_at(frame, places.x, spec.x);
  call.y = view_at(frame, places.y, spec.y);
  call.skip = view_at(frame, places.skip, spec.x);
  call.reads = kept.first(reads);
  call.kept_by_forward = kept.subspan(reads, count);
  return call;
}

Decoder::Share Decoder::share_of(const ModelShape& shape, const Options& options) {
  const int devices = options.world->size();
  const int device = options.world->rank();
  const std::vector<std::int64_t> borders = borders_of(segments_of(shape, options, 1), devices);
  return {borders[device], borders[device + 1]};
}

Decoder::TokenPass Decoder::make_pass(const ModelShape& shape, const Options& options,
                                      std::int64_t tokens) const {
  TokenPass pass;
  pass.tokens = tokens;
  std::vector<SegmentSpec> segments = segments_of(shape, options, tokens);
  if (tokens > 1) segments.pop_back();
  const auto count = std::ssize(segments);
  const std::int64_t end = std::min(share_.end, count);
  if (share_.first >= end) return pass;
  pass.receives = share_.first > 0;
  pass.sends = end < count;
  pass.segments = {segments.begin() + share_.first, segments.begin() + end};
  // The block of the last device ends without the head, and nobody reads its y.
  pass.layout = plan::layout_stage(
      pass.segments, {.x_arrives = pass.receives, .y_leaves = tokens > 1 || pass.sends});
  for (std::size_t s = 0; s < pass.segments.size(); ++s) {
    for (const LayerSpec& layer : pass.segments[s].layers)
      pass.layers.push_back(options.make_layer(layer));
    pass.ends.resize(pass.layers.size(), -1);
    pass.ends.back() = share_.first + static_cast<std::int64_t>(s);
  }
  return pass;
}

Decoder::Decoder(const ModelShape& shape, const Options& options)
    : world_(options.world),
      length_(options.length),
      vocabulary_(shape.vocab),
      dtype_(options.dtype),
      compute_(options.threads, options.arithmetic),
      share_(share_of(shape, options)),
      single_(make_pass(shape, options, 1)) {
  if (length_ > kBlockTokens) block_ = make_pass(shape, options, kBlockTokens);

  plan_lasting();
  std::int64_t scratch = 0;
  for (const TokenPass* pass : {&single_, &block_}) {
    for (const auto& layer : pass->layers) {
      scratch = std::max(scratch, aligned(layer->scratch_bytes(compute_)));
    }
  }
  work_bytes_ = std::max({single_.bytes(), block_.bytes(), kStagingBytes});
  logits_ = work_ + work_bytes_;
  const std::int64_t logits_bytes = single_.sends ? 0 : vocabulary_ * size_of(DType::F32);
  const std::int64_t scratch_offset = logits_ + aligned(logits_bytes);
  planned_ = scratch_offset + scratch;
  check_budget(options);

  arena_ = std::make_unique<Arena>(planned_);
  arena_->acquire(0, planned_);
  compute_.set_scratch({arena_->at(scratch_offset), static_cast<std::size_t>(scratch)});
  bind(single_);
  bind(block_);
}

void Decoder::check_budget(const Options& options) const {
  if (!options.budget || planned_ <= *options.budget) return;
  throw DoesNotFit(
      detail::concat("generating up to ", length_, " tokens needs ", format_bytes(planned_), " (",
                     planned_, " bytes) on device ", world_->rank(), ", which has ",
                     format_bytes(*options.budget), " (", *options.budget,
                     " bytes); generate fewer tokens, use more devices, or give them more memory"));
}

/// The block's layers read the same weights, tables and caches, so one pass has them all.
void Decoder::plan_lasting() {
  const auto place = [&](const std::string& name, std::int64_t bytes) {
    if (lasting_.try_emplace(name, work_).second) work_ += bytes;
  };
  for (const auto& layer : single_.layers) {
    const LayerSpec& spec = layer->spec();
    for (const ParameterSpec& parameter : spec.parameters) {
      place(value_name(parameter), aligned(parameter.elements() * size_of(dtype_)));
    }
    for (const TensorSpec& constant : spec.constants) place(constant.name, constant.bytes());
    for (const TensorSpec& cache : spec.caches) place(cache_name(spec, cache), cache.bytes());
  }
}

void Decoder::bind(TokenPass& pass) {
  std::byte* next = arena_->at(work_);
  for (Region region : kForwardRegions) {
    pass.frame[static_cast<std::size_t>(region)] = next;
    next += bytes_of(pass.layout, region);
  }
  const auto at = [&](const std::string& name) { return arena_->at(lasting_.at(name)); };
  for (const auto& layer : pass.layers) {
    const LayerSpec& spec = layer->spec();
    std::vector<Parameter> parameters;
    for (const ParameterSpec& parameter : spec.parameters) {
      const View value(at(value_name(parameter)), dtype_, parameter.shape);
      parameters.push_back({value, {}});
      if (&pass != &single_) continue;
      if (!parameter.tied_to.empty()) {
        // The owner may be on another device; then this is a copy.
        const auto known = [&](const Weight& w) { return w.value.bytes() == value.bytes(); };
        if (std::ranges::none_of(weights_, known)) weights_.push_back({parameter.tied_to, value});
        continue;
      }
      for (const Piece& piece : parameter.pieces) {
        weights_.push_back({piece.name, value.slice(piece.dim, piece.first, piece.extent)});
      }
    }
    std::vector<View> constants;
    for (const TensorSpec& c : spec.constants) constants.emplace_back(at(c.name), c.dtype, c.shape);
    std::vector<View> caches;
    for (const TensorSpec& c : spec.caches) {
      caches.emplace_back(at(cache_name(spec, c)), c.dtype, c.shape);
    }
    layer->bind(parameters, constants, caches);
  }
}

View Decoder::staging() const {
  return View(arena_->at(work_), DType::F32, {work_bytes_ / size_of(DType::F32)});
}

void Decoder::load_x(const TokenPass& pass, View x, std::span<const std::int32_t> tokens) {
  if (pass.receives) {
    world_->receive(bytes_of(x), world_->rank() - 1, kTag).wait();
  } else {
    std::memcpy(x.bytes(), tokens.data(), tokens.size_bytes());
  }
}

void Decoder::run(TokenPass& pass, std::span<const std::int32_t> tokens) {
  std::array<View, kMostKept> kept;
  for (std::size_t i = 0; i < pass.layers.size(); ++i) {
    LayerCall call = pass.call(i, kept);
    call.position = position_;
    if (i == 0) load_x(pass, call.x, tokens);
    // What follows is not known, so no token is a target.
    for (const View& targets : call.reads) targets.as<std::int32_t>()[0] = -1;
    const auto& declared = pass.layers[i]->spec().kept_by_forward;
    pass.layers[i]->forward(compute_, call);
    if (pass.ends[i] >= 0) place_rows(pass.ends[i], call.y);
    for (std::size_t k = 0; k < declared.size(); ++k) {
      if (declared[k].tensor.name != "logits") continue;
      ops::copy(compute_, call.kept_by_forward[k].slice(1, 0, vocabulary_),
                View(arena_->at(logits_), DType::F32, {1, vocabulary_}));
    }
    // The next pass writes where y is, so there is nothing to do until it has left.
    const bool leaves = pass.sends && i + 1 == pass.layers.size();
    if (leaves) world_->send(bytes_of(call.y), world_->rank() + 1, kTag).wait();
  }
  position_ += pass.tokens;
}

/// Into what a segment gave for tokens from position_ on: rows take the place of embeddings, and
/// are added to what blocks give.
void Decoder::place_rows(std::int64_t segment, View y) {
  if (segment >= std::ssize(features_)) return;
  const ConstView rows = features_[static_cast<std::size_t>(segment)];
  for (std::int64_t t = 0; t < y.size(0); ++t) {
    const std::int64_t at = position_ + t;
    if (at >= std::ssize(places_)) return;
    const std::int32_t place = places_[static_cast<std::size_t>(at)];
    if (place < 0) continue;
    const View token = y.slice(0, t, 1);
    if (segment == 0)
      ops::copy(compute_, rows.slice(0, place, 1), token);
    else
      ops::add(compute_, token, rows.slice(0, place, 1), token);
  }
}

std::span<const float> Decoder::append(std::span<const std::int32_t> tokens) {
  const auto count = static_cast<std::int64_t>(tokens.size());
  CLEAVE_CHECK(count > 0 && position_ + count <= length_, count, " tokens after ", position_,
               " of ", length_);
  while (tokens.size() > static_cast<std::size_t>(kBlockTokens)) {
    run(block_, tokens.first(kBlockTokens));
    tokens = tokens.subspan(kBlockTokens);
  }
  for (; !tokens.empty(); tokens = tokens.subspan(1)) run(single_, tokens.first(1));
  if (single_.sends) return {};
  return {reinterpret_cast<const float*>(arena_->at(logits_)),
          static_cast<std::size_t>(vocabulary_)};
}

}  // namespace cleave::engine
