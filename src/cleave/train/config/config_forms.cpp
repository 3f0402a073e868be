#include "cleave/train/config/config_forms.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "cleave/base/units.h"
#include "cleave/train/config/config_rules.h"
#include "cleave/train/config/rate_curve.h"

namespace cleave::train {

using namespace rules;  // NOLINT(google-build-using-namespace): as in config_schema.cpp

// Families are looked up every time: a program may add some of its own.
bool set_family(Config& config, const Value& value) {
  const auto* name = as<std::string>(value);
  const auto known = model::families();
  const auto found =
      name == nullptr ? known.end() : std::ranges::find(known, *name, &model::Family::name);
  if (found == known.end()) return false;
  config.model.kind = *found;
  return true;
}

std::optional<Value> get_family(const Config& config) {
  return Value{std::string(config.model.kind->name)};
}

std::string family_rule() {
  std::string rule;
  const auto known = model::families();
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (i > 0) rule += i + 1 == known.size() ? " or " : ", ";
    rule += detail::concat('"', known[i]->name, '"');
  }
  return rule;
}

std::optional<std::int64_t> read_bytes(const Value& value) {
  if (const auto* i = as<std::int64_t>(value)) return *i > 0 ? std::optional(*i) : std::nullopt;
  const auto* text = as<std::string>(value);
  if (text == nullptr) return std::nullopt;
  try {
    const std::int64_t bytes = parse_bytes(*text);
    return bytes > 0 ? std::optional(bytes) : std::nullopt;
  } catch (const UserError&) {
    return std::nullopt;  // the caller's message states the rule, with the place
  }
}

Value write_bytes(std::int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (unit < 4 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return {fmt::format("{}{}", bytes, kUnits[unit])};
}

/// A digit or more behind the colon: which accelerator it is shows when it is opened.
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

/// "f=5ms,i=5ms,w=5ms", in any order, each once; and "per=layer" or "per=device".
bool set_emulation(Config& config, const Value& value) {
  const auto* text = as<std::string>(value);
  if (text == nullptr) return false;
  std::optional<double> f, i, w;
  std::optional<bool> per_layer;
  for (std::string_view rest = *text; !rest.empty();) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view part = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    if (!per_layer && (part == "per=layer" || part == "per=device")) {
      per_layer = part == "per=layer";
      continue;
    }
    if (part.size() < 3 || part[1] != '=') return false;
    std::optional<double>* place = part[0] == 'f'   ? &f
                                   : part[0] == 'i' ? &i
                                   : part[0] == 'w' ? &w
                                                    : nullptr;
    if (place == nullptr || place->has_value()) return false;
    try {
      *place = parse_seconds(part.substr(2));
    } catch (const UserError&) {
      return false;
    }
  }
  if (!f || !i || !w) return false;
  config.devices.emulate = Emulation{*f, *i, *w, per_layer.value_or(false)};
  return true;
}

std::optional<Value> get_emulation(const Config& config) {
  if (!config.devices.emulate) return std::nullopt;
  const auto [f, i, w, per_layer] = *config.devices.emulate;
  return Value{fmt::format("f={}s,i={}s,w={}s{}", f, i, w, per_layer ? ",per=layer" : "")};
}

namespace {

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

}  // namespace

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

bool set_betas(Config& config, const Value& value) {
  const auto* list = as<Value::List>(value);
  if (list == nullptr || list->size() != 2) return false;
  std::array<double, 2> betas{};
  for (int i = 0; i < 2; ++i) {
    const auto beta = as_number((*list)[i]);
    if (!beta || *beta < 0 || *beta >= 1) return false;
    betas[i] = *beta;
  }
  config.train.betas = betas;
  return true;
}

std::optional<Value> get_betas(const Config& config) {
  Value::List list;
  for (double beta : config.train.betas) list.push_back({beta});
  return Value{std::move(list)};
}

std::optional<std::string> read_name(const Value& value) {
  const auto* name = as<std::string>(value);
  return name == nullptr || name->empty() ? std::nullopt : std::optional(*name);
}

bool set_momentum(Config& config, const Value& value) {
  const auto momentum = as_number(value);
  if (!momentum || *momentum < 0 || *momentum >= 1) return false;
  config.train.momentum = *momentum;
  return true;
}

std::optional<Value> get_momentum(const Config& config) {
  if (!config.train.momentum) return std::nullopt;
  return Value{*config.train.momentum};
}

