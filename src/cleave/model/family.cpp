#include "cleave/model/family.h"

#include <algorithm>
#include <vector>

#include "cleave/base/check.h"
#include "cleave/base/nearest.h"
#include "cleave/model/add_family.h"

namespace cleave::model {

namespace {

std::vector<const Family*>& family_table() {
  static std::vector<const Family*> table = {&gpt,   &llama, &mistral, &qwen2,  &qwen3,
                                             &olmo2, &phi3,  &smollm3, &gemma3, &vit,
                                             &cnn,   &unet,  &vlm,     &clip,   &siglip};
  return table;
}

}  // namespace

std::span<const Family* const> families() {
  return family_table();
}

void add_family(const Family& family) {
  require(std::ranges::find(family_table(), family.name, &Family::name) == family_table().end(),
          "there is a model kind \"", family.name, "\" already; give yours another name");
  family_table().push_back(&family);
}

const Family* find_family(std::string_view name, std::span<const Family* const> known) {
  std::vector<std::string_view> names;
  for (const Family* family : known) {
    if (family->name == name) return family;
    names.push_back(family->name);
  }
  throw UserError(detail::concat("there is no model kind \"", name, "\"", known_are(name, names)));
}

Graph graph_of(const ModelShape& shape, const spec::Flow& flow, std::int64_t loss_blocks) {
  check(shape);
  return shape.kind->build(shape, flow, loss_blocks);
}

}  // namespace cleave::model
