#pragma once

#include <string>

#include "cleave/engine/compile/compile.h"
#include "cleave/train/config/config.h"

namespace cleave::app {

/// What an owner holds a run against before its first instruction, and what it keeps of that.
struct OwnerCheck {
  std::string owner;
  std::string policy;     ///< a file; empty: what the config says of the owner
  std::string authority;  ///< the server's certificate; empty: there is no TLS
  std::string signature;  ///< the server's, under the table of what leaves whom
};

/// Works the table out from the program that this device is about to run. Throws UserError, with
/// the path or the number, if the policy does not allow it, or if the server has signed another.
/// Else leaves it in `directory`, with the signature and the certificate that it can be checked
/// with.
void check_and_record(const OwnerCheck& check, const train::Config& config,
                      const engine::CompiledStep& step, const std::string& directory);

}  // namespace cleave::app
