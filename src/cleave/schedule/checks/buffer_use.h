#pragma once

#include <string>

#include "cleave/schedule/checks/tables.h"

namespace cleave::schedule::checks {

/// Lives for the whole step.
bool is_static(const Buffer& buffer);

/// What any instruction of a device may use while it runs, and no other relies on.
bool is_scratch(const Buffer& buffer);

/// A step may have several of one kind, stage and segment, one after the other.
bool is_one_of_several(const Buffer& buffer);

/// What F, R or I keeps for a later pass.
bool is_kept(const Buffer& buffer);

/// What OUT makes room for, outside and where it comes back.
bool is_moved(const Buffer& buffer);

/// Optimizer state that moves, where it is between steps and where STEP has it.
bool is_state(const Buffer& buffer);

/// What REDUCE works on.
bool is_of_gradients(const Buffer& buffer);

/// Carried by an edge, between devices or inside one.
bool is_carried(const Buffer& buffer);

/// x or y of a stage that no edge carries.
bool is_stage_end(const Buffer& buffer);

/// True if the buffer's stage, edge, segment and microbatch exist and its device has to do with
/// them.
bool belongs(const Tables& tables, const Buffer& buffer);

/// First and last instruction that read or write a buffer that `belongs`; empty: none has to.
Span use_of(const Tables& tables, const Buffer& buffer);

/// Whether microbatches like this one need such a buffer at all: nothing passes from I to W inside
/// a B unless the stage says so, and nothing is kept for an R that does not come. Buffers of one
/// kind and stage are all there, or all missing, among those that answer alike.
enum class Sort : std::uint8_t { Plain, Apart, Exempt };
Sort sort_of(const Tables& tables, const Buffer& buffer);

/// "kept-for-input of stage 2.1, microbatch 0", "arriving of edge 3<0".
std::string text_of(const Buffer& buffer);

}  // namespace cleave::schedule::checks
