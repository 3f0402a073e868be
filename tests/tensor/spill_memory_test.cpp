#include "cleave/tensor/spill_memory.h"

#include <csignal>
#include <cstring>
#include <numeric>
#include <vector>

#include <sys/resource.h>

#include "support/temporary_directory.h"
#include <gtest/gtest.h>

#include "cleave/base/disk_blocks.h"
#include "cleave/tensor/arena.h"

namespace cleave {
namespace {

constexpr std::int64_t kBytes = 20 * kDiskBlock;

std::vector<std::byte> numbered(std::size_t bytes, int first) {
  std::vector<std::byte> values(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    values[i] = static_cast<std::byte>((first + 7 * static_cast<int>(i)) % 251);
  return values;
}

TEST(SpillMemory, HoldsWhatIsCopiedInWhereverItBeginsAndEnds) {
  const testing::TemporaryDirectory disk;
  SpillMemory memory(disk.path());
  const Arena arena(kBytes, memory);
  std::vector<std::byte> expected(kBytes);
  const std::pair<std::size_t, std::size_t> parts[] = {
      {0, kBytes},         {1, 3},        {kDiskBlock - 1, 2},          {5, 3 * kDiskBlock},
      {2 * kDiskBlock, 9}, {kBytes - 1, 1}, {kDiskBlock, 4 * kDiskBlock}, {100, kDiskBlock - 100}};
  int first = 0;
  for (const auto& [at, bytes] : parts) {
    const std::vector<std::byte> values = numbered(bytes, ++first);
    memory.copy_in(arena.at(static_cast<std::int64_t>(at)), values);
    std::memcpy(expected.data() + at, values.data(), bytes);
    std::vector<std::byte> all(kBytes);
    memory.copy_out(arena.at(0), all);
    ASSERT_EQ(all, expected) << at << "+" << bytes;
    std::vector<std::byte> part(bytes);
    memory.copy_out(arena.at(static_cast<std::int64_t>(at)), part);
    ASSERT_EQ(part, values);
  }
}

TEST(SpillMemory, BeginsWithZerosAndLeavesNothingBehind) {
  const testing::TemporaryDirectory disk;
  {
    SpillMemory memory(disk.path());
    const Arena arena(kBytes, memory);
    std::vector<std::byte> all(kBytes, std::byte{1});
    memory.copy_out(arena.at(0), all);
    EXPECT_EQ(all, std::vector<std::byte>(kBytes));
  }
  EXPECT_TRUE(std::filesystem::is_empty(disk.path()));
}

TEST(SpillMemory, SaysInOneSentenceThatTheDiskFails) {
  const testing::TemporaryDirectory disk;
  SpillMemory memory(disk.path());
  const Arena arena(kBytes, memory);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit less{.rlim_cur = 2 * kDiskBlock, .rlim_max = before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &less);
  std::string said;
  try {
    memory.copy_in(arena.at(4 * kDiskBlock), numbered(kDiskBlock, 1));
  } catch (const std::runtime_error& error) {
    said = error.what();
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(said, "devices.spill " + disk.path().string() +
                      " cannot be written: File too large; the newest checkpoint is whole: mend "
                      "the disk or name another directory, and resume");
}

}  // namespace
}  // namespace cleave
