#pragma once

#include <chrono>
#include <exception>
#include <string>

namespace cleave::comm {

class Operation;
class Transport;

/// A message or a collective in flight. Its buffers belong to the transport until it is complete.
/// A fixed-size handle: making, moving and completing one allocates nothing.
class [[nodiscard]] Pending {
 public:
  Pending() = default;  ///< nothing in flight: done
  Pending(Transport& transport, Operation& operation)
      : transport_(&transport), operation_(&operation) {}
  Pending(Pending&& other) noexcept;

  /// Waits first for what this handle held.
  Pending& operator=(Pending&& other);

  /// Waits, so that a forgotten handle costs time and never a data race. While an exception unwinds
  /// it withdraws instead: the peer may be waiting for us.
  ~Pending();

  /// Never waits. True once complete, and from then on.
  bool done();

  /// Gives the core away while waiting. Throws DeviceLost if the peer is gone, or does not answer
  /// for as long as Communicator::set_patience() says.
  void wait();

  /// False when `timeout` passed first; the operation stays in flight and describe() tells whom it
  /// waits for.
  [[nodiscard]] bool wait_for(std::chrono::nanoseconds timeout);

  /// Gives up: the peer may wait for ever, so the run must be on its way to an end.
  void withdraw() noexcept;

  bool in_flight() const { return operation_ != nullptr; }

  /// A device that must act before this completes; kNobody once it is complete.
  int awaited() const;

  /// "receive of 4096 B from device 2, tag 7", or "nothing" once complete.
  std::string describe() const;

 private:
  Transport* transport_ = nullptr;
  Operation* operation_ = nullptr;
  int unwinding_at_birth_ = std::uncaught_exceptions();
};

}  // namespace cleave::comm
