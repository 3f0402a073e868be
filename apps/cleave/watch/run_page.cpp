#include "watch/page/page.h"
#include "watch/run_history.h"
#include <nlohmann/json.hpp>

#include "cleave/report/markup.h"

namespace cleave::app {
namespace {

void replace_all(std::string& text, std::string_view what, std::string_view by) {
  for (auto at = text.find(what); at != text.npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
}

/// JSON that may stand inside a script element: no tag can begin in it.
std::string embedded(const nlohmann::json& data) {
  std::string text = data.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  replace_all(text, "<", "\\u003c");
  return text;
}

}  // namespace

std::string run_page(const std::string& title, const std::vector<RunHistory>& runs, Watch watch) {
  nlohmann::json all = nlohmann::json::array();
  for (const RunHistory& run : runs) all.push_back(to_json(run));
  std::string page(kWatchFrame);
  replace_all(page, "{{title}}", report::xml_escaped(title));
  replace_all(page, "{{style}}", kWatchStyle);
  replace_all(page, "{{script}}", kWatchScript);
  replace_all(page, "{{data}}", embedded({{"live", watch == Watch::Live}, {"runs", all}}));
  return page;
}

}  // namespace cleave::app
