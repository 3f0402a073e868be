// Every message that docs/troubleshooting.md explains is one that the program can say.

#include <fstream>
#include <iterator>
#include <sstream>

#include "docs/markdown.h"
#include "support/paths.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

namespace fs = std::filesystem;

/// All source, with the joints of string literals taken out, so that a message is found whole.
std::string all_source() {
  std::string text;
  for (const char* folder : {"src", "apps", "scripts"}) {
    for (const auto& entry : fs::recursive_directory_iterator(testing::source_path(folder))) {
      if (!entry.is_regular_file()) continue;
      const bool script = std::string_view(folder) == "scripts";
      if (script || entry.path().extension() == ".cpp" || entry.path().extension() == ".h")
        text += testing::read_page(entry.path());
    }
  }
  std::string joined;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == '"') {
      const std::size_t next = text.find_first_not_of(" \n", i + 1);
      if (next != text.npos && next > i + 1 && text[next] == '"') {
        i = next + 1;
        continue;
      }
    }
    joined += text[i++];
  }
  return joined;
}

TEST(Troubleshooting, ExplainsMessagesThatTheProgramHas) {
  const std::string source = all_source();
  std::istringstream lines(testing::read_page(testing::source_path("docs/troubleshooting.md")));
  int messages = 0;
  for (std::string line; std::getline(lines, line);) {
    for (auto at = line.find("**`"); at != line.npos; at = line.find("**`", at + 3)) {
      const auto end = line.find("`**", at);
      ASSERT_NE(end, line.npos) << line;
      const std::string message = line.substr(at + 3, end - at - 3);
      EXPECT_NE(source.find(message), source.npos) << "nothing says: " << message;
      ++messages;
    }
  }
  EXPECT_GE(messages, 10) << "the page is not being read";
}

}  // namespace
}  // namespace cleave
