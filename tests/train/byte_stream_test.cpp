// Bytes of any number come as they were sent, and weights of rounds from the server alone.

#include "cleave/train/step/byte_stream.h"

#include <mutex>

#include "support/tiny_model.h"
#include <gtest/gtest.h>

#include "cleave/comm/local/local_world.h"
#include "cleave/engine/compile/compile.h"
#include "cleave/engine/run/device.h"
#include "cleave/train/step/round_exchange.h"
#include "cleave/train/step/round_forecast.h"

namespace cleave::train {
namespace {

constexpr std::int64_t kMessage = kStreamMessage;

std::vector<std::byte> numbered(std::int64_t count) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>((i * 2654435761u) >> 13);
  return bytes;
}

TEST(ByteStream, ArrivesAsItWasPutHoweverLongItIs) {
  for (const std::int64_t count : {std::int64_t{0}, std::int64_t{1}, kMessage - 1, kMessage,
                                   kMessage + 1, 2 * kMessage, 3 * kMessage + 5}) {
    comm::run_devices(3, [&](comm::Communicator& world) {
      const std::vector<std::byte> bytes = numbered(count);
      if (world.rank() == 0) {
        SendStream out(world, {1, 2}, 7);
        for (std::size_t at = 0; at < bytes.size();) {
          const std::size_t some = std::min<std::size_t>(bytes.size() - at, 1 + at % 700'001);
          out.put(std::span(bytes).subspan(at, some));
          at += some;
        }
        return out.end();
      }
      std::vector<std::byte> arrived;
      for (ReceiveStream in(world, 0, 7, count); !in.done();) {
        const std::span<std::byte> message = in.next();
        arrived.insert(arrived.end(), message.begin(), message.end());
      }
      EXPECT_EQ(arrived, bytes) << count;
    });
  }
}

TEST(RoundExchange, TakesTheUpdatesOfMoreClientsThanSendAtOnce) {
  constexpr int kClients = static_cast<int>(RoundExchange::kAtOnce) + 3;
  constexpr std::int64_t kBytes = kMessage + 100;
  comm::run_devices(kClients + 1, [&](comm::Communicator& world) {
    const int own = world.rank() - 1;
    RoundExchange exchange(world, kClients, own < 0 ? std::nullopt : std::optional(own));
    if (own >= 0) {
      exchange.send_result({.loss = static_cast<double>(own)});
      SendStream update = exchange.send_update();
      update.put(std::vector<std::byte>(kBytes, static_cast<std::byte>(own)));
      return update.end();
    }
    std::vector<int> order;
    for (int client = kClients - 1; client >= 0; --client) order.push_back(client);
    std::vector<std::int64_t> taken(order.size());
    const std::vector<ClientResult> results = exchange.receive_turns(
        order, kBytes, [&](std::size_t place, std::span<const std::byte> piece) {
          taken[place] += std::ssize(piece);
          EXPECT_EQ(piece.front(), static_cast<std::byte>(order[place]));
          EXPECT_EQ(piece.back(), static_cast<std::byte>(order[place]));
        });
    for (std::size_t place = 0; place < order.size(); ++place) {
      EXPECT_EQ(results[place].loss, order[place]);
      EXPECT_EQ(taken[place], kBytes);
    }
  });
}

// No client passes on what it was sent: that would leave it, and is not in the table of what does.
TEST(RoundExchange, LetsTheServerSendTheWeightsToEveryClientItself) {
  constexpr int kClients = 5;
  const engine::CompiledStep step =
      engine::compile(testing::tiny_model(&model::gpt, DType::F32, 2), {});
  std::mutex mutex;
  std::vector<std::string> hashes;
  comm::run_devices(kClients + 1, [&](comm::Communicator& world) {
    const int own = world.rank() - 1;
    RoundExchange exchange(world, kClients, own < 0 ? std::nullopt : std::optional(own));
    comm::LocalWorld alone(1);
    const std::unique_ptr<comm::Communicator> here = alone.join(0);
    engine::Device device(step, 0, 1, *here);
    device.initialise(static_cast<std::uint64_t>(world.rank()));
    RoundExchange::Tensors tensors;
    for (const engine::TensorState& tensor : device.tensors()) tensors.push_back(&tensor);
    double numbers[] = {static_cast<double>(world.rank()) + 1};
    const comm::Sent before = world.sent();

    exchange.share_weights(tensors);
    exchange.share_numbers(numbers);

    EXPECT_EQ(numbers[0], 1);
    if (own >= 0) {
      EXPECT_EQ(world.sent() - before, comm::Sent());
    }
    const std::lock_guard lock(mutex);
    hashes.push_back(engine::combine_hashes(device.weight_hashes()));
  });
  for (const std::string& hash : hashes) EXPECT_EQ(hash, hashes.front());
}

TEST(RoundForecast, HasTheSlowestClientAndIsTheServersAlone) {
  constexpr int kClients = 3;
  comm::run_devices(kClients + 1, [&](comm::Communicator& world) {
    const int own = world.rank() - 1;
    RoundExchange exchange(world, kClients, own < 0 ? std::nullopt : std::optional(own));
    const double local = own == 1 ? 1000 : 10;

    const double seconds = forecast_round(exchange, {.down = 1 << 20, .up = 1 << 20}, local);

    if (own >= 0) {
      EXPECT_EQ(seconds, 0);
    } else {
      EXPECT_GT(seconds, 1000);
    }
  });
}

}  // namespace
}  // namespace cleave::train
