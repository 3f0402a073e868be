#pragma once

#include <cstdint>

#include "cleave/schedule/checks/findings.h"
#include "cleave/schedule/checks/tables.h"

/// The verifier's properties, one function and one file each, in the order in which they run.
namespace cleave::schedule::checks {

/// Whether there is something of this number.
constexpr bool is_within(std::int64_t number, std::int64_t count) {
  return number >= 0 && number < count;
}

/// Sizes agree, placement is one device per stage and replica, edges and ties join stages.
void check_header(const Program& program, Findings& findings);

/// Every operand exists and is on the device that names it; no op is above `level`. There are
/// enough instructions to be complete, so that tables over all actions stay linear in the program.
void check_operands(const Program& program, Level level, Findings& findings);

/// There are not so many segments that tables over them outgrow the program.
void check_segments(const Program& program, const Mentions& mentions, Findings& findings);

/// Each F, I, W once per stage, replica and microbatch, in order. Fills units, pieces, weights,
/// first and last_weight.
void check_compute(Tables& tables, Level level, Findings& findings);

/// Each message is posted and waited for once on either side, after what it carries was made and
/// before it is used. Fills messages.
void check_messages(Tables& tables, Findings& findings);

/// Where messages pass through the host, OUT stands right before each SEND and IN right after each
/// RECV; nowhere else is there one of a message.
void check_through_host(const Tables& tables, Findings& findings);

/// An edge inside a device: its producer runs before its consumer.
void check_local_edges(const Tables& tables, Findings& findings);

/// Each collective that replicas post is waited for once, and all replicas of a stage post the same
/// ones in the same order. Fills postings.
void check_postings(Tables& tables, Findings& findings);

/// What moves out after its F comes back before its first backward pass, and is not read in
/// between. Fills moves.
void check_moves(Tables& tables, Findings& findings);

/// Optimizer state that moves comes in before its part of STEP and leaves after it. Relies on
/// gradients. Fills state_moves.
void check_state_moves(Tables& tables, Findings& findings);

/// Each gradient reduced once after its last W, tied once after that, then NORM, then STEP, then
/// REFRESH of what replicas have updated shares of. Fills stepped.
void check_gradients(Tables& tables, Level level, Findings& findings);

/// Each stage that collects does so once, after what it reads of every microbatch was made and
/// before the first F of its last segment.
void check_collections(const Tables& tables, Findings& findings);

/// GATHER before use and FREE after, in turns.
void check_parameters(const Tables& tables, Findings& findings);

/// No cycle of waits: with messages as rendezvous, or implied and buffered at Level::Compute.
void check_progress(const Tables& tables, Level level, Findings& findings);

/// Every buffer belongs to something on its device and lives while it is read or written.
void check_lifetimes(const Tables& tables, Findings& findings);

/// Every buffer that an instruction needs is there, once. Relies on lifetimes.
void check_inventory(const Tables& tables, Findings& findings);

/// What moves out has room outside, and room of its own size when it comes back.
void check_moved_buffers(const Tables& tables, Findings& findings);
void check_state_buffers(const Tables& tables, Findings& findings);

/// Buffers alive together share no byte and stay inside the budget.
void check_space(const Program& program, Findings& findings);

}  // namespace cleave::schedule::checks
