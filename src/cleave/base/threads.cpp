#include "cleave/base/threads.h"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <thread>
#include <vector>

namespace cleave {

void run_on_threads(int threads, const std::function<void(int thread)>& work) {
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(threads));
  // An exception that leaves a thread ends the process.
  const auto run = [&](int thread) {
    try {
      work(thread);
    } catch (...) {
      failures[static_cast<std::size_t>(thread)] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (int t = 1; t < threads; ++t) others.emplace_back(run, t);
    run(0);
  }
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

int all_threads() {
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace cleave
