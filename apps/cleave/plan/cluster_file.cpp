#include "plan/cluster_file.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <vector>

#include "cleave/base/check.h"
#include "cleave/base/file.h"
#include "cleave/base/nearest.h"
#include "cleave/base/units.h"
#include "cleave/train/config/config_value.h"

namespace cleave::app {
namespace {

using train::Entry;

/// The number of an entry, which must be above 0.
double positive_number(const Entry& entry) {
  double number = 0;
  if (const auto* whole = std::get_if<std::int64_t>(&entry.value.is))
    number = static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(&entry.value.is)) number = *real;
  require(number > 0 && number < 1e15, entry.key, " ", entry.place, " must be a number above 0");
  return number;
}

std::string words_of(const Entry& entry) {
  const auto* text = std::get_if<std::string>(&entry.value.is);
  require(text != nullptr && !text->empty(), entry.key, " ", entry.place, " must be a text");
  return *text;
}

/// A key of a cluster file, and what it sets.
struct ClusterKey {
  std::string_view name;
  std::function<void(ClusterFile& file, const Entry& entry)> set;
};

const std::vector<ClusterKey>& cluster_keys() {
  constexpr double Tera = 1e12;
  constexpr double Giga = 1e9;
  static const std::vector<ClusterKey> keys = {
      {"like",
       [](ClusterFile& f, const Entry& e) { f.hardware = plan::find_hardware(words_of(e)); }},
      {"name", [](ClusterFile& f, const Entry& e) { f.name = words_of(e); }},
      {"devices",
       [](ClusterFile& f, const Entry& e) { f.devices = std::llround(positive_number(e)); }},
      {"node", [](ClusterFile& f,
                  const Entry& e) { f.hardware.node = static_cast<int>(positive_number(e)); }},
      {"peak_tflops",
       [](ClusterFile& f, const Entry& e) { f.hardware.peak_flops = positive_number(e) * Tera; }},
      {"matmul_tflops",
       [](ClusterFile& f, const Entry& e) { f.hardware.matmul_flops = positive_number(e) * Tera; }},
      {"memory",
       [](ClusterFile& f, const Entry& e) { f.hardware.memory = parse_bytes(words_of(e)); }},
      {"memory_gb_per_second",
       [](ClusterFile& f, const Entry& e) {
         f.hardware.memory_bandwidth = positive_number(e) * Giga;
       }},
      {"link_gb_per_second",
       [](ClusterFile& f, const Entry& e) {
         f.hardware.link_bandwidth = positive_number(e) * Giga;
       }},
      {"network_gb_per_second",
       [](ClusterFile& f, const Entry& e) {
         f.hardware.network_bandwidth = positive_number(e) * Giga;
       }},
      {"processors",
       [](ClusterFile& f, const Entry& e) {
         f.hardware.processors = static_cast<int>(positive_number(e));
       }},
      {"price_per_hour", [](ClusterFile& f, const Entry& e) { f.price = positive_number(e); }},
  };
  return keys;
}

void check_complete(const std::string& path, const ClusterFile& file) {
  const plan::Hardware& h = file.hardware;
  const auto need = [&](bool given, const char* key) {
    require(given, path, " says nothing of ", key,
            "; set it, or take what is missing from known hardware with like = \"h100-80gb\"");
  };
  require(file.devices >= 1, path, " does not say how many devices there are; set devices");
  need(h.peak_flops > 0, "peak_tflops");
  need(h.memory > 0, "memory");
  need(h.memory_bandwidth > 0, "memory_gb_per_second");
  need(h.link_bandwidth > 0, "link_gb_per_second");
  need(h.network_bandwidth > 0, "network_gb_per_second");
  require(plan::usable_memory(h) > 0, path, ": memory ", format_bytes(h.memory),
          " is less than drivers and communication take");
}

}  // namespace

void read_cluster_file(const std::string& path, ClusterFile& file) {
  // What a large product reaches of the peak, on hardware that nobody measured.
  constexpr double kSustained = 0.7;
  constexpr int kProcessors = 108;
  std::vector<Entry> entries = train::read_toml(read_text(path), path);
  // What it is like comes first, wherever it stands.
  std::ranges::stable_partition(entries, [](const Entry& entry) { return entry.key == "like"; });
  std::vector<std::string_view> names;
  for (const ClusterKey& key : cluster_keys()) names.push_back(key.name);
  for (const Entry& entry : entries) {
    const auto key = std::ranges::find(cluster_keys(), entry.key, &ClusterKey::name);
    require(key != cluster_keys().end(), entry.key, " ", entry.place, " is no key of a cluster",
            known_are(entry.key, names));
    key->set(file, entry);
    if (entry.key == "peak_tflops") file.hardware.matmul_flops = 0;
  }
  for (const Entry& entry : entries)
    if (entry.key == "matmul_tflops") file.hardware.matmul_flops = positive_number(entry) * 1e12;
  if (file.name.empty()) file.name = std::filesystem::path(path).stem().string();
  file.hardware.name = file.name;
  if (file.hardware.matmul_flops == 0)
    file.hardware.matmul_flops = kSustained * file.hardware.peak_flops;
  if (file.hardware.processors == 0) file.hardware.processors = kProcessors;
  check_complete(path, file);
}

}  // namespace cleave::app
