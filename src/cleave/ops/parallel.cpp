#include "cleave/ops/parallel.h"

#include <omp.h>

namespace cleave::ops::detail {

void run_pieces(int pieces, void (*piece)(void* context, int p), void* context) {
#pragma omp parallel num_threads(pieces)
  {
    // The runtime may grant fewer threads than asked for; the pieces stay the same.
    const int team = omp_get_num_threads();
    for (int p = omp_get_thread_num(); p < pieces; p += team) piece(context, p);
  }
}

}  // namespace cleave::ops::detail
