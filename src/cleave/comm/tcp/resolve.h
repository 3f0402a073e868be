#pragma once

#include <cstddef>
#include <memory>
#include <vector>

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

/// Addresses that are tried one after the other until one answers: "localhost" may be ::1 and
/// 127.0.0.1.
class Dialling {
 public:
  /// Throws ConnectionBroken if a host is not known.
  explicit Dialling(const std::vector<Address>& addresses);

  /// A socket that has begun to connect to the next of them; negative if none is left that does not
  /// fail at once.
  int next_socket();

  /// Of the last that failed at once.
  int error() const { return error_; }

 private:
  std::vector<AddressList> lists_;
  std::size_t list_ = 0;  ///< that `next_` is of
  const addrinfo* next_ = nullptr;
  int error_ = 0;
};

}  // namespace cleave::comm
