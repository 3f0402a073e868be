#include "cleave/data/given_tokens.h"

#include <map>
#include <mutex>
#include <utility>

#include "cleave/base/check.h"

namespace cleave::data {
namespace {

/// A run looks a name up while another thread may give the tokens of the next one.
struct GivenTable {
  std::mutex mutex;
  std::map<std::string, GivenTokens, std::less<>> tokens;
};

GivenTable& given_table() {
  static GivenTable table;
  return table;
}

}  // namespace

void give_tokens(const std::string& name, GivenTokens tokens) {
  require(name.starts_with(kGivenPrefix), "tokens cannot be given as \"", name,
          "\"; begin the name with ", kGivenPrefix);
  const std::lock_guard lock(given_table().mutex);
  given_table().tokens[name] = std::move(tokens);
}

void take_back_tokens(const std::string& name) {
  const std::lock_guard lock(given_table().mutex);
  given_table().tokens.erase(name);
}

GivenTokens given_tokens(const std::string& name, std::string_view key) {
  const std::lock_guard lock(given_table().mutex);
  const auto found = given_table().tokens.find(name);
  require(found != given_table().tokens.end(), key, " is ", name,
          ", and this program has given no tokens of that name; call give_tokens() first, or name "
          "a file");
  return found->second;
}

}  // namespace cleave::data
