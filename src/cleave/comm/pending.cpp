#include "cleave/comm/pending.h"

#include <utility>

#include "cleave/comm/transport.h"

namespace cleave::comm {

Pending::Pending(Pending&& other) noexcept
    : transport_(other.transport_), operation_(std::exchange(other.operation_, nullptr)) {}

Pending& Pending::operator=(Pending&& other) {
  if (this == &other) return *this;
  wait();
  transport_ = other.transport_;
  operation_ = std::exchange(other.operation_, nullptr);
  return *this;
}

Pending::~Pending() {
  if (operation_ == nullptr) return;
  if (std::uncaught_exceptions() == unwinding_at_birth_) {
    try {
      wait();
    } catch (...) {
      // The peer is lost. Whoever waits for anything else will be told; a destructor cannot.
    }
  }
  withdraw();
}

void Pending::withdraw() noexcept {
  if (operation_ != nullptr) std::exchange(operation_, nullptr)->release();
}

bool Pending::done() {
  if (operation_ == nullptr) return true;
  const ExchangeLog::Stay stay(transport_->log());
  if (operation_->advance()) withdraw();
  return operation_ == nullptr;
}

void Pending::wait() {
  if (operation_ == nullptr) return;
  transport_->wait(*operation_);
  withdraw();
}

bool Pending::wait_for(std::chrono::nanoseconds timeout) {
  if (operation_ == nullptr) return true;
  if (!transport_->wait(*operation_, Clock::now() + timeout)) return false;
  withdraw();
  return true;
}

int Pending::awaited() const {
  return operation_ == nullptr ? kNobody : operation_->awaited();
}

std::string Pending::describe() const {
  return operation_ == nullptr ? "nothing" : operation_->describe();
}

}  // namespace cleave::comm
