#include "cleave/schedule/checks/read_index.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

namespace cleave::schedule::checks {
namespace {

std::pair<int, int> maker(const SegmentRead& read) {
  return {read.stage, read.from};
}

template <class Key, class Of>
std::span<const SegmentRead> equal(const std::vector<SegmentRead>& sorted, const Key& key, Of of) {
  const auto found = std::ranges::equal_range(sorted, key, {}, of);
  return {found.begin(), found.end()};
}

}  // namespace

ReadIndex::ReadIndex(const Program& program) {
  for (const SegmentRead& read : program.reads)
    (read.edge < 0 ? by_maker_ : by_edge_).push_back(read);
  std::ranges::sort(by_edge_, {}, [](const SegmentRead& r) { return std::tuple(r.edge, r); });
  std::ranges::sort(by_maker_, {}, [](const SegmentRead& r) { return std::tuple(maker(r), r); });
  for (std::vector<SegmentRead>* reads : {&by_edge_, &by_maker_})
    reads->erase(std::unique(reads->begin(), reads->end()), reads->end());
}

std::span<const SegmentRead> ReadIndex::of_edge(int edge) const {
  return equal(by_edge_, edge, &SegmentRead::edge);
}

std::span<const SegmentRead> ReadIndex::inside(StageId stage, SegmentId from) const {
  return equal(by_maker_, std::pair<int, int>(stage, from), maker);
}

}  // namespace cleave::schedule::checks
