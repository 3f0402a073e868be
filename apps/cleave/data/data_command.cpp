#include "data_command.h"

#include "command.h"

namespace cleave::app {

void add_data_command(CLI::App& app) {
  CLI::App* data = app.add_subcommand(
      "data", "Look at data, turn text into tokens, pack images, and train tokenizers.");
  data->require_subcommand(1);
  data->footer(
      "Examples:\n"
      "  cleave data train-tokenizer books/ --vocab 8192 --out tokenizer.json\n"
      "  cleave data tokenize books/ --tokenizer tokenizer.json --out books.npy\n"
      "  cleave data pack photos/ --size 224 --out photos.set\n"
      "  cleave data inspect books.npy --tokenizer tokenizer.json");
  add_inspect_command(*data);
  add_pack_command(*data);
  add_tokenize_command(*data);
  add_train_tokenizer_command(*data);
}

}  // namespace cleave::app
