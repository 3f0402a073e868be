#pragma once

#include <cstdint>
#include <string>

#include "cleave/data/image/image_set.h"

namespace cleave::data {

inline constexpr std::uint64_t kSetMagic = 0x315445534d495643;  // "CVIMSET1", little-endian

/// The first bytes of a packed set.
struct SetHeader {
  std::uint64_t magic = kSetMagic;
  std::uint64_t description = 0;  ///< its offset
  std::uint64_t description_bytes = 0;
  std::uint64_t index = 0;  ///< its offset
  std::uint64_t samples = 0;
  std::uint64_t digest = 0;  ///< of description and index
  std::uint64_t reserved = 0;
  std::uint64_t sum = 0;  ///< of the fields above
};
static_assert(sizeof(SetHeader) == 64 && sizeof(SampleEntry) == 24);

std::uint64_t sum_of(const SetHeader& header);

std::string to_json(const SetDescription& description);

/// Throws UserError if the text is no description.
SetDescription read_description(const std::string& text, const std::string& path);

}  // namespace cleave::data
