#include "files.h"
#include "init/purposes.h"

namespace cleave::app {
namespace {

constexpr std::string_view kTextConfig =
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

}  // namespace

Purpose text_purpose() {
  return {.name = "text",
          .about = "a small model that learns to write your text, in a few minutes",
          .run = "cleave train {config}",
          .sample = "sums.txt",
          .config = kTextConfig,
          .write_sample = [](const std::filesystem::path& path) {
            write_file(path.string(), sums(20000, 1));
          }};
}

}  // namespace cleave::app
