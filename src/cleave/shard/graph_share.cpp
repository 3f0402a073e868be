#include "cleave/shard/graph_share.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "cleave/base/check.h"
#include "cleave/shard/gathered.h"
#include "cleave/shard/parameter_cut.h"

namespace cleave::shard {
namespace {

/// Rewrites one segment from its first layer to its last.
class SegmentShare {
 public:
  SegmentShare(const Graph& graph, int segment, const TensorShare& share, const TraitsOf& traits)
      : graph_(graph),
        segment_(segment),
        whole_(graph.segments[segment].layers),
        share_(share),
        traits_(traits),
        from_data_(!x_arrives(graph, segment)),
        is_result_(!y_leaves(graph, segment)) {}

  std::vector<LayerSpec> layers() {
    for (int i = 0; i < count();) {
      moved_.resize(static_cast<std::size_t>(i) + 1, static_cast<int>(made_.size()));
      const int end = end_of_chain(i);
      if (end > i) {
        add_chain(i, end);
        i = end;
      } else {
        add_single(i++);
      }
    }
    return std::move(made_);
  }

 private:
  int count() const { return static_cast<int>(whole_.size()); }

  std::optional<LayerShard> cut(int layer, int local) const {
    const LayerTraits traits = traits_(whole_[layer].kind);
    if (!traits.cut) return std::nullopt;
    std::optional<LayerShard> shard = traits.cut(
        whole_[layer], {.index = share_.first() + local, .of = share_.shards, .local = local});
    if (shard) leave_out_weight_pass(shard->layer);
    return shard;
  }

  /// True if a later layer adds the x of layer `layer`, which must then exist as a tensor.
  bool is_skipped_to(int layer) const {
    return std::ranges::any_of(whole_, [&](const LayerSpec& l) { return l.skip == layer; });
  }

  /// One past the last layer of the chain that begins with `begin`; `begin` if none does. What
  /// comes from the data is cut in one layer, and a result is not scattered.
  int end_of_chain(int begin) const {
    for (int i = begin; i < count(); ++i) {
      const std::optional<LayerShard> shard = cut(i, 0);
      const bool fits = shard && (shard->reads == ShardReads::All) == (i == begin) &&
                        whole_[i].skip < 0 && shard->layer.reads == whole_[i].reads &&
                        whole_[i].sums.empty() && (i == begin || !is_skipped_to(i));
      if (!fits || (i + 1 == count() && is_result_)) return begin;
      if (shard->gives == ShardGives::Addend) return i + 1;
      if (i == 0 && from_data_) return begin;
    }
    return begin;
  }

  void add_chain(int begin, int end) {
    ShardedShape shape{.from_data = begin == 0 && from_data_};
    for (int k = 0; k < share_.local(); ++k) {
      std::vector<LayerSpec> chain;
      for (int i = begin; i < end; ++i) {
        LayerShard shard = *cut(i, k);
        CLEAVE_CHECK(i == begin || shard.shared.columns == 0, shard.layer.name,
                     " shares features inside a chain");
        if (i == begin) shape.shared = shard.shared;
        if (i + 1 == end) shape.added = std::move(shard.added);
        chain.push_back(std::move(shard.layer));
      }
      shape.chains.push_back(std::move(chain));
    }
    made_.push_back(sharded(chain_name(begin, end), share_, std::move(shape)));
    leave_out_weight_pass(made_.back());
  }

  /// Chains of several layers are named after what the names of their layers have in common.
  std::string chain_name(int begin, int end) const {
    std::string name = whole_[begin].name;
    for (int i = begin + 1; i < end; ++i) {
      const auto differs = std::ranges::mismatch(name, whole_[i].name).in1;
      name.erase(differs, name.end());
    }
    const auto is_name = [&](const LayerSpec& layer) { return layer.name == name; };
    if (std::ranges::none_of(whole_, is_name)) name = name.substr(0, name.rfind('.'));
    return name.empty() ? whole_[begin].name : name;
  }

  void add_single(int index) {
    const LayerSpec& layer = whole_[index];
    const LayerTraits traits = traits_(layer.kind);
    if (traits.share) {
      if (std::optional<LayerSpec> own = traits.share(layer, share_)) {
        made_.push_back(std::move(*own));
        leave_out_weight_pass(made_.back());
        return;
      }
    }
    made_.push_back(divides_rows(index, traits) ? by_rows(layer, traits) : computed_whole(index));
    leave_out_weight_pass(made_.back());
    if (made_.back().skip >= 0) made_.back().skip = moved_[static_cast<std::size_t>(layer.skip)];
  }

