#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "cleave/plan/time/costs.h"
#include "cleave/plan/time/simulation/timeline.h"

namespace cleave::plan::simulation {

/// The bytes that a limit of the mean rate has let pass. `burst` of them do so at once after a
/// pause, and room for them comes back at the rate.
class Allowance {
 public:
  /// When the last of `bytes` has passed that come at `time`, after all that came before.
  double pass(double time, double bytes, double per_byte, double burst) {
    whole_again_ = std::max(time, whole_again_) + bytes * per_byte;
    return std::max(time, whole_again_ - burst * per_byte);
  }

  /// When what came before has passed.
  double free_at(double per_byte, double burst) const { return whole_again_ - burst * per_byte; }

 private:
  double whole_again_ = 0;  ///< when the burst has all its room
};

/// Ways that messages of several senders have in common. A way carries some bytes of a sender, then
/// of the next that has any, as packets of several connections follow each other.
class SharedWays {
 public:
  using Key = std::int64_t;

  /// What `sender` has for a way from `ready` on.
  struct Load {
    int number = 0;  ///< by which whoever adds it knows it again
    int sender = 0;
    std::int64_t bytes = 0;
    double ready = 0;
  };

  /// A load whose last byte has passed.
  struct Passed {
    int number = 0;
    double begin = 0;
    double end = 0;
  };

  /// `link` is the same for all loads of a way.
  void add(Key way, const LinkCosts& link, const Load& load);

  /// When the next turn on any way begins or ends; kNever if nothing is left.
  double next() const;

  /// Goes on to next(); the load that ends there, if one does.
  std::optional<Passed> advance();

 private:
  struct Queued {
    Load load;
    double left = 0;  ///< bytes
    double begin = kNotYet;
  };

  /// One sender's loads, which pass in the order in which they are added.
  struct Sender {
    int device = 0;
    std::deque<Queued> queue;
  };

  struct Way {
    LinkCosts link;
    std::deque<Sender> senders;  ///< whoever has had a turn is last
    Allowance allowance;
    double turn = 0;  ///< bytes of the present turn, that of the last sender
    double end = kNotYet;
  };

  static double next_of(const Way& way);
  static void begin_turn(Way& way, double time);

  std::map<Key, Way> ways_;
};

}  // namespace cleave::plan::simulation
