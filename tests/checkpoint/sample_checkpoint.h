#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/random.h"
#include <gtest/gtest.h>

#include "cleave/checkpoint/directory.h"
#include "cleave/checkpoint/reader.h"
#include "cleave/checkpoint/writer.h"

namespace cleave::checkpoint {

namespace fs = std::filesystem;

// As Muon has them: what is no matrix keeps more beside it.
inline const std::vector<Parameter> kParameters = {{"wte.weight", {7, 5}, {"m", "v"}},
                                                   {"h.0.weight", {64, 33}, {"momentum"}},
                                                   {"h.0.frozen", {3}},
                                                   {"ln_f.bias", {5}, {"m", "v"}}};

inline std::vector<Part> parts_of(const Parameter& parameter) {
  std::vector<Part> parts = {Part::Weight};
  for (std::size_t i = 0; i < parameter.slots.size(); ++i) parts.push_back(static_cast<Part>(i));
  return parts;
}

inline std::vector<float> values(Part part, std::size_t parameter, std::int64_t step) {
  const auto seed = static_cast<std::uint32_t>(step * 100 + 3 * parameter + static_cast<int>(part));
  return testing::random_values(kParameters[parameter].shape.elements(), seed);
}

inline CheckpointState state_at(std::int64_t step) {
  return {.step = step,
          .data_position = step,
          .seed = 7,
          .config = "[train]\nout = \"é\"\n",
          .version = "1.2.3"};
}

/// Writer `index` of `writers` writes every writers-th slice of `slice` elements.
inline void write_slices(const fs::path& root, std::int64_t step, const CheckpointLayout& layout,
                         int index, int writers, std::int64_t slice) {
  CheckpointWriter writer(root, step, layout, index);
  for (std::size_t p = 0; p < kParameters.size(); ++p) {
    for (Part part : parts_of(kParameters[p])) {
      const auto all = values(part, p, step);
      for (std::int64_t first = index * slice; first < std::ssize(all); first += writers * slice) {
        const std::int64_t count = std::min(slice, std::ssize(all) - first);
        writer.write(part, p, first, std::span(all).subspan(first, count));
      }
    }
  }
  writer.finish();
}

/// Saves the checkpoint of a step, whose numbers follow from it.
inline void save(const fs::path& root, std::int64_t step, std::int64_t keep = 2) {
  const CheckpointLayout layout(kParameters);
  prepare_checkpoint(root, step, layout);
  write_slices(root, step, layout, 0, 1, 1 << 20);
  commit_checkpoint(root, layout, state_at(step), 1, keep);
}

/// Expects what save() has written.
inline void expect_content(const fs::path& directory, std::int64_t step) {
  EXPECT_EQ(verify_checkpoint(directory), std::vector<std::string>());
  const CheckpointReader reader(directory);
  EXPECT_EQ(reader.state(), state_at(step));
  for (std::size_t p = 0; p < kParameters.size(); ++p) {
    for (Part part : parts_of(kParameters[p])) {
      std::vector<float> read(kParameters[p].shape.elements());
      const Parameter& parameter = kParameters[p];
      if (part == Part::Weight) {
        reader.read_weight(parameter.name, 0, read);
      } else {
        reader.read_slot(parameter.name, parameter.slots[static_cast<std::size_t>(part)], 0, read);
      }
      EXPECT_EQ(read, values(part, p, step)) << kParameters[p].name;
    }
  }
}

inline std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) {
    names.push_back(entry.path().filename());
  }
  std::ranges::sort(names);
  return names;
}

inline void flip_bit(const fs::path& file, std::int64_t byte) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(byte);
  const char old = static_cast<char>(stream.get());
  stream.seekp(byte);
  stream.put(static_cast<char>(old ^ 4));
}

}  // namespace cleave::checkpoint
