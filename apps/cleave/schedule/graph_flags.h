#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cleave/schedule/program.h"

namespace cleave::app {

/// The edges of "0>1,1>3", or of a file that has them, separated by commas, blanks or lines; #
/// begins a comment. Throws UserError.
std::vector<schedule::Edge> parse_graph(const std::string& text);

/// How many stages the edges of a graph are between, or `given`. Throws UserError if no edge
/// names one of them: a number that was left out is taken for a slip.
int stages_of(const std::vector<schedule::Edge>& graph, std::optional<int> given);

/// The stages of "0,1".
std::vector<int> parse_frozen(const std::string& text);

/// "0:1,0:3": stages and the microbatches that they have no part in; ascending, each once.
std::vector<schedule::Absence> parse_absent(const std::string& text);

/// "0:4,1:2" as replicas of each of so many stages, one where nothing is said; empty: of all one.
std::vector<int> parse_replicas(const std::string& text, int stages);

}  // namespace cleave::app
