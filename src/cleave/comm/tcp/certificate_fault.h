#pragma once

#include <string>

#include <openssl/x509.h>

namespace cleave::comm {

/// What OpenSSL's verdict `code` on a certificate means; empty if it is good. Of one whose time has
/// not come, or is over, the dates are told: a clock may be wrong. Only .cpp files of comm/tcp
/// include this.
std::string certificate_fault(const X509& certificate, long code);

}  // namespace cleave::comm
