#include "init/purposes.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include "cleave/base/check.h"
#include "cleave/base/nearest.h"

namespace cleave::app {
namespace {

constexpr std::string_view kText =
    R"(# A small model that learns to write text, byte by byte. Every key: cleave reference config
cleave = "0.1"

[model]
kind = "llama"
layers = 4
hidden = 128
heads = 4

[data]
path = {data}   # a text file, a directory of text, or a .bin of tokens
validation = 0.05   # the last 5 % are held out, and tell whether it learns or memorises

[train]
steps = 200
batch = 16          # sequences per step
sequence = 128      # bytes per sequence
lr = 2e-3           # highest learning rate; it falls to a tenth of it
eval_every = 50     # steps
out = {out}         # checkpoints, log.jsonl and the config as it was used

# Several devices: each is a thread with a memory of its own. The weights that come out are
# the same, bit for bit, in every layout of a grid, which a run prints in its first lines.
[parallel]
pipeline = 1        # groups of layers, one after another; changes no bit
data = 1            # replicas that share the batch; changes none if data_shards is given

# [numerics]
# data_shards = 2   # the same bits with data = 1 and data = 2

# [devices]
# memory = "64MiB"  # a budget for each; what cannot fit is refused before the first step
)";

constexpr std::string_view kCluster =
    R"(# A GPT of 85 million parameters on as many MPI ranks as mpirun or srun starts; cleave decides how to
# share it out. What will come of it: cleave plan run.toml. Every key: cleave reference config
cleave = "0.1"

[model]
kind = "gpt"
layers = 12
hidden = 768
heads = 12
context = 1024

[data]
path = {data}   # must be readable on every node
validation = 0.02

[train]
steps = 2000
batch = 64            # sequences per step, all ranks together
microbatch = "auto"
sequence = 1024
dtype = "bf16"
lr = 6e-4
warmup = 100
eval_every = 200
checkpoint_every = 200
keep = 3
out = {out}           # on a file system that all ranks see

[devices]
threads = 1           # cores of each rank; start mpirun with --bind-to none if it is more
# memory = "16GiB"    # of each rank, for tensors; without it a rank takes what it needs

[parallel]
pipeline = "auto"
tensor = "auto"
data = "auto"
schedule = "auto"
zero = "auto"         # what replicas share of their memory
)";

constexpr std::array<Purpose, 2> kPurposes = {{
    {.name = "text",
     .about = "a small model that learns to write your text, in a few minutes",
     .run = "cleave train {config}",
     .config = kText},
    {.name = "cluster",
     .about = "a GPT on the MPI ranks of a cluster, shared out by cleave",
     .run = "mpirun -np 4 cleave train {config}",
     .config = kCluster},
}};

}  // namespace

std::span<const Purpose> purposes() {
  return kPurposes;
}

const Purpose& find_purpose(std::string_view name) {
  const auto* found = std::ranges::find(kPurposes, name, &Purpose::name);
  if (found != kPurposes.end()) return *found;
  std::vector<std::string_view> names;
  for (const Purpose& purpose : kPurposes) names.push_back(purpose.name);
  throw UserError(detail::concat("there is no config for '", name, "'", known_are(name, names)));
}

std::string sample_text() {
  std::string text;
  std::uint32_t random = 1;
  for (int line = 0; line < 20000; ++line) {
    random = random * 1664525 + 1013904223;  // the quality of these numbers does not matter
    const std::uint32_t a = (random >> 24) % 100;
    const std::uint32_t b = (random >> 16 & 255) % 100;
    text += fmt::format("{} + {} = {}\n", a, b, a + b);
  }
  return text;
}

}  // namespace cleave::app
