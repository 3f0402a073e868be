#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cleave {

/// A part of a message from one place of the mesh to another: bytes [begin, end) go from device
/// `sender` of the one, by number, to device `receiver` of the other.
struct MessageSlice {
  int sender = 0;
  int receiver = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t bytes() const { return end - begin; }
  friend bool operator==(const MessageSlice&, const MessageSlice&) = default;
};

/// How a message of so many bytes travels between a place of `senders` devices, all of which have
/// it, and one of `receivers`, all of which want it.
///
/// Where they are equally many, each sends all of it to the one of its own number. Else it is cut
/// into as many slices as the larger place has devices, each of which travels once; receivers then
/// gather from each other what came to the others (gathers_slices). Small messages have fewer
/// slices than that.
///
///     two to one:  0 -[a b)-> 0      one to two:  0 -[a b)-> 0   then 0 <-> 1
///                  1 -[b c)-> 0                   0 -[b c)-> 1
std::vector<MessageSlice> message_slices(int senders, int receivers, std::int64_t bytes);

/// Whether receivers have to gather what came in slices.
inline bool gathers_slices(int senders, int receivers) {
  return senders != receivers && receivers > 1;
}

/// [receiver] where what comes to each begins, and the end.
std::vector<std::size_t> slice_borders(int senders, int receivers, std::int64_t bytes);

}  // namespace cleave
