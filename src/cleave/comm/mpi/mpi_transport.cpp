#include "cleave/comm/mpi/mpi_transport.h"

#include <algorithm>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <mpi.h>
#include <sys/prctl.h>

#include "cleave/base/check.h"
#include "cleave/comm/communicator.h"
#include "cleave/comm/mpi/inquiries.h"
#include "cleave/comm/mpi/mpi_check.h"
#include "cleave/comm/pool.h"

namespace cleave::comm {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

// MPI_Wait spins, and ranks share cores, so we poll. The pause grows with the time already waited,
// first quickly: it lengthens no short wait by more than a sixteenth, no long one by more than a
// sixty-fourth, and costs a percent of a core in the end.
constexpr int kPauseShare = 16, kLongPauseShare = 64;
constexpr microseconds kShortestSleep{4}, kQuickSleep{100}, kLongestSleep{1000};

nanoseconds pause_after(nanoseconds waited) {
  return std::max(std::min<nanoseconds>(waited / kPauseShare, kQuickSleep),
                  std::min<nanoseconds>(waited / kLongPauseShare, kLongestSleep));
}

class MpiTransport;

/// One end of a message between two ranks.
class MpiTransfer final : public Operation {
 public:
  explicit MpiTransfer(MpiTransport& owner) : owner_(owner) { pieces_.reserve(4); }

  void start(const Message& message, MPI_Comm comm, std::size_t largest_piece);
  bool advance() override;
  void release() noexcept override;
  std::string describe() const override { return comm::describe(message_); }
  int awaited() const override { return message_.peer; }

 private:
  struct Chunk {
    MPI_Request request;
    int bytes;
  };

  void check_peer(int code) const;
  void check_size(const Chunk& piece, const MPI_Status& status) const;

  MpiTransport& owner_;
  Message message_;
  std::vector<Chunk> pieces_;
  std::size_t arrived_ = 0;  ///< pieces
};

class MpiTransport final : public Transport {
 public:
  MpiTransport(MpiPatience patience, std::size_t largest_piece);
  ~MpiTransport() override;

  int device() const override { return device_; }
  int devices() const override { return devices_; }
  Operation& post(const Message& message) override;
  int open_context(int parent, std::span<const int> devices) override;

  void forget(MpiTransfer& transfer) noexcept;

 private:
  std::optional<int> ask_awaited(int device, Clock::time_point deadline) override;
  void make_room_for(std::size_t messages) override {
    pool_.prepare(messages, *this);
    active_.reserve(active_.capacity() + messages);
  }
  void progress_messages() override;
  void idle(Wait& wait) override;

