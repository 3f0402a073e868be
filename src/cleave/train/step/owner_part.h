#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cleave/comm/communicator.h"
#include "cleave/data/dataset.h"
#include "cleave/engine/compile/compile.h"
#include "cleave/train/config/config.h"

namespace cleave::train {

/// Whose device a process is where owners are on machines of their own, and where that owner's data
/// are: nobody else knows or needs to.
struct OwnerPart {
  std::string owner;
  std::string data;  ///< a path here; empty: it has none, as a server
  /// On a server: what clients have announced before, for those who are not here now. Borrowed; it
  /// is brought up to date. Null: all must be here.
  std::vector<std::optional<data::Announced>>* remembered = nullptr;
};

/// [client] what the others have announced of their data, and nothing for the part's own, which is
/// here. All processes of the run call it together. Throws UserError.
std::vector<std::optional<data::Announced>> exchange_announcements(const Config& config,
                                                                   const OwnerPart& part,
                                                                   comm::Communicator& processes);

/// A client's place among the clients; nothing for a server.
std::optional<int> client_of(const Config& config, const OwnerPart& part);

/// `config` as the part's own process reads it: with its data where they are.
Config with_own_data(Config config, const OwnerPart& part);

/// Names of the parameters on a device, in checkpoints.
std::vector<std::string> parameters_on(const engine::CompiledStep& step, int device);

}  // namespace cleave::train
