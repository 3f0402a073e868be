#include "cleave/model/family.h"

#include <array>

#include "cleave/base/check.h"

namespace cleave::model {

std::span<const Family* const> families() {
  static constexpr std::array<const Family*, 8> kFamilies = {&gpt,   &llama, &mistral, &qwen2,
                                                             &qwen3, &olmo2, &phi3,    &smollm3};
  return kFamilies;
}

const Family* find_family(std::string_view name, std::span<const Family* const> known) {
  std::string names;
  for (const Family* family : known) {
    if (family->name == name) return family;
    names += detail::concat(names.empty() ? "" : ", ", family->name);
  }
  throw UserError(detail::concat("there is no model kind \"", name, "\"; known are ", names));
}

Graph graph_of(const ModelShape& shape, const spec::Flow& flow, std::int64_t loss_blocks) {
  check(shape);
  return shape.kind->build(shape, flow, loss_blocks);
}

}  // namespace cleave::model
