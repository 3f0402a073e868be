#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/train/config/edge_config.h"

namespace cleave::train {

// What rounds keep beside every trained parameter. Slots of an optimizer are planned, measured and
// shared among replicas already, so rounds have theirs among them, after the optimizer's own.

inline constexpr std::string_view kStartSlot = "round.start";  ///< what every client begins with
inline constexpr std::string_view kLowSlot = "round.low";      ///< a sum of 64 bits has two slots
inline constexpr std::string_view kHighSlot = "round.high";
/// What the clipped gradients of a step's examples have come to.
inline constexpr std::string_view kExamplesSlot = "round.examples";
inline constexpr std::string_view kMomentumSlot = "outer_momentum";
inline constexpr std::string_view kSquaresSlot = "outer_squares";
inline constexpr std::string_view kErrorSlot = "error";  ///< of a client: what its codec left out
inline constexpr std::string_view kWeightSlot =
    "weight";  ///< of a client, where rounds average a part
inline constexpr std::string_view kOwnWeightSlot = "round.weight";  ///< on a client's own machine
inline constexpr std::string_view kOwnErrorSlot = "round.error";    ///< on a client's own machine

/// The update of the client that is at this place in a round, where all are needed at once.
std::string update_slot(std::size_t place);

/// What a client keeps of one of the optimizer's slots from round to round.
std::string client_slot(int client, std::string_view slot);

/// It is for the midst of a round: no checkpoint has it.
bool is_transient(std::string_view slot);

/// The optimizer's own.
bool is_inner(std::string_view slot);

/// Where clients of rounds are.
enum class Clients : std::uint8_t {
  InTurn,  ///< played here, one after another
  Apart,   ///< this one, and others elsewhere
  Served,  ///< all of them elsewhere: this is their server
};

/// What rounds need beside a parameter that has these slots of its optimizer; the transient last.
/// Clients that are apart keep their optimizer's slots as they are; the server has what they sent
/// on disk, and trains nothing.
std::vector<std::string> round_slots(const EdgeConfig& edge, Clients clients,
                                     const std::vector<std::string>& optimizer);

}  // namespace cleave::train
