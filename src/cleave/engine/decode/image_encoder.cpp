#include "cleave/engine/decode/image_encoder.h"

#include <algorithm>

#include "cleave/base/check.h"
#include "cleave/model/family.h"
#include "cleave/spec/trainable.h"

namespace cleave::engine {
namespace {

constexpr std::int64_t kEncoderStaging = 1 << 20;
constexpr std::size_t kMostKeptTensors = 16;

/// The segments from the patches to the last, one after the other.
std::vector<SegmentSpec> encoder_segments(ModelShape shape, const ImageEncoder::Options& options) {
  shape.vision.cached = false;
  const Graph graph = model::graph_of(
      shape, {.sequence = shape.image_rows(), .dtype = options.dtype, .images = options.images});
  std::vector<SegmentSpec> chain;
  const auto last = std::ranges::find(graph.segments, options.last, &SegmentSpec::name);
  CLEAVE_CHECK(last != graph.segments.end(), "a model without ", options.last);
  for (int s = static_cast<int>(last - graph.segments.begin()); s != Graph::kData;
       s = source_of(graph, s, "x"))
    chain.insert(chain.begin(), graph.segments[static_cast<std::size_t>(s)]);
  leave_out_backward(chain);
  return chain;
}

}  // namespace

ImageEncoder::ImageEncoder(const ModelShape& shape, const Options& options)
    : compute_(options.threads, options.arithmetic), dtype_(options.dtype) {
  const std::vector<SegmentSpec> segments = encoder_segments(shape, options);
  x_ = segments.front().layers.front().x;
  layout_ = plan::layout_stage(segments, {.y_leaves = true, .backward = false});
  const LayerKinds kinds;
  std::int64_t scratch = 0;
  for (const SegmentSpec& segment : segments) {
    for (const LayerSpec& layer : segment.layers) {
      layers_.push_back(kinds(layer));
      scratch = std::max(scratch, aligned(layers_.back()->scratch_bytes(compute_)));
      for (const ParameterSpec& parameter : layer.parameters) {
        offsets_.push_back(output_);
        output_ += aligned(parameter.elements() * size_of(dtype_));
      }
    }
  }
  work_ = output_ + layout_.bytes_of(plan::Region::Output);
  work_bytes_ = std::max(layout_.forward_work, kEncoderStaging);
  planned_ = work_ + work_bytes_ + scratch;
  require_fits(options);
  arena_ = std::make_unique<Arena>(planned_);
  arena_->acquire(0, planned_);
  compute_.set_scratch({arena_->at(work_ + work_bytes_), static_cast<std::size_t>(scratch)});
  bind();
}

void ImageEncoder::require_fits(const Options& options) const {
  if (!options.budget || planned_ <= *options.budget) return;
  throw DoesNotFit(detail::concat("reading ", options.images, " images needs ",
                                  format_bytes(planned_), " (", planned_,
                                  " bytes), and a device has ", format_bytes(*options.budget), " (",
                                  *options.budget, " bytes); give it more memory"));
}

void ImageEncoder::bind() {
  frame_[static_cast<std::size_t>(plan::Region::Output)] = arena_->at(output_);
  frame_[static_cast<std::size_t>(plan::Region::Work)] = arena_->at(work_);
  std::size_t next = 0;
  for (const auto& layer : layers_) {
    std::vector<Parameter> parameters;
    for (const ParameterSpec& parameter : layer->spec().parameters) {
      const View value(arena_->at(offsets_[next++]), dtype_, parameter.shape);
      parameters.push_back({value, {}});
      for (const Piece& piece : parameter.pieces)
        weights_.push_back({piece.name, value.slice(piece.dim, piece.first, piece.extent)});
      inits_.resize(weights_.size(), parameter.init);
    }
    CLEAVE_CHECK(layer->spec().constants.empty(), layer->spec().name, " has tables");
    layer->bind(parameters, {});
  }
}

View ImageEncoder::staging() const {
  return View(arena_->at(work_), DType::F32, {work_bytes_ / size_of(DType::F32)});
}

View ImageEncoder::encode() {
  std::array<View, kMostKeptTensors> kept;
  View y;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const LayerSpec& spec = layers_[i]->spec();
    const plan::LayerPlaces& places = layout_.layers[i];
    CLEAVE_CHECK(spec.kept_by_forward.size() <= kept.size(), spec.name, " keeps too many tensors");
    for (std::size_t k = 0; k < spec.kept_by_forward.size(); ++k)
      kept[k] = view_at(frame_, places.kept_by_forward[k], spec.kept_by_forward[k].tensor);
    LayerCall call;
    call.x = view_at(frame_, places.x, spec.x);
    call.y = y = view_at(frame_, places.y, spec.y);
    call.skip = view_at(frame_, places.skip, spec.x);
    call.kept_by_forward = std::span(kept).first(spec.kept_by_forward.size());
    layers_[i]->forward(compute_, call);
  }
  return y;
}

}  // namespace cleave::engine
