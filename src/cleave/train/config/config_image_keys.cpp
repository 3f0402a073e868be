#include "cleave/train/config/config_image_keys.h"

#include <algorithm>
#include <iterator>

#include "cleave/model/family.h"
#include "cleave/train/config/config_rules.h"
#include "cleave/train/config/config_sections.h"

namespace cleave::train {
namespace {

using namespace rules;  // NOLINT(google-build-using-namespace): one table, one vocabulary

/// Which models a key is of; the others neither have nor save it.
Key only_of(bool (*models)(const model::Family&), Key key) {
  key.get = [models, get = key.get](const Config& c) -> std::optional<Value> {
    return models(*c.model.kind) ? get(c) : std::nullopt;
  };
  return key;
}
Key of_images(Key key) {
  return only_of([](const model::Family& kind) { return kind.reads_images; }, std::move(key));
}
Key of_pairs(Key key) {
  return only_of([](const model::Family& kind) { return kind.pairs; }, std::move(key));
}
Key of_classes(Key key) {
  return only_of([](const model::Family& kind) { return !kind.reads_tokens; }, std::move(key));
}
Key of_both(Key key) {
  return only_of([](const model::Family& kind) { return kind.reads_images && kind.reads_tokens; },
                 std::move(key));
}

std::vector<Key> own_image_keys() {
  const Whole any;  // check(ModelShape) knows more
  constexpr std::string_view kNeeded =
      "none; needed by kinds that read images, without model.preset or model.from";
  constexpr std::string_view kNeededPatch =
      "1 for kind = \"cnn\" and \"unet\"; needed by the others that read images, without "
      "model.preset or model.from";
  return {
      of_images(whole(
                    "model.image", any, "pixels of a side of the images",
                    [](auto& c) -> auto& { return c.model.image; })
                    .with({.otherwise = kNeeded, .example = "224"})),
      of_images(whole(
                    "model.patch", any, "pixels of a side of the patches; must divide image",
                    [](auto& c) -> auto& { return c.model.patch; })
                    .with({.otherwise = kNeededPatch, .example = "16"})),
      of_images(whole(
                    "model.channels", {1, 3}, "1: grey images, 3: colours",
                    [](auto& c) -> auto& { return c.model.channels; })
                    .with({.otherwise = "3", .example = "1"})),
      of_classes(
          whole(
              "model.classes", any, "classes that images are told apart by",
              [](auto& c) -> auto& { return c.model.classes; })
              .with({.otherwise = "none; needed for kind = \"vit\", \"cnn\" or \"unet\" without "
                                  "model.preset or model.from",
                     .example = "10"})),
      of_images(
          choice<GeluForm>(
              "model.gelu",
              {{"tanh", GeluForm::Tanh}, {"exact", GeluForm::Exact}, {"quick", GeluForm::Quick}},
              "x Φ(x) by tanh, x Φ(x) itself, or x σ(1.702 x)",
              [](auto& c) -> auto& { return c.model.gelu; })
              .with({.otherwise = "\"exact\"", .example = "\"quick\""})),
      of_pairs(whole(
                   "model.features", any,
                   "by which images and texts are held against each other (clip, siglip)",
                   [](auto& c) -> auto& { return c.model.features; })
                   .with({.otherwise = "model.vision.hidden", .example = "512"})),
      of_both(whole(
                  "model.image_token", {0},
                  "what stands in a text where the rows of an image are (vlm)",
                  [](auto& c) -> auto& { return c.model.image_token; })
                  .with({.otherwise = "0", .example = "32000"})),
  };
}

Key deepstack_key() {
  const auto read = [](const Value& value) -> std::optional<std::int64_t> {
    return Whole{0}.holds(value) ? std::optional(*as<std::int64_t>(value)) : std::nullopt;
  };
  const auto write = [](std::int64_t layer) { return Value{layer}; };
  return of_both(
      one_or_list(
          "model.vision.deepstack", "a layer of the tower, counted from 0, or a list of them",
          "layers whose rows go through a merger each and are added after the language layers 0, "
          "1, … (vlm)",
          [](auto& c) -> auto& { return c.model.vision.deepstack; }, read, write)
          .with({.otherwise = "none", .example = "[5, 11, 17]"}));
}

/// The keys of the parts of models that read images and tokens.
std::vector<Key> vision_keys() {
  const Whole any;
  constexpr std::string_view kNeeded =
      "none; needed for kind = \"vlm\", \"clip\" or \"siglip\" without model.preset or model.from";
  return {
      of_both(whole(
                  "model.vision.layers", any,
                  "blocks of the tower that reads images (vlm, clip, siglip)",
                  [](auto& c) -> auto& { return c.model.vision.layers; })
                  .with({.otherwise = kNeeded, .example = "24"})),
      of_both(whole(
                  "model.vision.hidden", any, "its width",
                  [](auto& c) -> auto& { return c.model.vision.hidden; })
                  .with({.otherwise = kNeeded, .example = "1024"})),
      of_both(whole(
                  "model.vision.heads", any, "its attention heads; must divide its width",
                  [](auto& c) -> auto& { return c.model.vision.heads; })
                  .with({.otherwise = kNeeded, .example = "16"})),
      of_both(whole(
                  "model.vision.ffn", any, "its feed-forward width",
                  [](auto& c) -> auto& { return c.model.vision.ffn; })
                  .with({.otherwise = kNeeded, .example = "4096"})),
      of_both(number(
                  "model.vision.norm_eps", "a number > 0", [](double x) { return x > 0; },
                  "added to the variance in its norms",
                  [](auto& c) -> auto& { return c.model.vision.norm_eps; })
                  .with({.otherwise = "1e-05", .example = "1e-6"})),
      of_both(boolean(
                  "model.vision.class_token",
                  "as in CLIP, and the rows of the layer before the last are taken; false: as in "
                  "SigLIP",
                  [](auto& c) -> auto& { return c.model.vision.class_token; })
                  .with({.otherwise = "true", .example = "false"})),
      deepstack_key(),
      of_both(whole(
                  "model.projector.shuffle", {0},
                  "patches along a side of the squares that become one row each; 0: two linear "
                  "layers for each patch",
                  [](auto& c) -> auto& { return c.model.shuffle; })
                  .with({.otherwise = "0", .example = "4"})),
  };
}

}  // namespace

Key of_tokens(Key key) {
  return only_of([](const model::Family& kind) { return kind.reads_tokens; }, std::move(key));
}

std::vector<Key> image_keys() {
  std::vector<Key> keys = own_image_keys();
  std::ranges::move(vision_keys(), std::back_inserter(keys));
  return keys;
}

Key augment_key() {
  const auto read = [](const Value& value) -> std::optional<data::ImageChange> {
    const auto* name = as<std::string>(value);
    if (name == nullptr || (*name != "flip" && *name != "crop")) return std::nullopt;
    return *name == "flip" ? data::ImageChange::Flip : data::ImageChange::Crop;
  };
  const auto write = [](data::ImageChange change) {
    return Value{std::string(change == data::ImageChange::Flip ? "flip" : "crop")};
  };
  return of_images(one_or_list(
                       "data.augment", "\"flip\", \"crop\", or both in a list",
                       "how images change each time they are learned from: mirrored or not, moved "
                       "by up to an eighth of a side",
                       [](auto& c) -> auto& { return c.data.augment; }, read, write)
                       .with({.otherwise = "as they are", .example = "[\"flip\", \"crop\"]"}));
}

Key cache_key() {
  return of_both(boolean(
                     "data.cache",
                     "what a tower of images that does not learn gives is computed once, into a "
                     "file beside the set (vlm)",
                     [](auto& c) -> auto& { return c.model.vision.cached; })
                     .with({.otherwise = "false", .example = "true"}));
}

Key images_key() {
  return of_both(whole(
                     "data.images", {1}, "most images of a sample (vlm)",
                     [](auto& c) -> auto& { return c.data.images; })
                     .with({.otherwise = "1", .example = "4"}));
}

}  // namespace cleave::train
