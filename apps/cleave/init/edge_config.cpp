#include <algorithm>
#include <filesystem>

#include "files.h"
#include "init/purposes.h"
#include <fmt/format.h>

#include "cleave/base/check.h"

namespace cleave::app {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEdgeConfig =
    R"(# Clients that keep their data learn one model together: in every round each takes some steps on its own, and
# the mean of what they changed becomes the model of all. cleave train plays it on this machine; what leaves
# whom: cleave verify --flow run.toml. With every client on a machine of its own:
#   cleave serve run.toml --listen 0.0.0.0:4242
#   cleave serve invite                                 there too, once for each client
#   cleave join SERVER:4242 --owner client-1 --data DATA --invitation …       there
# Every key: cleave reference config
cleave = "0.1"

[model]
kind = "llama"
layers = 2
hidden = 64
heads = 4

[data]
validation = 0.05   # of each client's data, held out

[train]
steps = 20          # rounds
batch = 8           # sequences per step of a client
sequence = 64       # bytes per sequence
optimizer = "sgd"
momentum = 0.9
schedule = "constant"
warmup = 0
lr = 0.1
eval_every = 5      # rounds
out = {out}         # checkpoints, log.jsonl and the config as it was used

[edge]
sync_every = 10     # steps of a client in a round, or "1 epoch" of its data
# secure = true     # the server sees sums alone: updates are masked
{owners})";

std::vector<fs::path> clients_of(const std::string& directory) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, ignored))
    if (!entry.path().filename().string().starts_with(".")) found.push_back(entry.path());
  std::ranges::sort(found);
  return found;
}

Filling fill_edge(const Belongings& given) {
  const std::vector<fs::path> clients = clients_of(given.data);
  require(clients.size() >= 2, "an edge run learns from several clients, and ", given.data, " has ",
          clients.size(), " of them; give --data a directory with a file or directory for each");
  std::string owners;
  for (std::size_t k = 0; k < clients.size(); ++k)
    owners += fmt::format("\n[[edge.owner]]\nname = \"client-{}\"\ndata = {}\n", k + 1,
                          path_value(clients[k]));
  return {{"{owners}", owners}};
}

void write_clients(const fs::path& path) {
  fs::create_directory(path);
  for (const std::uint32_t client : {1, 2, 3})
    write_file((path / fmt::format("client-{}.txt", client)).string(), sums(7000, client));
}

}  // namespace

Purpose edge_purpose() {
  return {.name = "edge",
          .about = "clients that keep their data learn one model together (federated averaging)",
          .run = "cleave train {config}",
          .sample = "clients",
          .config = kEdgeConfig,
          .write_sample = write_clients,
          .fill = fill_edge};
}

}  // namespace cleave::app
