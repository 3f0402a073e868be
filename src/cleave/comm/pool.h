#pragma once

#include <cstddef>
#include <deque>
#include <vector>

namespace cleave::comm {

/// Objects that are used over and over at addresses that do not change. Allocates only while more
/// are in use at once than were prepared or ever were before. For one thread.
template <class T>
class Pool {
 public:
  /// Room for `more` at once.
  template <class... Arguments>
  void prepare(std::size_t more, Arguments&... arguments) {
    free_.reserve(all_.size() + more);
    for (std::size_t i = 0; i < more; ++i) free_.push_back(&all_.emplace_back(arguments...));
  }

  template <class... Arguments>
  T& acquire(Arguments&&... arguments) {
    if (free_.empty()) {
      all_.emplace_back(arguments...);
      free_.reserve(all_.size());  // so that give_back() cannot throw
      return all_.back();
    }
    T& object = *free_.back();
    free_.pop_back();
    return object;
  }

  void give_back(T& object) noexcept { free_.push_back(&object); }

 private:
  std::deque<T> all_;
  std::vector<T*> free_;
};

}  // namespace cleave::comm
