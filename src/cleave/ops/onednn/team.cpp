#include "cleave/ops/onednn/team.h"

#include <omp.h>

namespace cleave::ops::onednn {

TeamOf::TeamOf(int threads) : before_(omp_get_max_threads()) {
  omp_set_num_threads(threads);
}

TeamOf::~TeamOf() {
  omp_set_num_threads(before_);
}

}  // namespace cleave::ops::onednn
