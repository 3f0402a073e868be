#pragma once

#include "cleave/base/check.h"

namespace cleave::comm {

/// Every MPI call goes through here. Needs MPI_ERRORS_RETURN, which the session and the transport
/// set. An error code becomes an InternalError with MPI's own words.
void check_mpi(int code, SourceLocation where = SourceLocation::current());

}  // namespace cleave::comm
