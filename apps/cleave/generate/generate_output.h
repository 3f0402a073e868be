#pragma once

#include <string>

#include "cleave/base/utf8.h"
#include "cleave/train/generate/generate.h"

namespace cleave::app {

/// Writes text as it comes, so that one can read along; or all at the end as one JSON object.
class GenerateOutput : public train::GenerateObserver {
 public:
  enum class Style : std::uint8_t { Text, Json };

  GenerateOutput(const train::GenerateOptions& options, Style style)
      : options_(options), style_(style) {}

  void on_ready(train::Tokens tokens) override;
  void on_token(std::int32_t token) override;
  void finish(const train::GenerateReport& report);

 private:
  void emit(const std::string& piece);
  void write_json(const train::GenerateReport& report) const;
  void write_summary(const train::GenerateReport& report) const;

  const train::GenerateOptions& options_;
  Style style_;
  train::Tokens tokens_ = train::Tokens::Bytes;
  Utf8Stream stream_;  ///< bytes wait until they are a character
  std::string text_;   ///< what came after the prompt
};

}  // namespace cleave::app
