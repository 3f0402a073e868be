#include "cleave/train/keep/stripe.h"

#include <cstring>

#include "cleave/base/check.h"

namespace cleave::train {
namespace {

bool joins(const Stripe& stripe, const TensorRun& run) {
  if (stripe.part != run.part || stripe.parameter != run.parameter || stripe.length != run.length)
    return false;
  if (stripe.count == 1) return run.first >= stripe.first + stripe.length;
  return run.first == stripe.first + stripe.count * stripe.stride &&
         run.at == stripe.at + stripe.count * stripe.pitch;
}

}  // namespace

std::vector<Stripe> stripes_of(std::span<const TensorRun> runs) {
  std::vector<Stripe> stripes;
  for (const TensorRun& run : runs) {
    if (stripes.empty() || !joins(stripes.back(), run)) {
      stripes.push_back({.part = run.part,
                         .parameter = run.parameter,
                         .first = run.first,
                         .length = run.length,
                         .count = 1,
                         .at = run.at});
      continue;
    }
    Stripe& last = stripes.back();
    if (last.count == 1) {
      last.stride = run.first - last.first;
      last.pitch = run.at - last.at;
    }
    ++last.count;
  }
  return stripes;
}

std::string to_bytes(std::span<const Stripe> stripes) {
  const auto bytes = std::as_bytes(stripes);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<Stripe> stripes_in(const std::string& bytes) {
  require(bytes.size() % sizeof(Stripe) == 0, "another device describes its state in ",
          bytes.size(), " bytes, which are no stripes");
  std::vector<Stripe> stripes(bytes.size() / sizeof(Stripe));
  if (!bytes.empty()) std::memcpy(stripes.data(), bytes.data(), bytes.size());
  return stripes;
}

}  // namespace cleave::train
