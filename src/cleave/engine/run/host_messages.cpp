#include "cleave/engine/run/host_messages.h"

#include "cleave/base/check.h"

namespace cleave::engine {

HostMessages::HostMessages(std::size_t moves, std::size_t slots, Memory& memory, Arena* host,
                           comm::Communicator& world, Sending sending)
    : host_(host), world_(world), sending_(sending) {
  if (moves == 0) return;
  mover_ = std::make_unique<Mover>(memory, host_memory(), 2 * moves);
  flights_.resize(slots);
}

void HostMessages::begin_step() {
  if (mover_ == nullptr) return;
  mover_->drain();
  for (Flight& flight : flights_) {
    flight.pending.withdraw();
    flight.phase = Phase::Idle;
    flight.next = nullptr;
  }
}

void HostMessages::out(const LinkedInstruction& entry) {
  Flight& flight = flights_[entry.slot];
  CLEAVE_CHECK(flight.phase == Phase::Idle, to_string(entry.instruction), " while another moves");
  if (entry.on_host.bytes > 0) host_->acquire(entry.on_host.offset, entry.on_host.bytes);
  flight.phase = Phase::MovingOut;
  flight.move = mover_->post(Mover::Way::Out, entry.copies);
}

void HostMessages::send(const LinkedInstruction& entry) {
  Flight& flight = flights_[entry.slot];
  flight.next = &entry;
  if (sending_ == Sending::AtOnce || mover_->done(flight.move)) start_send(flight);
}

void HostMessages::start_send(Flight& flight) {
  mover_->wait(flight.move);
  const LinkedInstruction& send = *flight.next;
  flight.pending = world_.send(send.message, send.slices.front().device, send.tag);
  flight.phase = Phase::Sent;
}

void HostMessages::receive(const LinkedInstruction& entry) {
  Flight& flight = flights_[entry.slot];
  CLEAVE_CHECK(flight.phase == Phase::Idle, to_string(entry.instruction), " while another moves");
  if (entry.on_host.bytes > 0) host_->acquire(entry.on_host.offset, entry.on_host.bytes);
  flight.pending = world_.receive(entry.message, entry.slices.front().device, entry.tag);
  flight.phase = Phase::Receiving;
  flight.next = nullptr;
}

void HostMessages::in(const LinkedInstruction& entry) {
  flights_[entry.slot].next = &entry;
}

void HostMessages::start_in(Flight& flight) {
  flight.move = mover_->post(Mover::Way::In, flight.next->copies);
  flight.phase = Phase::MovingIn;
}

void HostMessages::look() {
  for (Flight& flight : flights_) {
    if (flight.next == nullptr) continue;
    if (flight.phase == Phase::MovingOut && mover_->done(flight.move)) start_send(flight);
    if (flight.phase == Phase::Receiving && flight.pending.done()) start_in(flight);
  }
}

void HostMessages::flush() {
  for (Flight& flight : flights_)
    if (flight.phase == Phase::MovingOut && flight.next != nullptr) start_send(flight);
}

Mover::Times HostMessages::finish(const LinkedInstruction& wait) {
  Flight& flight = flights_[wait.slot];
  if (flight.phase == Phase::MovingOut) start_send(flight);
  if (!flight.pending.done()) flush();
  flight.pending.wait();
  if (flight.phase == Phase::Receiving) start_in(flight);
  const Mover::Times times = mover_->wait(flight.move);
  flight.phase = Phase::Idle;
  flight.next = nullptr;
  if (wait.on_host.bytes > 0) host_->release(wait.on_host.offset);
  return times;
}

Mover::Times HostMessages::carry_out(const LinkedInstruction& entry) {
  const bool out = entry.instruction.op == schedule::Op::Out;
  return mover_->wait(mover_->post(out ? Mover::Way::Out : Mover::Way::In, entry.copies));
}

}  // namespace cleave::engine
