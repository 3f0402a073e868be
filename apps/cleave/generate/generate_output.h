#pragma once

#include <string>

#include "cleave/base/utf8.h"
#include "cleave/train/generate/generate.h"

namespace cleave::app {

/// Writes text as it comes, so that one can read along; or all at the end as one JSON object.
class GenerateOutput : public train::GenerateObserver {
 public:
  enum class Style : std::uint8_t { Text, Json };

  enum class Prompts : std::uint8_t { Shown, LeftOut };

  GenerateOutput(Style style, Prompts prompts) : style_(style), prompts_(prompts) {}

  void on_begin(const std::string& prompt) override;
  void on_text(std::string_view bytes) override;
  void on_end(const train::GeneratedText& text) override;
  void finish(const train::GenerateReport& report, std::int64_t tokens);

 private:
  Style style_;
  Prompts prompts_;    ///< in text; JSON always has them
  Utf8Stream stream_;  ///< bytes wait until they are a character
  bool first_ = true;
};

}  // namespace cleave::app
