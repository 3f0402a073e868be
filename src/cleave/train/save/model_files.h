#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/train/config/config.h"

namespace cleave::train {

/// Whether the tokens of a run are the bytes of its texts. Data without a tokenizer is judged by
/// its name, since the file may be gone by now.
bool reads_bytes(const Config& config);

/// Which tokens end what is generated.
inline constexpr std::string_view kGenerationFile = "generation_config.json";

/// A small file of a checkpoint.
struct ModelFile {
  std::string name;
  std::string text;
};

/// What Hugging Face's tools read beside the weights of the model of `config`: config.json,
/// generation_config.json, and the files of the tokenizer and of the preparation of images that
/// `beside` has. What `beside` does not say of the tokens of a model that was trained here follows
/// from the tokenizer and the data. Nothing for a family that they do not know. `dtype` is what
/// config.json calls the format of the weights, such as "float32".
std::vector<ModelFile> model_files(const Config& config, const std::string& dtype,
                                   const std::filesystem::path& beside);

/// Copies the files of a tokenizer, and what a model says about generating, from one directory to
/// another. Which tokens begin and end a text may stand in a config.json alone.
void copy_companions(const std::filesystem::path& from, const std::filesystem::path& to);

/// Copies what says how images are made ready for a model.
void copy_image_companions(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace cleave::train
