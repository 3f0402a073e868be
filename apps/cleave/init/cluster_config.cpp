#include "files.h"
#include "init/purposes.h"

namespace cleave::app {
namespace {

constexpr std::string_view kClusterConfig =
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

}  // namespace

Purpose cluster_purpose() {
  return {.name = "cluster",
          .about = "a GPT on the MPI ranks of a cluster, shared out by cleave",
          .run = "mpirun -np 4 cleave train {config}",
          .sample = "sums.txt",
          .config = kClusterConfig,
          .write_sample = text_purpose().write_sample};
}

}  // namespace cleave::app
