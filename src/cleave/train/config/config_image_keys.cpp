#include "cleave/train/config/config_image_keys.h"

#include "cleave/train/config/config_rules.h"

namespace cleave::train {
namespace {

using namespace rules;  // NOLINT(google-build-using-namespace): one table, one vocabulary

/// Which models a key is of; the others neither have nor save it.
Key only_where(bool reads_images, Key key) {
  key.get = [reads_images, get = key.get](const Config& c) -> std::optional<Value> {
    return c.model.kind->reads_images == reads_images ? get(c) : std::nullopt;
  };
  return key;
}
Key of_images(Key key) {
  return only_where(true, std::move(key));
}

}  // namespace

Key of_tokens(Key key) {
  return only_where(false, std::move(key));
}

std::vector<Key> image_keys() {
  const Whole any;  // check(ModelShape) knows more
  constexpr std::string_view kNeeded = "none; needed for kind = \"vit\" without model.preset";
  return {
      of_images(whole(
                    "model.image", any, "pixels of a side of the images",
                    [](auto& c) -> auto& { return c.model.image; })
                    .with({.otherwise = kNeeded, .example = "224"})),
      of_images(whole(
                    "model.patch", any, "pixels of a side of the patches; must divide image",
                    [](auto& c) -> auto& { return c.model.patch; })
                    .with({.otherwise = kNeeded, .example = "16"})),
      of_images(whole(
                    "model.channels", {1, 3}, "1: grey images, 3: colours",
                    [](auto& c) -> auto& { return c.model.channels; })
                    .with({.otherwise = "3", .example = "1"})),
      of_images(whole(
                    "model.classes", any, "classes that images are told apart by",
                    [](auto& c) -> auto& { return c.model.classes; })
                    .with({.otherwise = kNeeded, .example = "10"})),
      of_images(
          choice<GeluForm>(
              "model.gelu",
              {{"tanh", GeluForm::Tanh}, {"exact", GeluForm::Exact}, {"quick", GeluForm::Quick}},
              "x Φ(x) by tanh, x Φ(x) itself, or x σ(1.702 x)",
              [](auto& c) -> auto& { return c.model.gelu; })
              .with({.otherwise = "\"exact\"", .example = "\"quick\""})),
  };
}

}  // namespace cleave::train
