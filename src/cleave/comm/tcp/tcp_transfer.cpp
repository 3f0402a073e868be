#include "cleave/comm/tcp/tcp_transfer.h"

#include "cleave/comm/tcp/tcp_link.h"
#include "cleave/comm/tcp/tcp_transport.h"

namespace cleave::comm {

bool TcpTransfer::advance() {
  if (state_ == State::Done) return true;
  link_->advance();
  if (state_ == State::Done) return true;
  link_->check_alive(*this);
  return false;
}

void TcpTransfer::release() noexcept {
  if (state_ != State::Done) link_->withdraw(*this);
  owner_.give_back(*this);
}

}  // namespace cleave::comm
