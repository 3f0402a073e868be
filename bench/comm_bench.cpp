// How fast do messages move?
//
//   comm_bench                 devices are threads: large messages against memcpy, latency of small
//   mpirun -np 2 comm_bench    devices are ranks: against a plain ping-pong of MPI_Send and
//   MPI_Recv, and over our own TCP, plain and with TLS, against MPI's (--mca btl tcp,self)
//   mpirun -np 2 comm_bench wire    the latter alone, with messages of 8 MiB and fewer trials
//
// Contenders alternate within the run, so that a change in the machine's mood hits both alike.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <mpi.h>

#include "cleave/base/median.h"
#include "cleave/comm/local/local_world.h"
#include "cleave/comm/mpi/session.h"
#include "cleave/comm/pinning.h"
#include "cleave/comm/tcp/listener.h"
#include "cleave/comm/tcp/tcp_transport.h"
#include "cleave/comm/together.h"

namespace {

using namespace cleave::comm;
using cleave::median;
using Bytes = std::vector<std::byte>;

constexpr int kTrials = 15;
constexpr std::size_t kMiB = 1 << 20;

double seconds(const std::function<void()>& act) {
  const auto start = Clock::now();
  act();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// There and back, `rounds` times.
void ping_pong(Communicator& comm, std::span<std::byte> bytes, int rounds) {
  const int peer = 1 - comm.rank();
  for (int i = 0; i < rounds; ++i) {
    if (comm.rank() == 0) comm.send(bytes, peer, 0).wait();
    comm.receive(bytes, peer, 0).wait();
    if (comm.rank() == 1) comm.send(bytes, peer, 0).wait();
  }
}

void plain_ping_pong(int rank, std::span<std::byte> bytes, int rounds) {
  const int peer = 1 - rank, count = static_cast<int>(bytes.size());
  const auto send = [&] { MPI_Send(bytes.data(), count, MPI_BYTE, peer, 0, MPI_COMM_WORLD); };
  for (int i = 0; i < rounds; ++i) {
    if (rank == 0) send();
    MPI_Recv(bytes.data(), count, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1) send();
  }
}

void print_latency(double seconds_per_message) {
  fmt::print("8 B, ping-pong: {:.2f} us per message\n", 1e6 * seconds_per_message);
}

// The receiver gets one message after another, as a stage of a pipeline does.
void stream(Communicator& comm, std::span<std::byte> bytes, int messages) {
  for (int i = 0; i < messages; ++i) {
    if (comm.rank() == 0) comm.send(bytes, 1, 0).wait();
    if (comm.rank() == 1) comm.receive(bytes, 0, 0).wait();
  }
}

void measure_local(const Pinning& pinning) {
  constexpr int kMessages = 20;
  for (const std::size_t size : {kMiB / 4, kMiB, 8 * kMiB, 64 * kMiB}) {
    Bytes buffers[] = {Bytes(size, std::byte{1}), Bytes(size, std::byte{2})};
    std::vector<double> copies, messages;
    run_devices(2, [&](Communicator& comm) {
      pin_this_thread(pinning.devices[comm.rank()]);
      for (int trial = 0; trial < kTrials; ++trial) {
        comm.barrier().wait();
        if (comm.rank() == 0) {
          copies.push_back(seconds([&] {
            for (int i = 0; i < kMessages; ++i) {
              std::memcpy(buffers[1].data(), buffers[0].data(), size);
              asm volatile("" : : "r"(buffers[1].data()) : "memory");
            }
          }));
        }
        comm.barrier().wait();
        const double taken = seconds([&] { stream(comm, buffers[comm.rank()], kMessages); });
        if (comm.rank() == 0) messages.push_back(taken);
      }
    });
    const double copy = median(copies) / kMessages, message = median(messages) / kMessages;
    fmt::print("{:6.2f} MiB: memcpy {:6.2f} GB/s, message {:6.2f} GB/s, ratio {:.2f}\n",
               static_cast<double>(size) / kMiB, 1e-9 * static_cast<double>(size) / copy,
               1e-9 * static_cast<double>(size) / message, copy / message);
  }

  Bytes small[] = {Bytes(8), Bytes(8)};
  std::vector<double> times;
  run_devices(2, [&](Communicator& comm) {
    pin_this_thread(pinning.devices[comm.rank()]);
    for (int trial = 0; trial < kTrials; ++trial) {
      comm.barrier().wait();
      const double taken = seconds([&] { ping_pong(comm, small[comm.rank()], 500); });
      if (comm.rank() == 0) times.push_back(taken / 1000);
    }
  });
  print_latency(median(times));
}

void measure_mpi(Communicator& comm) {
  for (const std::size_t size : {std::size_t{8}, kMiB / 4, kMiB, 4 * kMiB, 16 * kMiB, 64 * kMiB}) {
    const int rounds = size < 1000 ? 500 : std::max(2, static_cast<int>(32 * kMiB / size));
    Bytes bytes(size);
    std::vector<double> plain, ours;
    for (int trial = 0; trial < kTrials; ++trial) {
      comm.barrier().wait();
      plain.push_back(seconds([&] { plain_ping_pong(comm.rank(), bytes, rounds); }));
      comm.barrier().wait();
      ours.push_back(seconds([&] { ping_pong(comm, bytes, rounds); }));
    }
    if (comm.rank() != 0) continue;
    const double p = median(plain) / rounds / 2, o = median(ours) / rounds / 2;
    fmt::print(
        "{:8.2f} MiB: plain {:9.2f} us, {:6.2f} GB/s; cleave {:9.2f} us, {:6.2f} GB/s; ratio "
        "{:.2f}\n",
        static_cast<double>(size) / kMiB, 1e6 * p, 1e-9 * static_cast<double>(size) / p, 1e6 * o,
        1e-9 * static_cast<double>(size) / o, p / o);
  }
}

/// The two ranks once more, over sockets of our own.
class TcpPair {
 public:
  enum class Wire { Plain, Tls };

  TcpPair(Communicator& mpi, Wire wire) {
    constexpr std::chrono::hours kDay{24};
    Identity own[2];
    if (mpi.rank() == 0 && wire == Wire::Tls)
      for (Identity& each : own) each = make_authority("bench", kDay);
    std::vector<TcpPeer> peers(2);
    for (int device = 0; device < 2; ++device) {
      for (std::string* text : {&own[device].key, &own[device].certificate}) broadcast(mpi, *text);
      double port = device == mpi.rank() ? listener_.port() : 0;
      mpi.broadcast(std::as_writable_bytes(std::span(&port, 1)), device).wait();
      peers[device].address = {"127.0.0.1", static_cast<std::uint16_t>(port)};
      if (wire == Wire::Tls)
        peers[device].fingerprint = read_certificate(own[device].certificate).fingerprint;
    }
    if (wire == Wire::Tls) tls_ = std::make_unique<Tls>(own[mpi.rank()]);
    transport_ = std::make_unique<TcpTransport>(
        TcpSetup{.device = mpi.rank(), .peers = peers, .listener = &listener_, .tls = tls_.get()});
    comm_ = std::make_unique<Communicator>(*transport_);
  }

  Communicator& comm() { return *comm_; }

 private:
  Listener listener_{{"127.0.0.1", 0}};
  std::unique_ptr<Tls> tls_;
  std::unique_ptr<TcpTransport> transport_;
  std::unique_ptr<Communicator> comm_;
};

/// One direction, as between the stages of a pipeline.
void measure_tcp(Communicator& mpi, const std::vector<std::size_t>& sizes, int trials) {
  constexpr int kMessages = 20;
  TcpPair plain(mpi, TcpPair::Wire::Plain), tls(mpi, TcpPair::Wire::Tls);
  for (const std::size_t size : sizes) {
    Bytes bytes(size);
    std::vector<double> taken[3];
    for (int trial = 0; trial < trials; ++trial) {
      for (int way = 0; way < 3; ++way) {
        Communicator& comm = way == 0 ? mpi : way == 1 ? plain.comm() : tls.comm();
        mpi.barrier().wait();
        taken[way].push_back(seconds([&] { stream(comm, bytes, kMessages); }));
      }
    }
    if (mpi.rank() != 0) continue;
    const auto rate = [&](int way) {
      return 1e-9 * kMessages * static_cast<double>(size) / median(taken[way]);
    };
    fmt::print(
        "{:8.2f} MiB, one way: over MPI {:6.2f} GB/s; tcp {:6.2f} GB/s, ratio {:.2f}; tls "
        "{:6.2f} GB/s\n",
        static_cast<double>(size) / kMiB, rate(0), rate(1), rate(1) / rate(0), rate(2));
  }
}

// How late does the message arrive that somebody has waited for a while?
void measure_wake_up(Communicator& comm) {
  std::vector<double> late;
  for (int trial = 0; trial < 40; ++trial) {
    double sent_at[1] = {};
    const auto bytes = std::as_writable_bytes(std::span(sent_at));
    if (comm.rank() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      sent_at[0] = std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
      comm.send(bytes, 1, 0).wait();
    } else if (comm.rank() == 1) {
      comm.receive(bytes, 0, 0).wait();
      late.push_back(std::chrono::duration<double>(Clock::now().time_since_epoch()).count() -
                     sent_at[0]);
    }
  }
  if (comm.rank() == 1)
    fmt::print("8 B after 5 ms of waiting: {:.1f} us late\n", 1e6 * median(late));
}

}  // namespace

int main(int argc, char** argv) {
  const bool wire_only = argc > 1 && std::string(argv[1]) == "wire";
  const Pinning pinning = plan_pinning(allowed_cores(), 2, 1);
  if (!launched_by_mpi()) {
    fmt::print("{}\n", pinning.report);
    measure_local(pinning);
    run_devices(2, measure_wake_up);
    return 0;
  }
  MpiSession mpi;
  const auto comm = mpi.world();
  if (comm->size() != 2) {
    fmt::print(stderr, "comm_bench: runs on 2 ranks, not {}\n", comm->size());
    mpi.abort(2);
  }
  if (wire_only) {
    measure_tcp(*comm, {8 * kMiB}, 5);
    return 0;
  }
  measure_mpi(*comm);
  measure_tcp(*comm, {kMiB / 4, kMiB, 8 * kMiB}, kTrials);
  measure_wake_up(*comm);
  return 0;
}
