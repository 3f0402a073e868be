// Messages of devices whose memory no message reaches: OUT before each SEND, IN after each RECV.

#include <algorithm>

#include "schedule/text_of.h"
#include <gtest/gtest.h>

#include "cleave/plan/memory/memory.h"
#include "cleave/schedule/effects.h"
#include "cleave/schedule/forward_only.h"
#include "cleave/schedule/generators.h"
#include "cleave/schedule/passes.h"
#include "cleave/schedule/text.h"
#include "cleave/schedule/verifier.h"

namespace cleave::schedule {
namespace {

using cleave::testing::text_of;

std::string verdict(const Program& program) {
  std::string text;
  for (const Violation& violation : verify(program)) text += to_string(program, violation) + "\n";
  return text;
}

Program through_host(std::vector<int> devices) {
  Program program = lower(generate("1f1b", {.devices = 2, .microbatches = 2}),
                          {.through_host = std::move(devices)});
  for (Edge& edge : program.edges) edge.forward_bytes = edge.backward_bytes = 100;
  return program;
}

TEST(ThroughHost, MessagesOfThoseDevicesMoveOutBeforeAndInAfter) {
  const Program program = through_host({1});
  EXPECT_EQ(std::ranges::count_if(program.lists[0], is_message_move), 0);
  const std::string text = text_of(program.lists[1]);
  EXPECT_NE(text.find("RECV:0>0 IN:0>0"), std::string::npos) << text;
  EXPECT_NE(text.find("OUT:0<1 SEND:0<1"), std::string::npos) << text;
  EXPECT_EQ(std::ranges::count_if(program.lists[1], is_message_move), 4);
  EXPECT_EQ(verdict(program), "");
  EXPECT_EQ(parse_program(to_text(program)), program);
}

TEST(ThroughHost, AForwardPassHasTheMovesOfAStep) {
  const Program order = generate("1f1b", {.devices = 2, .microbatches = 2});
  const Program program = forward_only(order, 3, {.through_host = {0, 1}});
  EXPECT_TRUE(verify(program, Level::Forward).empty());
  EXPECT_EQ(std::ranges::count_if(program.lists[0], is_message_move), 3);
  for (const auto& list : program.lists)
    for (std::size_t at = 0; at < list.size(); ++at) {
      if (list[at].op == Op::Send) {
        EXPECT_EQ(list[at - 1].op, Op::Out);
      } else if (list[at].op == Op::Receive) {
        EXPECT_EQ(list[at + 1].op, Op::In);
      }
    }
}

TEST(ThroughHost, BuffersOnTheHostLiveFromOutToTheWaitOfSendAndFromRecvToItsWait) {
  Program program = through_host({0, 1});
  plan::plan_memory(program, std::vector<plan::StageMemory>(program.stages));
  EXPECT_EQ(verdict(program), "");
  EXPECT_EQ(std::ranges::count_if(program.buffers, is_on_host), 8);
  for (const Buffer& b : program.buffers) {
    if (!is_on_host(b)) continue;
    const auto& list = program.lists[b.device];
    EXPECT_EQ(list[b.first].op, b.kind == BufferKind::LeavingOnHost ? Op::Out : Op::Receive);
    EXPECT_EQ(list[b.last].op, Op::Wait);
    EXPECT_EQ(list[b.last].completes, b.kind == BufferKind::LeavingOnHost ? Op::Send : Op::Receive);
    EXPECT_EQ(list[b.first].edge, list[b.last].edge);
    EXPECT_EQ(b.bytes, 100);
  }
  // Device 0 has both of its messages and the room for both that come back at once, device 1 one of
  // each, all rounded up to 128 bytes; they take none of the devices' own memory.
  EXPECT_EQ(plan::host_bytes(program), (std::vector<std::int64_t>{4 * 128, 2 * 128}));
  Program reached = through_host({});
  plan::plan_memory(reached, std::vector<plan::StageMemory>(reached.stages));
  EXPECT_EQ(plan::peak_bytes(program), plan::peak_bytes(reached));
  EXPECT_EQ(plan::host_bytes(reached), (std::vector<std::int64_t>{0, 0}));
}

TEST(ThroughHost, TheVerifierWantsEveryMessageToMove) {
  Program program = through_host({1});
  auto& list = program.lists[1];
  const auto out = std::ranges::find(list, Op::Out, &Instruction::op);
  list.erase(out);
  EXPECT_NE(verdict(program).find("has no OUT before it, and no message reaches this device"),
            std::string::npos)
      << verdict(program);

  program = through_host({1});
  const auto in = std::ranges::find(program.lists[1], Op::In, &Instruction::op);
  std::iter_swap(in, in - 1);
  EXPECT_NE(verdict(program).find("(IN:0>0): stands not right after its RECV"), std::string::npos)
      << verdict(program);

  program = through_host({1});
  program.through_host.clear();
  EXPECT_NE(verdict(program).find("moves a message, but messages reach this device's memory"),
            std::string::npos);

  program.through_host = {2};
  EXPECT_EQ(verdict(program),
            "program: the devices that pass messages through the host name device 2; they are "
            "given once each, in order, below 2\n");
}

TEST(ThroughHost, TheVerifierWantsRoomOnTheHost) {
  Program program = through_host({0, 1});
  plan::plan_memory(program, std::vector<plan::StageMemory>(program.stages));
  const auto on_host = std::ranges::find_if(program.buffers, is_on_host);
  Program without = program;
  without.buffers.erase(without.buffers.begin() + (on_host - program.buffers.begin()));
  EXPECT_NE(verdict(without).find("-on-host of edge 0"), std::string::npos) << verdict(without);
  EXPECT_NE(verdict(without).find("is missing"), std::string::npos);

  Program shorter = program;
  shorter.buffers[on_host - program.buffers.begin()].last -= 1;
  EXPECT_NE(verdict(shorter).find("but is used from"), std::string::npos) << verdict(shorter);

  Program shared = program;
  for (Buffer& b : shared.buffers)
    if (is_on_host(b)) b.offset = 0;
  EXPECT_NE(verdict(shared).find("two live buffers overlap"), std::string::npos);
}

/// Two replicas, of which some pass what they exchange through the host.
Program replicas_through_host(Sharing sharing, std::vector<int> devices) {
  Program program = generate("1f1b", {.devices = 1, .microbatches = 2});
  program.segments = {2};
  program = lower(std::move(program), {.replicas = 2,
                                       .grain = Grain::Segment,
                                       .sharing = sharing,
                                       .through_host = std::move(devices)});
  plan::StageMemory memory{.scratch_on_host = 70};
  memory.segments.assign(2, {.gathered = 10,
                             .reducing_on_host = 100,
                             .gathering_on_host = 200,
                             .refreshing_on_host = 300});
  plan::plan_memory(program, std::vector{memory});
  return program;
}

TEST(ThroughHost, CollectivesHaveRoomThereFromTheirPostToTheirWait) {
  for (const Sharing sharing : {Sharing::Nothing, Sharing::State, Sharing::Values}) {
    const Program program = replicas_through_host(sharing, {0});
    EXPECT_EQ(verdict(program), "");
    EXPECT_EQ(parse_program(to_text(program)), program);
    std::size_t rooms = 0;
    for (const Buffer& b : program.buffers) {
      if (!is_exchange_on_host(b)) continue;
      const auto& list = program.lists[b.device];
      EXPECT_EQ(b.device, 0);
      EXPECT_EQ(on_host_of(list[b.first].op), b.kind);
      EXPECT_EQ(list[b.last].completes, list[b.first].op);
      EXPECT_EQ(b.bytes, b.kind == BufferKind::ReducingOnHost    ? 100
                         : b.kind == BufferKind::GatheringOnHost ? 200
                                                                 : 600);
      EXPECT_GE(b.offset, 128);  // above what lasts
      ++rooms;
    }
    const auto posted = [](const Instruction& i) { return is_posted_collective(i.op); };
    EXPECT_EQ(rooms, std::ranges::count_if(program.lists[0], posted));
    EXPECT_EQ(plan::host_bytes(program)[1], 0);
  }
}

TEST(ThroughHost, TheVerifierWantsRoomForEveryCollective) {
  const Program program = replicas_through_host(Sharing::Values, {0, 1});
  const auto is_gathering = [](const Buffer& b) { return b.kind == BufferKind::GatheringOnHost; };
  const auto room = std::ranges::find_if(program.buffers, is_gathering) - program.buffers.begin();
  Program without = program;
  without.buffers.erase(without.buffers.begin() + room);
  EXPECT_NE(verdict(without).find("no buffer holds what passes through the host until"),
            std::string::npos)
      << verdict(without);

  Program shorter = program;
  shorter.buffers[room].last -= 1;
  EXPECT_NE(verdict(shorter).find("no buffer holds what passes through the host until"),
            std::string::npos);

  Program reached = program;
  reached.through_host.clear();
  EXPECT_NE(verdict(reached).find("belongs to nothing on this device"), std::string::npos);

  Program below = program;
  below.buffers[room].offset = 0;
  EXPECT_NE(verdict(below).find("two live buffers overlap"), std::string::npos);
}

}  // namespace
}  // namespace cleave::schedule
