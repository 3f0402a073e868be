// Collectives of devices whose memory no transport reaches. Runs on threads and on MPI ranks: see
// support/devices.h.
#include "cleave/comm/host_room.h"

#include <cstring>
#include <vector>

#include "comm/adders.h"
#include "comm/bytes.h"
#include "support/devices.h"
#include <gtest/gtest.h>

#include "cleave/base/check.h"
#include "cleave/comm/communicator.h"
#include "cleave/comm/tree_sum.h"

namespace cleave::comm {
namespace {

using testing::on_devices;
using testing::some_bytes;
using Bytes = std::vector<std::byte>;

/// Memory of a device, which counts what is copied out of it.
class FarMemory final : public Memory {
 public:
  explicit FarMemory(Bytes content) : content_(std::move(content)) {}

  std::span<std::byte> all() { return content_; }
  std::size_t copied_out() const { return copied_out_; }

  bool on_host(const std::byte* at) const override {
    return at < content_.data() || at >= content_.data() + content_.size();
  }
  std::byte* map(std::int64_t, std::int64_t) override { return nullptr; }
  void unmap(std::byte*, std::int64_t) noexcept override {}
  void copy_in(std::byte* to, std::span<const std::byte> from) override {
    std::memcpy(to, from.data(), from.size());
  }
  void copy_out(const std::byte* from, std::span<std::byte> to) override {
    copied_out_ += to.size();
    std::memcpy(to.data(), from, to.size());
  }
  void copy(std::byte* to, const std::byte* from, std::int64_t bytes) override {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }
  void fill(std::span<std::byte>, std::byte) override {}

 private:
  Bytes content_;
  std::size_t copied_out_ = 0;
};

/// Gives the device back the host's memory, whatever comes of the test.
struct Far {
  Far(Communicator& comm, Bytes content) : comm(comm), memory(std::move(content)) {
    comm.set_memory(memory);
  }
  ~Far() { comm.set_memory(host_memory()); }
  Communicator& comm;
  FarMemory memory;
};

TEST(HostRoom, IsAllThatAGatheringPassesThroughAndMovesOnce) {
  on_devices([](Communicator& comm) {
    std::vector<std::size_t> borders = {0};
    Bytes expected, own;
    for (int member = 0; member < comm.size(); ++member) {
      const Bytes slice = some_bytes(1000 + 33 * static_cast<std::size_t>(member), member);
      expected.insert(expected.end(), slice.begin(), slice.end());
      own.resize(expected.size());
      if (member == comm.rank()) std::ranges::copy(slice, own.begin() + borders.back());
      borders.push_back(expected.size());
    }
    Far far(comm, own);
    Bytes room(expected.size());

    comm.all_gather(far.memory.all(), borders, {room}).wait();

    EXPECT_TRUE(std::ranges::equal(far.memory.all(), expected));
    EXPECT_EQ(comm.unplanned_host_bytes(), 0);
    const std::size_t mine = borders[comm.rank() + 1] - borders[comm.rank()];
    EXPECT_EQ(far.memory.copied_out(), comm.size() == 1 ? 0 : mine);
  });
}

TEST(HostRoom, IsAllThatASumPassesThroughInAnyNumberOfRounds) {
  const testing::F32Adder adder;
  on_devices([&](Communicator& comm) {
    if (comm.size() == 1) return;
    constexpr std::size_t kBytes = 61 * 64;
    std::vector<Bytes> parts;
    for (int member = 0; member < comm.size(); ++member) {
      Bytes part(kBytes);
      for (std::size_t i = 0; i < kBytes; i += 4) {
        const float value = static_cast<float>(i) * 0.37f + static_cast<float>(member) * 1e3f;
        std::memcpy(&part[i], &value, 4);
      }
      parts.push_back(part);
    }
    Bytes expected(kBytes);
    std::vector<Bytes> copies = parts;
    std::vector<std::byte*> at;
    for (Bytes& copy : copies) at.push_back(copy.data());
    tree_sum(at, kBytes, adder, expected.data());

    for (const std::size_t workspace : {single_round_workspace(kBytes, comm.size()),
                                        kReduceGrain * static_cast<std::size_t>(comm.size() - 1)}) {
      Bytes content = parts[static_cast<std::size_t>(comm.rank())];
      content.resize(kBytes + workspace);
      Far far(comm, content);
      Bytes room(all_reduce_host_bytes(kBytes, workspace));
      HostSlots slots(room, 1);
      const auto sum = [&] {
        return comm.all_reduce({.values = far.memory.all().first(kBytes),
                                .workspace = far.memory.all().subspan(kBytes),
                                .adder = adder,
                                .on_host = slots.take(room.size())});
      };

      Pending pending = sum();
      EXPECT_THROW(slots.take(64), InternalError);
      pending.wait();

      EXPECT_TRUE(std::ranges::equal(far.memory.all().first(kBytes), expected));
      EXPECT_EQ(comm.unplanned_host_bytes(), 0);
      EXPECT_NO_THROW(slots.give_back(slots.take(64).bytes));  // it was given back
    }
  });
}

TEST(HostRoom, IsFoundElsewhereWhereNobodyPlannedIt) {
  on_devices([](Communicator& comm) {
    if (comm.size() == 1) return;
    Far far(comm, Bytes(1000));
    comm.broadcast(far.memory.all(), 0).wait();
    EXPECT_GE(comm.unplanned_host_bytes(), 1000);
    comm.barrier().wait();
  });
}

}  // namespace
}  // namespace cleave::comm
