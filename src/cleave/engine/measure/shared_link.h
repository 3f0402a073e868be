#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "cleave/comm/communicator.h"
#include "cleave/plan/time/costs.h"

namespace cleave::engine {

/// What messages of one size took on a link: a few bytes, one of them, and several at once.
struct TimedMessages {
  double few = 0;       ///< seconds
  double one = 0;       ///< seconds
  double several = 0;   ///< seconds
  double bytes = 0;     ///< of each
  double messages = 0;  ///< at once, two or more
};

/// The rate of a link when it is at work, from what one more message takes that follows another,
/// and by how much one message that follows a pause is quicker.
plan::LinkCosts link_at_work(const TimedMessages& timed);

/// `alone`, what one of `links` takes, and what of the way they share if `bytes` over each of them
/// at the same time took `seconds` until the last was there.
plan::LinkCosts link_in_company(const plan::LinkCosts& alone, int links, double bytes,
                                double seconds);

/// `alone` with what of its way is shared with other links of the same kind, measured now: the
/// first device of each of `links` sends at the same time as the others, then the second. All
/// devices of `world` call it, and get the same. Nothing is measured where transports need no
/// credits, and on links so fast that their rate does not matter.
plan::LinkCosts profile_company(comm::Communicator& world, const plan::LinkCosts& alone,
                                std::span<const std::pair<int, int>> links, std::int64_t bytes);

}  // namespace cleave::engine
