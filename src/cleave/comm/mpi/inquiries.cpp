#include "cleave/comm/mpi/inquiries.h"

#include <deque>
#include <thread>

#include <mpi.h>

#include "cleave/comm/mpi/mpi_check.h"

namespace cleave::comm {
namespace {

constexpr int kQuestion = 0, kAnswer = 1;  // tags
constexpr std::chrono::milliseconds kPause{1};

}  // namespace

struct Inquiries::State {
  MPI_Comm comm = MPI_COMM_NULL;
  std::deque<int> sent;  ///< what MPI may still read: whether it arrives is not waited for

  void send(int value, int to, int tag) {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Isend(&sent.emplace_back(value), 1, MPI_INT, to, tag, comm, &request));
    check_mpi(MPI_Request_free(&request));
  }

  /// True if there was a message of this kind; `from` becomes its sender.
  bool take(int tag, int& from, int& value) {
    int there = 0;
    MPI_Status status;
    check_mpi(MPI_Iprobe(from, tag, comm, &there, &status));
    if (there == 0) return false;
    from = status.MPI_SOURCE;
    check_mpi(MPI_Recv(&value, 1, MPI_INT, from, tag, comm, MPI_STATUS_IGNORE));
    return true;
  }
};

Inquiries::Inquiries() : state_(std::make_unique<State>()) {
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &state_->comm));
  check_mpi(MPI_Comm_set_errhandler(state_->comm, MPI_ERRORS_RETURN));
}

Inquiries::~Inquiries() {
  MPI_Comm_free(&state_->comm);
}

void Inquiries::answer(int awaited) {
  int from = MPI_ANY_SOURCE, nothing = 0;
  while (state_->take(kQuestion, from, nothing)) {
    state_->send(awaited, from, kAnswer);
    from = MPI_ANY_SOURCE;
  }
}

std::optional<int> Inquiries::ask(int rank, int awaited,
                                  std::chrono::steady_clock::time_point deadline) {
  int value = 0;
  while (state_->take(kAnswer, rank, value)) continue;  // too late for an earlier question
  state_->send(0, rank, kQuestion);
  while (!state_->take(kAnswer, rank, value)) {
    if (std::chrono::steady_clock::now() >= deadline) return std::nullopt;
    answer(awaited);
    std::this_thread::sleep_for(kPause);
  }
  return value;
}

}  // namespace cleave::comm
