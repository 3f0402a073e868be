#include "cleave/data/tokenizer/trie.h"

#include <utility>

namespace cleave::data::tokenizer {

Trie::Trie() : edges_(64), values_{kNone}, mask_(63), shift_(64 - 6) {}

void Trie::add(std::string_view text, std::uint32_t value) {
  std::uint32_t node = kRoot;
  for (char byte : text) {
    std::uint32_t child = next(node, byte);
    if (child == kNone) {
      child = static_cast<std::uint32_t>(values_.size());
      values_.push_back(kNone);
      if (2 * values_.size() > edges_.size()) grow();
      insert(key_of(node, byte), child);
    }
    node = child;
  }
  values_[node] = value;
}

void Trie::insert(std::uint64_t key, std::uint32_t child) {
  std::uint64_t slot = slot_of(key);
  while (edges_[slot].key != kEmpty) slot = (slot + 1) & mask_;
  edges_[slot] = {key, child};
}

void Trie::grow() {
  const std::vector<Edge> old = std::exchange(edges_, std::vector<Edge>(2 * edges_.size()));
  mask_ = edges_.size() - 1;
  --shift_;
  for (const Edge& edge : old) {
    if (edge.key != kEmpty) insert(edge.key, edge.child);
  }
}

}  // namespace cleave::data::tokenizer
