#include "cleave/train/step/cuts.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cleave/base/check.h"
#include "cleave/engine/compile/stage_sizes.h"
#include "cleave/spec/coded_edge.h"

namespace cleave::train {
namespace {

/// The last segment before each cut between `clients` and the server: what clients have first, and
/// the server's where they have the last layers as well. Where clients differ, the cuts of all.
std::vector<int> cuts_of(const Config& config, const Graph& model,
                         const std::vector<int>& clients) {
  const std::int64_t blocks = block_count(model);
  std::set<std::int64_t> ends;  // blocks before each cut
  for (const int client : clients) {
    const auto& layers = config.edge.owners[static_cast<std::size_t>(client)].layers;
    ends.insert(layers.front());
    if (layers.size() > 1) ends.insert(blocks - layers.back());
  }
  engine::Layout layout;
  std::int64_t before = 0;
  for (const std::int64_t end : ends) layout.partition.push_back(end - std::exchange(before, end));
  layout.partition.push_back(blocks - before);
  std::vector<int> cuts;
  int segment = -1;
  for (const std::int64_t size :
       engine::segments_per_stage(model, layout, static_cast<int>(layout.partition.size())))
    cuts.push_back(segment += static_cast<int>(size));
  cuts.pop_back();
  return cuts;
}

std::vector<int> cuts_of(const Config& config, const Graph& model) {
  return cuts_of(config, model, config.edge.with_role(edge::Role::Client));
}

}  // namespace

int segments_before_cut(const Config& config, const Graph& model, int client) {
  return cuts_of(config, model, {client}).front() + 1;
}

void code_cuts(const Config& config, Graph& model) {
  const spec::EdgeCodecs codecs = {config.edge.codec, config.edge.codec_back};
  if (!config.edge.is_split() || !codecs.code()) return;
  int number = 0;
  for (const int segment : cuts_of(config, model))
    spec::code_edge(model, segment,
                    {.codecs = codecs,
                     .seed = static_cast<std::uint64_t>(config.train.seed),
                     .edge = "cut." + std::to_string(number++)});
}

ServerPart shared_part(const Config& config, const Graph& model) {
  ServerPart part;
  if (!config.edge.in_order) return part;
  const std::vector<int> cuts = cuts_of(config, model);
  const int last = cuts.size() > 1 ? cuts[1] : static_cast<int>(model.segments.size()) - 1;
  const auto for_each_parameter = [&](const auto& visit) {
    for (int s = 0; s < std::ssize(model.segments); ++s)
      for (const LayerSpec& layer : model.segments[static_cast<std::size_t>(s)].layers)
        for (const ParameterSpec& parameter : layer.parameters)
          visit(parameter, s > cuts[0] && s <= last);
  };
  for_each_parameter([&](const ParameterSpec& parameter, bool server) {
    if (!server) return;
    part.parameters.insert(parameter.name);
    for (const Piece& piece : parameter.pieces) part.tensors.insert(piece.name);
  });
  for_each_parameter([&](const ParameterSpec& parameter, bool server) {
    require(parameter.tied_to.empty() || part.parameters.contains(parameter.tied_to) == server,
            "edge.in_order is true, and ", parameter.name, " shares its values with ",
            parameter.tied_to,
            " across a cut; let clients have the last layers too, as in layers = [1, 1]");
  });
  return part;
}

}  // namespace cleave::train
