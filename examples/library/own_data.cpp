// Data of your own: tokens that are computed where they are read, so that no file is needed.
// Here: ten bytes a line, "07+35=042\n", for all pairs of two-digit numbers in a shuffled order.

#include <string>

#include "train_with.h"

namespace {

constexpr std::int64_t kPairs = 10'000;
constexpr std::int64_t kLine = 10;

char digit(std::int64_t number, std::int64_t place) {
  return static_cast<char>('0' + number / place % 10);
}

char letter(std::int64_t offset) {
  const std::int64_t pair = offset / kLine * 7919 % kPairs;  // 7919 has no divisor in common
  const std::int64_t a = pair / 100, b = pair % 100, sum = a + b;
  const char line[kLine] = {
      digit(a, 10),    digit(a, 1),    '+',           digit(b, 10), digit(b, 1), '=',
      digit(sum, 100), digit(sum, 10), digit(sum, 1), '\n'};
  return line[offset % kLine];
}

/// The same for the same offset on every thread: devices read at the same time.
void read_sums(std::int64_t offset, std::span<std::int32_t> tokens) {
  for (std::int32_t& token : tokens) token = letter(offset++);
}

}  // namespace

int main() {
  cleave::data::give_tokens("memory:sums", {.size = kPairs * kLine, .read = read_sums});

  const std::vector<std::string> sums = {"data.path=memory:sums", "model.vocab=256"};
  const auto one = example::train_with(sums);
  auto on_two = sums;
  on_two.push_back("parallel.pipeline=2");
  return example::check(one, example::train_with(on_two));
}
