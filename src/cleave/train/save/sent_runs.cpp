#include "cleave/train/save/sent_runs.h"

#include <span>
#include <vector>

#include "cleave/checkpoint/writer.h"

namespace cleave::train {
namespace {

constexpr int kHeaderTag = 0, kElementsTag = 1;

/// Goes before the elements of a run; the last one has none.
struct RunHeader {
  std::int64_t part = 0;
  std::int64_t parameter = 0;
  std::int64_t first = 0;
  std::int64_t elements = 0;
};

}  // namespace

void send_runs(const SavePoint& at) {
  const auto send = [&](RunHeader header, std::span<const float> elements) {
    at.world->send(std::as_bytes(std::span(&header, 1)), 0, kHeaderTag).wait();
    if (!elements.empty()) at.world->send(std::as_bytes(elements), 0, kElementsTag).wait();
  };
  for (const Lasting lasting : {Lasting::OneStep, Lasting::Always}) {
    for_each_saved_run(at, lasting,
                       [&](checkpoint::Part part, std::size_t parameter, std::int64_t first,
                           std::span<const float> elements) {
                         send({static_cast<std::int64_t>(part),
                               static_cast<std::int64_t>(parameter), first, std::ssize(elements)},
                              elements);
                       });
  }
  send({}, {});
}

void write_sent_runs(const SavePoint& at, std::int64_t step) {
  std::vector<float> elements;
  for (int sender = 1; sender < at.world->size(); ++sender) {
    checkpoint::CheckpointWriter writer(at.root(), step, *at.layout, sender);
    for (;;) {
      RunHeader header;
      at.world->receive(std::as_writable_bytes(std::span(&header, 1)), sender, kHeaderTag).wait();
      if (header.elements == 0) break;
      elements.resize(static_cast<std::size_t>(header.elements));
      at.world->receive(std::as_writable_bytes(std::span(elements)), sender, kElementsTag).wait();
      writer.write(static_cast<checkpoint::Part>(header.part),
                   static_cast<std::size_t>(header.parameter), header.first, elements);
    }
    writer.finish();
  }
}

}  // namespace cleave::train
