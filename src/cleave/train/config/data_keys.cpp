#include <utility>

#include "cleave/train/config/config_image_keys.h"
#include "cleave/train/config/config_rules.h"
#include "cleave/train/config/config_sections.h"

namespace cleave::train {
namespace {

using namespace rules;  // NOLINT(google-build-using-namespace): one table, one vocabulary

/// A path, or {path = "a", weight = 0.7}.
std::optional<data::DataPath> read_path(const Value& value) {
  if (const auto* text = as<std::string>(value)) {
    return text->empty() ? std::nullopt : std::optional(data::DataPath{*text});
  }
  const auto* table = as<Value::Table>(value);
  if (table == nullptr) return std::nullopt;
  data::DataPath path;
  for (std::size_t i = 0; i < table->keys.size(); ++i) {
    const auto* text = as<std::string>(table->values[i]);
    if (table->keys[i] == "path" && text != nullptr) {
      path.path = *text;
    } else if (table->keys[i] == "weight") {
      path.weight = as_number(table->values[i]).value_or(0);
    } else {
      return std::nullopt;
    }
  }
  return path.path.empty() || path.weight <= 0 ? std::nullopt : std::optional(path);
}

/// Either every path has a weight, or none has.
bool set_path(Config& config, const Value& value) {
  const auto* list = as<Value::List>(value);
  std::vector<data::DataPath> paths;
  for (const Value& element : list != nullptr ? *list : Value::List{value}) {
    const auto path = read_path(element);
    if (!path || (!paths.empty() && (path->weight > 0) != (paths[0].weight > 0))) return false;
    paths.push_back(*path);
  }
  if (paths.empty()) return false;
  config.data.path = std::move(paths);
  return true;
}

std::optional<Value> get_path(const Config& config) {
  Value::List list;
  for (const data::DataPath& path : config.data.path) {
    if (path.weight > 0) {
      list.push_back({Value::Table{{"path", "weight"}, {Value{path.path}, Value{path.weight}}}});
    } else {
      list.push_back({path.path});
    }
  }
  if (list.empty()) return std::nullopt;
  const bool alone = list.size() == 1 && config.data.path[0].weight == 0;
  return alone ? list[0] : Value{std::move(list)};
}

bool set_validation(Config& config, const Value& value) {
  if (const auto* path = as<std::string>(value); path != nullptr && !path->empty()) {
    config.data.validation = *path;
    return true;
  }
  const auto share = as_number(value);
  if (!share || *share < 0 || *share >= 1) return false;
  config.data.validation = *share;
  return true;
}

std::optional<Value> get_validation(const Config& config) {
  if (const auto* path = std::get_if<std::string>(&config.data.validation)) return Value{*path};
  return Value{std::get<double>(config.data.validation)};
}

}  // namespace

std::vector<Key> data_keys() {
  return {
      {.name = "data.path",
       .rule = "a path, a list of paths, or a list such as [{path = \"a\", weight = 0.7}, …]",
       .help =
           "text, .jsonl with \"text\" or \"messages\", tokens (.bin of nanoGPT, llm.c or "
           "Megatron, .npy), .gz "
           "or .zst of these, a pattern, or a directory of text: all files below it but hidden, "
           "binary and token ones, train.out and what other runs have written; of models that read "
           "images a set that cleave data pack made",
       .set = set_path,
       .get = get_path,
       .takes_text = true,
       .takes_lists = true,
       .otherwise = "none; needed to train",
       .example = "\"corpus.txt\""},
      text(
          "data.tokenizer", "\"bytes\", or the path of a tokenizer.json or tokenizer.model",
          "how text becomes tokens: one per byte, or by a tokenizer",
          [](auto& c) -> auto& { return c.data.tokenizer; })
          .with({.otherwise = "\"bytes\"; with model.from that of the directory",
                 .example = "\"tokenizer.json\""}),
      choice<data::TokenType>(
          "data.dtype",
          {{"auto", data::TokenType::Auto},
           {"u16", data::TokenType::U16},
           {"u32", data::TokenType::U32}},
          "tokens of a .bin file without a header; auto: u32 if it ends in .u32.bin, else u16",
          [](auto& c) -> auto& { return c.data.dtype; }),
      choice<data::Borders>(
          "data.documents", {{"joined", data::Borders::Crossed}, {"apart", data::Borders::Kept}},
          "whether tokens see the documents before their own in the same sequence",
          [](auto& c) -> auto& { return c.data.borders; })
          .with({.example = "\"apart\""}),
      {.name = "data.validation",
       .rule = "a share from 0 to below 1, or a path",
       .help = "held out from the end of the data, or data of its own",
       .set = set_validation,
       .get = get_validation,
       .example = "\"held_out.txt\""},
      images_key(),
      augment_key(),
      cache_key(),
  };
}

}  // namespace cleave::train
