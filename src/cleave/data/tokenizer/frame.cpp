#include "cleave/data/tokenizer/frame.h"

#include "cleave/base/whole_number.h"
#include "cleave/data/tokenizer/json_kinds.h"
#include "cleave/data/tokenizer/vocabulary.h"

namespace cleave::data::tokenizer {
namespace {

using MakeFrame = Frame (*)(const Json&);

std::int32_t token_number(const std::string& name, const Json& id) {
  const auto number = whole_number<std::int64_t>(id);
  Vocabulary().add(name, number);  // the same bounds as for the model's own tokens
  return static_cast<std::int32_t>(number);
}

/// "single": special tokens by name, and "Sequence" for the text itself.
Frame read_template(const Json& json) {
  Frame frame;
  bool after = false;
  for (const Json& part : list_at(json, "single")) {
    if (part.contains("Sequence")) {
      require(part["Sequence"].at("id") == "A",
              "the template of a post_processor for one text has a second one");
      require(!after, "the template of a post_processor has its text twice");
      after = true;
      continue;
    }
    const auto& name = part.at("SpecialToken").at("id").get_ref<const std::string&>();
    const Json& tokens = json.at("special_tokens");
    require(tokens.contains(name), "the template of a post_processor has \"", name,
            "\", which is none of its special_tokens");
    for (const Json& id : tokens.at(name).at("ids")) {
      (after ? frame.after : frame.before).push_back(token_number(name, id));
    }
  }
  require(after, "the template of a post_processor leaves the text out");
  return frame;
}

/// [["</s>", 2], …]: a name with its number.
std::int32_t named_id(const Json& json, const char* key) {
  return token_number(json.at(key).at(0), json.at(key).at(1));
}

Frame read_around(const Json& json) {
  return {{named_id(json, "cls")}, {named_id(json, "sep")}};
}

/// Each is put around what those before it have made.
Frame read_frames(const Json& json) {
  Frame all;
  for (const Json& part : list_at(json, "processors")) {
    Frame one = read_frame(part);
    one.before.insert(one.before.end(), all.before.begin(), all.before.end());
    all.before = std::move(one.before);
    all.after.insert(all.after.end(), one.after.begin(), one.after.end());
  }
  return all;
}

constexpr Kind<MakeFrame> kFrames[] = {
    {"Sequence", read_frames},
    {"TemplateProcessing", read_template},
    {"ByteLevel", [](const Json&) { return Frame(); }},
    {"RobertaProcessing", read_around},
    {"BertProcessing", read_around},
};

}  // namespace

Frame read_frame(const nlohmann::json& json) {
  if (json.is_null()) return {};
  return kind_of<MakeFrame>(json, "post_processor", kFrames).make(json);
}

}  // namespace cleave::data::tokenizer
