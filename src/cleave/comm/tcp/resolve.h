#pragma once

#include <memory>

#include <netdb.h>

#include "cleave/comm/tcp/address.h"

namespace cleave::comm {

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using AddressList = std::unique_ptr<addrinfo, FreeAddresses>;

/// What the system knows of an address, at least one entry; `flags` are those of getaddrinfo().
/// Throws ConnectionBroken if there is no such host.
AddressList resolve(const Address& address, int flags);

/// A socket for one of them that never blocks; negative if the system gives none.
int new_socket(const addrinfo& at);

}  // namespace cleave::comm
