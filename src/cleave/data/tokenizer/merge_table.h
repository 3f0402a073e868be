#pragma once

#include <cstdint>
#include <vector>

namespace cleave::data::tokenizer {

/// What two neighbouring tokens become; the lowest rank goes first.
struct MergeRule {
  std::uint32_t rank = 0;
  std::int32_t token = 0;
};

/// The merges of a BPE model by their pair, in a hash table of one probe for most pairs.
class MergeTable {
 public:
  static constexpr std::uint32_t kNever = 0xffffffff;

  explicit MergeTable(std::size_t merges = 0);

  /// A pair that is there already gets the new rule. At most as many pairs as were announced.
  void add(std::int32_t left, std::int32_t right, MergeRule rule);

  /// A rule with rank kNever if the pair has none.
  MergeRule find(std::int32_t left, std::int32_t right) const {
    const std::uint64_t key = key_of(left, right);
    for (std::uint64_t slot = slot_of(key);; slot = (slot + 1) & mask_) {
      if (slots_[slot].key == key) return slots_[slot].rule;
      if (slots_[slot].key == kEmpty) return {kNever, 0};
    }
  }

 private:
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};  // tokens are not negative
  struct Slot {
    std::uint64_t key = kEmpty;
    MergeRule rule;
  };

  static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
  }
  std::uint64_t slot_of(std::uint64_t key) const {
    return (key ^ key >> 29) * 0x9e3779b97f4a7c15 >> shift_;
  }

  std::vector<Slot> slots_;
  std::uint64_t mask_;
  int shift_;
};

}  // namespace cleave::data::tokenizer
