#pragma once

#include <CLI/CLI.hpp>

namespace cleave::app {

void add_inspect_command(CLI::App& data);
void add_pack_command(CLI::App& data);
void add_tokenize_command(CLI::App& data);
void add_train_tokenizer_command(CLI::App& data);

}  // namespace cleave::app
