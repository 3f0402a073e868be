#pragma once

#include <functional>

namespace cleave {

/// Calls work(0), …, work(threads - 1), each on a thread of its own and the first on the caller's.
/// Returns when all have ended, and throws what the first of them has thrown.
void run_on_threads(int threads, const std::function<void(int thread)>& work);

/// As many as the machine has hardware threads; 1 where it does not say.
int all_threads();

}  // namespace cleave