  /// What comes from the data or is a result is whole on every device.
  bool divides_rows(int index, const LayerTraits& traits) const {
    const bool inside = (index > 0 || !from_data_) && (index + 1 < count() || !is_result_);
    const bool whole = std::ranges::any_of(whole_[index].reads, [&](const ReadTensor& read) {
      return source_of(graph_, segment_, read.port) == Graph::kData;
    });
    const bool sums_slices = !whole_[index].reads.empty() && !whole_[index].parameters.empty();
    return traits.with_rows && inside && !whole && !sums_slices;
  }

  LayerSpec by_rows(const LayerSpec& layer, const LayerTraits& traits) const {
    const std::int64_t rows = layer.x.shape[0];
    require(share_.uneven || rows % share_.shards == 0, "the ", rows, " rows of a microbatch in ",
            layer.name, " cannot be divided among ", share_.shards,
            " tensor shards; change train.microbatch or train.sequence, or choose "
            "numerics.tensor_shards (or parallel.tensor) that divides them");
    if (layer.parameters.empty()) return traits.with_rows(layer, share_.own_tokens(rows));
    std::vector<LayerSpec> slices;
    const int first = share_.divides_tokens() ? share_.first() : 0;
    const int count = share_.divides_tokens() ? share_.local() : share_.shards;
    for (int k = first; k < first + count; ++k) {
      const std::int64_t begin = row_border(rows, k, share_.shards);
      slices.push_back(traits.with_rows(layer, row_border(rows, k + 1, share_.shards) - begin));
      leave_out_weight_pass(slices.back());
      slices.back().parameters = layer.parameters;
      mark_copies(slices.back(), share_);
    }
    return token_sliced(rows, share_, std::move(slices));
  }

  LayerSpec computed_whole(int index) const {
    LayerSpec layer = whole_[index];
    mark_copies(layer, share_);
    const DividedEnds ends{.x = index > 0 || !from_data_, .y = index + 1 < count() || !is_result_};
    if (share_.divides_tokens()) check_whole_reads(layer);
    if (!share_.divides_tokens() || (!ends.x && !ends.y)) return layer;
    return gathered(share_, ends, std::move(layer));
  }

  /// What another segment gives is divided, and this layer would want all of it.
  void check_whole_reads(const LayerSpec& layer) const {
    for (const ReadTensor& read : layer.reads)
      require(source_of(graph_, segment_, read.port) == Graph::kData, "layer ", layer.name,
              " reads all rows of another segment at port \"", read.port,
              "\"; set parallel.sequence_parallel = false");
  }

  const Graph& graph_;
  int segment_;
  const std::vector<LayerSpec>& whole_;
  const TensorShare& share_;
  const TraitsOf& traits_;
  bool from_data_;
  bool is_result_;
  std::vector<LayerSpec> made_;
  std::vector<int> moved_;  ///< where each layer of the segment is now
};

/// A weight that two layers share must be cut in both of them, or in neither.
void check_ties(const Graph& share) {
  std::set<std::string, std::less<>> names;
  for (const SegmentSpec& segment : share.segments) {
    for (const LayerSpec& layer : segment.layers) {
      for (const ParameterSpec& parameter : layer.parameters) {
        names.insert(parameter.name);
        require(parameter.tied_to.empty() || names.contains(parameter.tied_to), "parameter ",
                parameter.name, " of layer ", layer.name, " is tied to ", parameter.tied_to,
                ", but only one of the two is cut into tensor shards; give both the same rule, or "
                "do not tie them");
      }
    }
  }
}

}  // namespace

Graph share_by_segment(const Graph& whole, std::span<const TensorShare> shares,
                       const TraitsOf& traits) {
  Graph graph = whole;
  for (int s = 0; s < static_cast<int>(whole.segments.size()); ++s)
    if (!shares[s].whole())
      graph.segments[s].layers = SegmentShare(whole, s, shares[s], traits).layers();
  check_ties(graph);
  return graph;
}

Graph share_of(const Graph& whole, const TensorShare& share, const TraitsOf& traits) {
  return share_by_segment(whole, std::vector<TensorShare>(whole.segments.size(), share), traits);
}

}  // namespace cleave::shard
