#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cleave::edge {

/// How samples are shared out among clients.
struct Partitioning {
  std::string rule = "iid";  ///< a name of partition_rules()
  int clients = 1;
  double alpha = 0.5;       ///< of Dirichlet's distribution: the smaller, the more uneven
  std::int64_t labels = 2;  ///< of each client, for the rule "labels"
  std::int64_t seed = 1;
};

/// "iid": shuffled and dealt like cards. "dirichlet": of every label each client gets a share that
/// is drawn (Hsu et al., 2019). "labels": a client has samples of so many labels only. "quantity":
/// shuffled, in shares of drawn size.
std::vector<std::string_view> partition_rules();

/// [client] -> its samples, ascending; labels[i] is the label of sample i. A function of its
/// arguments alone, with the same bits on every machine. Every client has a sample: where a draw
/// leaves one without, it takes one from whoever has most. Throws UserError if there are more
/// clients than samples, or if the rule cannot be followed.
std::vector<std::vector<std::int64_t>> share_out(std::span<const int> labels,
                                                 const Partitioning& how);

}  // namespace cleave::edge