  MpiPatience patience_;
  std::size_t largest_piece_;
  Inquiries inquiries_;
  int device_ = 0;
  int devices_ = 0;
  std::vector<MPI_Comm> comms_;  ///< [context]
  Pool<MpiTransfer> pool_;
  std::vector<MpiTransfer*> active_;
};

// ── One message ──────────────────────────────────────────────────────────────────────────────────

void MpiTransfer::start(const Message& message, MPI_Comm comm, std::size_t largest_piece) {
  message_ = message;
  pieces_.clear();
  arrived_ = 0;
  std::span<std::byte> rest = message.bytes;
  do {
    const std::span<std::byte> bytes = rest.first(std::min(rest.size(), largest_piece));
    rest = rest.subspan(bytes.size());
    Chunk& piece = pieces_.emplace_back(
        Chunk{.request = MPI_REQUEST_NULL, .bytes = static_cast<int>(bytes.size())});
    const bool sends = message.direction == Direction::Send;
    check_mpi(sends ? MPI_Issend(bytes.data(), piece.bytes, MPI_BYTE, message.member, message.tag,
                                 comm, &piece.request)
                    : MPI_Irecv(bytes.data(), piece.bytes, MPI_BYTE, message.member, message.tag,
                                comm, &piece.request));
  } while (!rest.empty());
}

bool MpiTransfer::advance() {
  for (; arrived_ < pieces_.size(); ++arrived_) {
    int flag = 0;
    MPI_Status status;
    check_peer(MPI_Test(&pieces_[arrived_].request, &flag, &status));
    if (flag == 0) return false;
    check_size(pieces_[arrived_], status);
  }
  return true;
}

// An error while a message is under way means that its peer is gone, unless it says otherwise.
void MpiTransfer::check_peer(int code) const {
  if (code == MPI_SUCCESS) [[likely]]
    return;
  try {
    check_mpi(code);
  } catch (const InternalError& error) {
    int kind = MPI_ERR_UNKNOWN;
    MPI_Error_class(code, &kind);
    if (kind == MPI_ERR_TRUNCATE) throw;
    throw DeviceLost(detail::concat("device ", message_.peer, " is lost while device ",
                                    owner_.device(), " was at its ", describe(), " (", error.what(),
                                    ")"));
  }
}

void MpiTransfer::check_size(const Chunk& piece, const MPI_Status& status) const {
  if (message_.direction == Direction::Send) return;
  int bytes = 0;
  check_mpi(MPI_Get_count(&status, MPI_BYTE, &bytes));
  CLEAVE_CHECK(bytes == piece.bytes, "device ", owner_.device(), ": ", describe(), " got ", bytes,
               " B where ", piece.bytes, " B were due");
}

// MPI cannot take a message back for certain once the peer may be reading it. This happens only on
// the way to MPI_Abort.
void MpiTransfer::release() noexcept {
  for (; arrived_ < pieces_.size(); ++arrived_) {
    MPI_Request& request = pieces_[arrived_].request;
    if (request == MPI_REQUEST_NULL) continue;
    if (message_.direction == Direction::Receive) MPI_Cancel(&request);
    MPI_Request_free(&request);
  }
  owner_.forget(*this);
}

// ── One rank ─────────────────────────────────────────────────────────────────────────────────────

MpiTransport::MpiTransport(MpiPatience patience, std::size_t largest_piece)
    : patience_(std::move(patience)), largest_piece_(largest_piece) {
  MPI_Comm world = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &world));
  comms_.push_back(world);
  check_mpi(MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN));
  check_mpi(MPI_Comm_rank(world, &device_));
  check_mpi(MPI_Comm_size(world, &devices_));

  int* largest_tag = nullptr;
  int known = 0;
  check_mpi(MPI_Comm_get_attr(world, MPI_TAG_UB, static_cast<void*>(&largest_tag), &known));
  require(known != 0 && *largest_tag >= 2 * kTags - 1, "this MPI allows tags up to ",
          known != 0 ? *largest_tag : 0, "; cleave needs ", 2 * kTags - 1);

  // Linux may oversleep by 50 us otherwise, which is as long as the sleeps themselves.
  prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
}

MpiTransport::~MpiTransport() {
  for (MPI_Comm& comm : comms_) MPI_Comm_free(&comm);
}

Operation& MpiTransport::post(const Message& message) {
  MpiTransfer& transfer = pool_.acquire(*this);
  active_.push_back(&transfer);
  transfer.start(message, comms_.at(message.context), largest_piece_);
  return transfer;
}

void MpiTransport::forget(MpiTransfer& transfer) noexcept {
  std::erase(active_, &transfer);
  pool_.give_back(transfer);
}

int MpiTransport::open_context(int /*parent*/, std::span<const int> devices) {
  MPI_Group world = MPI_GROUP_NULL, group = MPI_GROUP_NULL;
  MPI_Comm comm = MPI_COMM_NULL;
  check_mpi(MPI_Comm_group(comms_.front(), &world));
  check_mpi(MPI_Group_incl(world, static_cast<int>(devices.size()), devices.data(), &group));
  {
    const BlockWatch watch(patience_);  // it returns when all of them are there
    check_mpi(MPI_Comm_create_group(comms_.front(), group, /*tag=*/0, &comm));
  }
  check_mpi(MPI_Group_free(&group));
  check_mpi(MPI_Group_free(&world));
  check_mpi(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
  comms_.push_back(comm);
  return static_cast<int>(comms_.size()) - 1;
}

// Every unfinished test enters MPI's progress engine, which moves all messages.
void MpiTransport::progress_messages() {
  for (MpiTransfer* transfer : active_) transfer->advance();
}

std::optional<int> MpiTransport::ask_awaited(int device, Clock::time_point deadline) {
  return inquiries_.ask(device, awaited(), deadline);
}

void MpiTransport::idle(Wait& wait) {
  if (mpi_waits_ended.load(std::memory_order_relaxed)) [[unlikely]] {
    throw DeviceLost(detail::concat("device ", device_, " was told to end, as mpirun does when ",
                                    "another rank has died, during its ", wait.wanted.describe()));
  }
  const auto now = Clock::now();
  const nanoseconds pause = pause_after(now - wait.start);
  if (pause == kLongestSleep) inquiries_.answer(awaited());
  if (pause < kShortestSleep) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(std::min<nanoseconds>(pause, wait.deadline - now));
  }
}

}  // namespace

std::atomic<bool> mpi_waits_ended = false;

std::unique_ptr<Transport> make_mpi_transport(MpiPatience patience, std::size_t largest_piece) {
  return std::make_unique<MpiTransport>(std::move(patience), largest_piece);
}

}  // namespace cleave::comm
