#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "cleave/base/units.h"
#include "cleave/train/config/config_forms.h"
#include "cleave/train/config/config_rules.h"
#include "cleave/train/config/config_sections.h"

namespace cleave::train {
namespace {

using namespace rules;  // NOLINT(google-build-using-namespace): one table, one vocabulary

/// A digit or more after the colon: which accelerator it is shows when it is opened.
std::optional<std::string> read_device_kind(const Value& value) {
  const auto* text = as<std::string>(value);
  if (text == nullptr) return std::nullopt;
  if (*text == "cpu" || *text == "opencl") return *text;
  const std::string_view number =
      std::string_view(*text).substr(std::min<std::size_t>(7, text->size()));
  const bool digits = !number.empty() && number.size() <= 4 &&
                      number.find_first_not_of("0123456789") == std::string_view::npos;
  return text->starts_with("opencl:") && digits ? std::optional(*text) : std::nullopt;
}

/// Bytes per second from "4GB/s"; nothing from what is no rate, or none.
std::optional<double> read_rate(std::string_view text) {
  if (!text.ends_with("/s")) return std::nullopt;
  const auto bytes = static_cast<double>(parse_bytes(text.substr(0, text.size() - 2)));
  return bytes > 0 ? std::optional(bytes) : std::nullopt;
}

/// "f=5ms,i=5ms,w=5ms", in any order, each once; "link=20ms"; "host=4GB/s"; and "per=layer" or
/// "per=device".
bool set_emulation(Config& config, const Value& value) {
  const auto* text = as<std::string>(value);
  if (text == nullptr) return false;
  std::optional<double> f, i, w, link, host;
  std::optional<bool> per_layer;
  for (std::string_view rest = *text; !rest.empty();) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view part = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    if (!per_layer && (part == "per=layer" || part == "per=device")) {
      per_layer = part == "per=layer";
      continue;
    }
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) return false;
    const std::string_view name = part.substr(0, equals);
    std::optional<double>* place = name == "f"      ? &f
                                   : name == "i"    ? &i
                                   : name == "w"    ? &w
                                   : name == "link" ? &link
                                   : name == "host" ? &host
                                                    : nullptr;
    if (place == nullptr || place->has_value()) return false;
    try {
      const std::string_view given = part.substr(equals + 1);
      *place = place == &host ? read_rate(given) : parse_seconds(given);
    } catch (const UserError&) {
      return false;
    }
    if (!place->has_value()) return false;
  }
  if (!f || !i || !w) return false;
  config.devices.emulate =
      Emulation{*f, *i, *w, link.value_or(0), host.value_or(0), per_layer.value_or(false)};
  return true;
}

std::optional<Value> get_emulation(const Config& config) {
  if (!config.devices.emulate) return std::nullopt;
  const auto [f, i, w, link, host, per_layer] = *config.devices.emulate;
  return Value{fmt::format(
      "f={}s,i={}s,w={}s{}{}{}", f, i, w, link > 0 ? fmt::format(",link={}s", link) : "",
      host > 0 ? fmt::format(",host={:.0f}B/s", host) : "", per_layer ? ",per=layer" : "")};
}

}  // namespace

std::vector<Key> devices_keys() {
  return {
      whole(
          "devices.count", {1, 1 << 20}, "devices of the run",
          [](auto& c) -> auto& { return c.devices.count; })
          .with({.otherwise = "the product of the axes of [parallel], or the MPI ranks",
                 .example = "4"}),
      one_or_list(
          "devices.memory", "a size such as \"96MiB\", or a list with one for each device",
          "budget of tensor memory", [](auto& c) -> auto& { return c.devices.memory; }, read_bytes,
          write_bytes)
          .with({.otherwise = "no budget", .example = "\"96MiB\""}),
      one_or_list(
          "devices.host_memory", "a size such as \"1GiB\", or a list with one for each device",
          "budget of what parallel.offload moves out, on the host or on a disk, and of messages of "
          "accelerators",
          [](auto& c) -> auto& { return c.devices.host_memory; }, read_bytes, write_bytes)
          .with({.otherwise = "no budget", .example = "\"1GiB\""}),
      text(
          "devices.spill", "a path", "directory of a disk for what parallel.offload moves out",
          [](auto& c) -> auto& { return c.devices.spill; })
          .with({.otherwise = "the host's memory", .example = "\"/scratch\""}),
      one_or_list(
          "devices.kind", "\"cpu\", \"opencl\" or \"opencl:N\", or a list with one for each device",
          "what devices compute with: processors, or accelerators as `cleave doctor` counts them",
          [](auto& c) -> auto& { return c.devices.kind; }, read_device_kind,
          [](const std::string& kind) { return Value{kind}; })
          .with({.otherwise = "\"cpu\"", .example = "\"opencl\""}),
      whole(
          "devices.threads", {1, 4096}, "threads of each device",
          [](auto& c) -> auto& { return c.devices.threads; }),
      one_or_list(
          "devices.speed", "a number > 0, or a list with one for each device",
          "relative speed of emulated devices", [](auto& c) -> auto& { return c.devices.speed; },
          [](const Value& v) {
            const auto speed = as_number(v);
            return speed && *speed > 0 ? speed : std::nullopt;
          },
          [](double speed) { return Value{speed}; })
          .with({.otherwise = "1 for all", .example = "[1, 1, 0.5, 1]"}),
      choice<Transport>(
          "devices.transport",
          {{"local", Transport::Local}, {"mpi", Transport::Mpi}, {"tcp", Transport::Tcp}},
          "threads of one process, MPI ranks, or programs that join over a network",
          [](auto& c) -> auto& { return c.devices.transport; })
          .with({.otherwise = "\"mpi\" under mpirun and srun, \"tcp\" with cleave serve, else "
                              "\"local\"",
                 .example = "\"local\""}),
      boolean(
          "devices.pin", "keep devices that are threads on cores of their own",
          [](auto& c) -> auto& { return c.devices.pin; }),
      {.name = "devices.emulate",
       .rule = "times such as \"f=5ms,i=5ms,w=5ms\"",
       .help = "sleep instead of computing: per device and microbatch, or with \",per=layer\" "
               "after them per layer and sequence; with \",link=20ms\" messages take so long, "
               "with \",host=4GB/s\" parallel.offload moves that fast",
       .set = set_emulation,
       .get = get_emulation,
       .otherwise = "off: devices compute",
       .example = "\"f=5ms,i=5ms,w=5ms\""},
  };
}

}  // namespace cleave::train
