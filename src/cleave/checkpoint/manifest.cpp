#include "cleave/checkpoint/manifest.h"

#include <charconv>

#include <nlohmann/json.hpp>

#include "cleave/base/check.h"
#include "cleave/base/file.h"
#include "cleave/base/hash.h"
#include "cleave/base/shallow_json.h"
#include "cleave/base/whole_number.h"

namespace cleave::checkpoint {
namespace {

using nlohmann::json;

constexpr std::string_view kFormat = "cleave checkpoint 1";

std::string checksum(const json& body) {
  const std::string text = body.dump();
  return to_hex(hash_of(std::as_bytes(std::span(text))));
}

std::uint64_t from_hex(const std::string& text) {
  std::uint64_t hash = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), hash, 16);
  if (error != std::errc() || end != text.data() + text.size() || text.size() != 16) {
    throw std::invalid_argument(text);
  }
  return hash;
}

json to_value(const Manifest::Entry& entry) {
  json value = {{"file", entry.file}, {"bytes", entry.bytes}, {"head", to_hex(entry.head)}};
  json tensors = json::array();
  for (const auto& [name, sum] : entry.tensors) {
    tensors.push_back({{"name", name}, {"sum", to_hex(sum)}});
  }
  value["tensors"] = std::move(tensors);
  return value;
}

Manifest::Entry to_entry(const json& value) {
  Manifest::Entry entry{.file = value.at("file"),
                        .bytes = whole_number<std::int64_t>(value.at("bytes")),
                        .head = from_hex(value.at("head")),
                        .tensors = {}};
  // A name, never a path: a manifest must not make us read elsewhere.
  if (entry.file.find('/') != std::string::npos) throw std::invalid_argument(entry.file);
  for (const json& tensor : value.at("tensors")) {
    entry.tensors.push_back({.name = tensor.at("name"), .sum = from_hex(tensor.at("sum"))});
  }
  return entry;
}

Manifest parse_manifest(json root) {
  const std::string stated = root.at("checksum");
  root.erase("checksum");
  if (stated != checksum(root)) throw std::invalid_argument("checksum");
  if (root.at("format") != kFormat) throw std::invalid_argument("format");
  Manifest manifest{.step = whole_number<std::int64_t>(root.at("step")), .files = {}};
  for (const json& value : root.at("files")) manifest.files.push_back(to_entry(value));
  return manifest;
}

}  // namespace

std::string to_json(const Manifest& manifest) {
  json root = {{"format", kFormat}, {"step", manifest.step}, {"files", json::array()}};
  for (const Manifest::Entry& entry : manifest.files) root["files"].push_back(to_value(entry));
  root["checksum"] = checksum(root);
  return root.dump(1) + "\n";
}

Manifest read_manifest(const std::filesystem::path& file) {
  const std::string text = read_text(file);
  try {
    return parse_manifest(parse_shallow<json>(text));
  } catch (const std::exception&) {
    throw UserError(detail::concat(file.string(),
                                   " is damaged or from another version of cleave; use an older "
                                   "checkpoint"));
  }
}

std::string to_json(const CheckpointState& state) {
  const json root = {{"step", state.step},       {"data_position", state.data_position},
                     {"seed", state.seed},       {"config", state.config},
                     {"version", state.version}, {"data", state.data}};
  return root.dump(1) + "\n";
}

CheckpointState read_state(const std::filesystem::path& file) {
  const std::string text = read_text(file);
  try {
    const json root = parse_shallow<json>(text);
    return {.step = whole_number<std::int64_t>(root.at("step")),
            .data_position = whole_number<std::int64_t>(root.at("data_position")),
            .seed = whole_number<std::int64_t>(root.at("seed")),
            .config = root.at("config"),
            .version = root.at("version"),
            .data = root.value("data", "")};
  } catch (const std::exception&) {
    throw UserError(detail::concat(file.string(), " is damaged; use an older checkpoint"));
  }
}

}  // namespace cleave::checkpoint
