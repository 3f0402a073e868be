#include <algorithm>
#include <iterator>

#include "cleave/edge/partition.h"
#include "cleave/train/config/codec_form.h"
#include "cleave/train/config/config_rules.h"
#include "cleave/train/config/config_sections.h"
#include "cleave/train/config/owner_form.h"

namespace cleave::train {
namespace {

using namespace rules;  // NOLINT(google-build-using-namespace): as in config_schema.cpp

/// "10", or "2 epochs".
bool set_sync(Config& config, const Value& value) {
  std::int64_t count = 0;
  bool epochs = false;
  if (const auto* steps = as<std::int64_t>(value)) {
    count = *steps;
  } else if (const auto* text = as<std::string>(value)) {
    const std::size_t digits = std::min(text->find_first_not_of("0123456789"), text->size());
    const std::string unit = text->substr(digits);
    if (digits == 0 || digits > 9 || (unit != " epochs" && unit != " epoch")) return false;
    count = std::stoll(text->substr(0, digits));
    epochs = true;
  }
  if (count < 1) return false;
  config.edge.sync_every = count;
  config.edge.sync_epochs = epochs;
  return true;
}

std::optional<Value> get_sync(const Config& config) {
  const EdgeConfig& edge = config.edge;
  if (!edge.averages()) return std::nullopt;
  if (!edge.sync_epochs) return Value{edge.sync_every};
  return Value{std::to_string(edge.sync_every) + (edge.sync_every == 1 ? " epoch" : " epochs")};
}

/// A key that other runs neither have nor show.
Key averaging(Key key, std::string_view otherwise, std::string_view example) {
  key.get = [get = std::move(key.get)](const Config& config) {
    return config.edge.averages() ? get(config) : std::nullopt;
  };
  return std::move(key).with({.otherwise = otherwise, .example = example});
}

template <class Names>
Choices<std::string> named(const Names& names) {
  Choices<std::string> choices;
  for (const std::string_view name : names) choices.emplace_back(name, std::string(name));
  return choices;
}

std::vector<std::string_view> outer_names() {
  std::vector<std::string_view> names;
  for (const edge::OuterKind& kind : edge::outer_kinds()) names.push_back(kind.name);
  return names;
}

/// A number that is not given unless it is said.
template <class At>
Key optional_number(std::string_view name, std::string rule, std::string_view help, At at,
                    double below) {
  return {.name = name,
          .rule = std::move(rule),
          .help = help,
          .set =
              [=](Config& config, const Value& value) {
                const auto real = as_number(value);
                if (!real || *real < 0 || *real >= below) return false;
                at(config) = *real;
                return true;
              },
          .get = [=](const Config& config) -> std::optional<Value> {
            const std::optional<double> number = at(config);
            if (!number) return std::nullopt;
            return Value{*number};
          }};
}

std::vector<Key> client_keys() {
  return {
      averaging(whole(
                    "edge.clients", {0, 1 << 20}, "how many share data.path out among themselves",
                    [](auto& c) -> auto& { return c.edge.clients; }),
                "those of [[edge.owner]]", "10"),
      averaging(whole(
                    "edge.sample", {0, 1 << 20}, "clients that take part in each round; 0: all",
                    [](auto& c) -> auto& { return c.edge.sample; }),
                "0", "5"),
      averaging(choice<std::string>(
                    "edge.partition", named(edge::partition_rules()),
                    "how sequences are shared out among clients; a label is a data.path with a "
                    "weight",
                    [](auto& c) -> auto& { return c.edge.partition; }),
                "\"iid\"", "\"dirichlet\""),
      averaging(number(
                    "edge.alpha", "a number > 0", above_zero,
                    "of dirichlet and quantity: the smaller, the more uneven",
                    [](auto& c) -> auto& { return c.edge.alpha; }),
                "0.5", "0.1"),
      averaging(whole(
                    "edge.labels", {1, 1 << 20}, "of each client, for the partition \"labels\"",
                    [](auto& c) -> auto& { return c.edge.labels; }),
                "2", "3"),
      averaging(choice<bool>(
                    "edge.weights", {{"samples", true}, {"equal", false}},
                    "what a client counts for: its sequences, or as much as any other",
                    [](auto& c) -> auto& { return c.edge.weigh_samples; }),
                "\"samples\"", "\"equal\""),
      averaging(whole(
                    "edge.arrival", {0}, "shuffles the order in which clients answer; 0: in order",
                    [](auto& c) -> auto& { return c.edge.arrival; }),
                "0", "7"),
  };
}

std::vector<Key> outer_keys() {
  return {
      averaging(whole(
                    "edge.fragments", {1, 1024}, "parts of the model; rounds average one by turns",
                    [](auto& c) -> auto& { return c.edge.fragments; }),
                "1", "4"),
      averaging(choice<std::string>(
                    "edge.outer", named(outer_names()),
                    "what the weights of all make of the clients' updates",
                    [](auto& c) -> auto& { return c.edge.outer; }),
                "\"mean\"", "\"nesterov\""),
      averaging(optional_number(
                    "edge.outer_lr", "a number ≥ 0", "how far they follow",
                    [](auto& c) -> auto& { return c.edge.outer_lr; }, 1e9),
                "1; 0.7 for nesterov, 0.01 for adam and yogi", "0.7"),
      averaging(optional_number(
                    "edge.outer_momentum", "a number from 0 to below 1",
                    "of momentum, nesterov, adam and yogi",
                    [](auto& c) -> auto& { return c.edge.outer_momentum; }, 1),
                "0.9", "0.9"),
      averaging(whole(
                    "edge.faulty", {0, 1 << 20},
                    "clients that \"trimmed-mean\" and \"krum\" let send anything",
                    [](auto& c) -> auto& { return c.edge.faulty; }),
                "1", "2"),
      averaging(number(
                    "edge.proximal", "a number ≥ 0", not_negative,
                    "pulls clients to the weights that they began with (FedProx)",
                    [](auto& c) -> auto& { return c.edge.proximal; }),
                "0.0", "0.01"),
      averaging(choice<bool>(
                    "edge.sums", {{"ordered", false}, {"fixed", true}},
                    "in client order, or in fixed point with the same bits in any order",
                    [](auto& c) -> auto& { return c.edge.fixed_sums; }),
                "\"ordered\"", "\"fixed\""),
      averaging(boolean(
                    "edge.in_order",
                    "clients with layers take turns at one copy of the server's (SplitFed's second "
                    "version); their own are averaged",
                    [](auto& c) -> auto& { return c.edge.in_order; }),
                "false", "true"),
      averaging(boolean(
                    "edge.keep_slots",
                    "each client's optimizer goes on where it was; else it begins every round anew",
                    [](auto& c) -> auto& { return c.edge.keep_slots; }),
                "false", "true"),
  };
}

bool is_share(double x) {
  return x >= 0 && x < 1;
}

std::optional<std::string> read_absent_client(const Value& value) {
  const auto* name = as<std::string>(value);
  return name == nullptr || name->empty() ? std::nullopt : std::optional(*name);
}

/// What happens to updates on their way.
std::vector<Key> update_keys() {
  return {
      {.name = "edge.codec",
       .rule = "\"none\", \"bf16\", \"int8\", \"int4\" or \"topk\"; in a split run also {forward = "
               "\"int8\", backward = \"bf16\"}",
       .help =
           "how updates travel, or what goes over the cuts of a split run: as it is, bf16, 8 or 4 "
           "bits with a scale, or the largest tenth",
       .set = set_codec,
       .get = get_codec,
       .takes_tables = true,
       .otherwise = "\"none\"",
       .example = "\"int8\""},
      averaging(number(
                    "edge.drop", "a number from 0 to below 1", is_share,
                    "chance of a client of a round not to answer, drawn from the seed",
                    [](auto& c) -> auto& { return c.edge.drop; }),
                "0.0", "0.2"),
      averaging(one_or_list(
                    "edge.absent",
                    "clients with rounds from 1, such as [\"clinic-b 3-7\", \"clinic-c 5\"]",
                    "clients that do not answer in these rounds; cleave serve adds those it lost",
                    [](auto& c) -> auto& { return c.edge.absent; }, read_absent_client,
                    [](const std::string& name) { return Value{name}; }),
                "none", "[\"clinic-b 3-7\"]"),
      averaging(whole(
                    "edge.quorum", {1, 1 << 20}, "clients that must answer in every round",
                    [](auto& c) -> auto& { return c.edge.quorum; }),
                "1", "3"),
      averaging(boolean(
                    "edge.secure", "updates are masked: the server learns their sum alone",
                    [](auto& c) -> auto& { return c.edge.secure; }),
                "false", "true"),
  };
}

std::vector<Key> privacy_keys() {
  return {
      averaging(number(
                    "edge.clip", "a number ≥ 0", not_negative,
                    "longer updates are shortened to this; 0: none is",
                    [](auto& c) -> auto& { return c.edge.clip; }),
                "0.0", "1.0"),
      averaging(number(
                    "edge.noise", "a number ≥ 0", not_negative,
                    "deviation of the noise on the sum, in multiples of edge.clip",
                    [](auto& c) -> auto& { return c.edge.noise; }),
                "0.0", "1.1"),
      averaging(number(
                    "edge.example_clip", "a number ≥ 0", not_negative,
                    "longer gradients of single examples are shortened to this",
                    [](auto& c) -> auto& { return c.edge.example_clip; }),
                "0.0", "1.0"),
      averaging(number(
                    "edge.example_noise", "a number ≥ 0", not_negative,
                    "deviation of the noise that a client adds to the sum of a step's examples, in "
                    "multiples of edge.example_clip",
                    [](auto& c) -> auto& { return c.edge.example_noise; }),
                "0.0", "1.1"),
      averaging(
          number(
              "edge.delta", "a number from 0 to below 1", is_share,
              "chance with which ε may not hold", [](auto& c) -> auto& { return c.edge.delta; }),
          "1e-05", "1e-6"),
      averaging(number(
                    "edge.epsilon", "a number ≥ 0", not_negative,
                    "what all rounds may cost at most; 0: whatever they do",
                    [](auto& c) -> auto& { return c.edge.epsilon; }),
                "0.0", "8.0"),
  };
}

std::vector<Key> owner_keys() {
  return {
      {.name = "edge.owner",
       .rule = "tables [[edge.owner]] with name, role, memory, holds, sends, data, layers, devices",
       .help = "whose devices take part, what they hold and what may leave them: docs/edge.md",
       .set = set_owners,
       .get = get_owners,
       .otherwise = "none",
       .example = "[{name = \"clinic\", layers = [1, 1]}, {name = \"hub\", role = \"server\"}]"},
      {.name = "edge.central",
       .rule = "true or false",
       .help = "one device plays all owners, with the same bits",
       .set =
           [](Config& c, const Value& value) {
             const auto* truth = as<bool>(value);
             if (truth != nullptr) c.edge.central = *truth;
             return truth != nullptr;
           },
       .get = [](const Config& c) -> std::optional<Value> {
         if (c.edge.owners.empty()) return std::nullopt;
         return Value{c.edge.central};
       },
       .otherwise = "false",
       .example = "true"},
      {.name = "edge.sync_every",
       .rule = "a whole number ≥ 1 of steps, or a text such as \"2 epochs\"",
       .help = "local steps of every client between averages; train.steps counts rounds then",
       .set = set_sync,
       .get = get_sync,
       .otherwise = "none: nothing is averaged",
       .example = "\"1 epoch\""},
  };
}

}  // namespace

std::vector<Key> edge_keys() {
  std::vector<Key> keys;
  for (auto group : {owner_keys, client_keys, outer_keys, update_keys, privacy_keys})
    std::ranges::move(group(), std::back_inserter(keys));
  return keys;
}

}  // namespace cleave::train
