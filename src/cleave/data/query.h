#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cleave/data/chat_template.h"

namespace cleave::data {

enum class TokenType : std::uint8_t { Auto, U16, U32 };

/// What becomes of the tokens after the last whole sequence: they are left out, or the rest of
/// their sequence is filled up with tokens that nobody is to predict.
enum class Tail : std::uint8_t { LeftOut, FilledUp };

/// Whether tokens see those of earlier documents in their sequence.
enum class Borders : std::uint8_t { Crossed, Kept };

/// One of the places that data comes from.
struct DataPath {
  std::string path;
  double weight = 0;  ///< share of the sequences, relative to the others'; 0: none is given

  friend bool operator==(const DataPath&, const DataPath&) = default;
};

/// How images are changed each time a model learns from them: half of them are mirrored, left and
/// right; each is moved by up to an eighth of its side.
enum class ImageChange : std::uint8_t { Flip, Crop };

/// What [data] of a config says.
struct DataConfig {
  std::vector<DataPath> path;         ///< empty: not given, fine for what needs no data
  std::string tokenizer;              ///< empty: bytes
  TokenType dtype = TokenType::Auto;  ///< of .bin files
  ChatTemplate chat = {};             ///< of messages; empty: by the tokenizer's tokens
  std::variant<double, std::string> validation = 0.05;  ///< share held out, or a path
  std::int64_t images = 1;  ///< most images of a sample, for models that read both
  Borders borders = Borders::Crossed;
  std::vector<ImageChange> augment = {};

  friend bool operator==(const DataConfig&, const DataConfig&) = default;
};

/// The images that a model reads; a side of 0: it reads tokens.
struct ImageQuery {
  std::int64_t side = 0;   ///< pixels
  std::int64_t patch = 0;  ///< pixels of a patch's side
  int channels = 0;
  std::int64_t classes = 0;  ///< 0: it reads texts with images
  bool pairs = false;        ///< it holds images and captions against each other
  std::int64_t rows = 0;     ///< tokens that an image takes the place of
  std::int32_t token = 0;    ///< what stands there
  std::vector<ImageChange> augment = {};
  std::int64_t seed = 1;
};

/// What an owner tells of samples that stay with it.
struct Announced {
  std::int64_t samples = 0;
  std::int64_t targets = 0;  ///< tokens or labels that each of them has to predict
  std::uint64_t digest = 0;

  friend bool operator==(const Announced&, const Announced&) = default;
};

/// What a run asks of its data.
struct Query {
  DataConfig config;
  ImageQuery images = {};
  std::int64_t vocabulary = 0;
  std::int64_t sequence = 0;    ///< tokens
  std::int64_t batch = 0;       ///< sequences per step, all devices together
  std::int64_t microbatch = 1;  ///< sequences
  std::int64_t seed = 1;
  Tail tail = Tail::LeftOut;
  std::string_view path_key = "data.path";  ///< what messages call the path
  std::string leave_out = {};               ///< a directory that the run itself writes
  /// Each of a run's processes checks a share of the tokens.
  int process = 0;
  int processes = 1;
  /// [path of config] what its owner has announced, where it is not here; empty: all are.
  std::vector<std::optional<Announced>> elsewhere = {};
};

}  // namespace cleave::data