bool set_curve(Config& config, const Value& value) {
  const auto* name = as<std::string>(value);
  if (name == nullptr || find_curve(*name) == nullptr) return false;
  config.train.schedule = *name;
  return true;
}

std::string curve_rule() {
  std::string rule = "one of";
  for (const RateCurve& curve : rate_curves())
    rule += detail::concat(rule.ends_with("of") ? " \"" : ", \"", curve.name, "\"");
  return rule;
}

bool set_order(Config& config, const Value& value) {
  const auto* text = as<std::string>(value);
  const auto order = text == nullptr ? std::nullopt : parse_axis_order(*text);
  if (!order) return false;
  config.parallel.order = *order;
  return true;
}

std::optional<Value> get_order(const Config& config) {
  return Value{to_string(config.parallel.order)};
}

bool set_grid(Config& config, const Value& value) {
  const auto* text = as<std::string>(value);
  if (text == nullptr || (*text != "one" && *text != "any")) return false;
  config.parallel.any_grid = *text == "any";
  return true;
}

std::optional<Value> get_grid(const Config& config) {
  return Value{std::string(config.parallel.any_grid ? "any" : "one")};
}

namespace {

constexpr std::array<std::pair<std::string_view, schedule::Offload>, 2> kOffload = {
    {{"none", schedule::Offload::Nothing}, {"activations", schedule::Offload::Activations}}};

}  // namespace

bool set_offload(Config& config, const Value& value) {
  if (is_auto(value)) {
    config.parallel.offload.reset();
    return true;
  }
  const auto* name = as<std::string>(value);
  if (name == nullptr) return false;
  const auto* known = std::ranges::find(kOffload, *name, [](const auto& k) { return k.first; });
  if (known == kOffload.end()) return false;
  config.parallel.offload = known->second;
  return true;
}

std::optional<Value> get_offload(const Config& config) {
  if (!config.parallel.offload) return Value{std::string(kAuto)};
  const auto* known =
      std::ranges::find(kOffload, *config.parallel.offload, [](const auto& k) { return k.second; });
  return Value{std::string(known->first)};
}

bool set_partition(Config& config, const Value& value) {
  if (is_auto(value)) {
    config.parallel.partition.reset();
    return true;
  }
  const auto* list = as<Value::List>(value);
  if (list == nullptr || list->empty()) return false;
  std::vector<std::int64_t> layers;
  for (const Value& element : *list) {
    if (!Whole{0}.holds(element)) return false;
    layers.push_back(*as<std::int64_t>(element));
  }
  config.parallel.partition = std::move(layers);
  return true;
}

std::optional<Value> get_partition(const Config& config) {
  if (!config.parallel.partition) return Value{std::string(kAuto)};
  Value::List list;
  for (std::int64_t layers : *config.parallel.partition) list.push_back({layers});
  return Value{std::move(list)};
}

namespace {

constexpr std::array<std::pair<std::string_view, schedule::Recompute>, 3> kRecompute = {
    {{"none", schedule::Recompute::None},
     {"full", schedule::Recompute::Full},
     {"selective", schedule::Recompute::Selective}}};

}  // namespace

bool set_recompute(Config& config, const Value& value) {
  if (is_auto(value)) {
    config.parallel.recompute.reset();
    return true;
  }
  const auto* list = as<Value::List>(value);
  std::vector<schedule::Recompute> layers;
  for (const Value& element : list != nullptr ? *list : Value::List{value}) {
    const auto* name = as<std::string>(element);
    if (name == nullptr) return false;
    const auto* known = std::ranges::find(kRecompute, *name, [](const auto& k) { return k.first; });
    if (known == kRecompute.end()) return false;
    layers.push_back(known->second);
  }
  if (layers.empty()) return false;
  config.parallel.recompute = std::move(layers);
  return true;
}

std::optional<Value> get_recompute(const Config& config) {
  if (!config.parallel.recompute) return Value{std::string(kAuto)};
  Value::List list;
  for (const schedule::Recompute layer : *config.parallel.recompute) {
    const auto* known =
        std::ranges::find(kRecompute, layer, [](const auto& k) { return k.second; });
    list.push_back({std::string(known->first)});
  }
  return list.size() == 1 ? list[0] : Value{std::move(list)};
}

}  // namespace cleave::train
