#include "cleave/comm/mpi/session.h"

#include <exception>
#include <string>
#include <utility>

#include <mpi.h>

#include "cleave/base/check.h"
#include "cleave/comm/mpi/mpi_check.h"
#include "cleave/comm/mpi/mpi_transport.h"

namespace cleave::comm {

void check_mpi(int code, SourceLocation where) {
  if (code == MPI_SUCCESS) [[likely]]
    return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw InternalError(detail::concat(
      where.file, ":", where.line, ": MPI: ", std::string(text, static_cast<std::size_t>(length))));
}

std::string mpi_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  check_mpi(MPI_Get_library_version(text, &length));
  // Open MPI goes on about who built it and where.
  const std::string all(text, static_cast<std::size_t>(length));
  return all.substr(0, all.find_first_of(",\n"));
}

void end_mpi_waits() noexcept {
  mpi_waits_ended.store(true, std::memory_order_relaxed);
}

MpiSession::MpiSession(MpiPatience patience) : patience_(std::move(patience)) {
  const BlockWatch watch(patience_);
  int provided = 0;
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided));
  require(provided >= MPI_THREAD_FUNNELED, "this MPI offers only thread level ", provided,
          "; cleave needs MPI_THREAD_FUNNELED");
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
  transport_ = make_mpi_transport(patience_);
}

MpiSession::~MpiSession() {
  // Finalize waits for all ranks, and some of them may be waiting for us.
  if (std::uncaught_exceptions() > 0) abort(EXIT_FAILURE);
  const BlockWatch watch(patience_);
  transport_.reset();
  MPI_Finalize();
}

std::unique_ptr<Communicator> MpiSession::world() {
  return std::make_unique<Communicator>(*transport_);
}

void MpiSession::abort(int exit_code) {
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);
}

}  // namespace cleave::comm
