// What does a server of federated rounds take in memory?
//
//   aggregate_bench run.toml CLIENTS ROUNDS
//
// This process is the server of the rounds that run.toml describes: it holds what compile_server
// says, has the clients' updates on disk, adds them up and sends the weights out, all of it over
// TLS on loopback. Its clients are processes that train nothing: they draw updates a message at a
// time, and throw away what they are sent. bench/aggregate_memory.py writes a config of a wanted
// size.
#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cleave/base/philox.h"
#include "cleave/base/process_memory.h"
#include "cleave/comm/local/local_world.h"
#include "cleave/comm/tcp/listener.h"
#include "cleave/comm/tcp/tcp_transport.h"
#include "cleave/engine/run/device.h"
#include "cleave/train/step/round_server.h"
#include "cleave/train/step/spooled_sum.h"

namespace {

using namespace cleave;

/// One end of a world over TLS whose keys were made before its processes parted.
class Wires {
 public:
  explicit Wires(int devices) {
    for (int device = 0; device < devices; ++device) {
      own_.push_back(comm::make_authority("bench", std::chrono::hours{24}));
      listeners_.emplace_back(comm::Address{"127.0.0.1", 0});
      comm::TcpPeer peer;
      peer.address = {"127.0.0.1", listeners_.back().port()};
      peer.fingerprint = comm::read_certificate(own_.back().certificate).fingerprint;
      peers_.push_back(peer);
    }
  }

  comm::Communicator& join(int device) {
    tls_ = std::make_unique<comm::Tls>(own_[static_cast<std::size_t>(device)]);
    transport_ = std::make_unique<comm::TcpTransport>(
        comm::TcpSetup{.device = device,
                       .peers = peers_,
                       .listener = &listeners_[static_cast<std::size_t>(device)],
                       .tls = tls_.get()});
    comm_ = std::make_unique<comm::Communicator>(*transport_);
    return *comm_;
  }

 private:
  std::vector<comm::Identity> own_;
  std::deque<comm::Listener> listeners_;
  std::vector<comm::TcpPeer> peers_;
  std::unique_ptr<comm::Tls> tls_;
  std::unique_ptr<comm::TcpTransport> transport_;
  std::unique_ptr<comm::Communicator> comm_;
};

/// The server's, to everybody: the elements of every tensor.
std::vector<double> share_sizes(comm::Communicator& world, std::vector<double> sizes) {
  double count = static_cast<double>(sizes.size());
  world.broadcast(std::as_writable_bytes(std::span(&count, 1)), 0).wait();
  sizes.resize(static_cast<std::size_t>(count));
  world.broadcast(std::as_writable_bytes(std::span(sizes)), 0).wait();
  return sizes;
}

/// Draws one message of weights and sends it over and over.
void generate(comm::Communicator& world, int client, int clients, int rounds) {
  train::RoundExchange exchange(world, clients, client);
  std::int64_t bytes = 0;
  for (const double elements : share_sizes(world, {}))
    bytes += static_cast<std::int64_t>(elements) * static_cast<std::int64_t>(sizeof(float));
  std::vector<float> weights(train::kStreamMessage / sizeof(float));
  Philox(static_cast<std::uint64_t>(client), "aggregate bench").fill_normal(0, weights);
  for (float& weight : weights) weight *= 0.02f;
  const std::span<const std::byte> message = std::as_bytes(std::span(weights));
  for (int round = 0; round < rounds; ++round) {
    exchange.send_result({.loss = 1});
    train::SendStream update = exchange.send_update();
    for (std::int64_t left = bytes; left > 0; left -= std::ssize(message))
      update.put(message.first(std::min(static_cast<std::size_t>(left), message.size())));
    update.end();
    for (train::ReceiveStream sent = exchange.receive_weights(bytes); !sent.done();) sent.next();
  }
}

struct Served {
  std::int64_t model = 0;  ///< bytes of its weights
  std::int64_t planned = 0;
  double seconds = 0;
};

Served serve(const train::Config& config, comm::Communicator& world, int clients, int rounds) {
  const engine::CompiledStep compiled = train::compile_server(config, /*evaluates=*/false);
  comm::LocalWorld alone(1);
  const std::unique_ptr<comm::Communicator> here = alone.join(0);
  engine::Device device(compiled, 0, static_cast<int>(config.devices.threads), *here);
  device.initialise(static_cast<std::uint64_t>(config.train.seed));
  train::RoundExchange::Tensors tensors;
  std::vector<double> sizes;
  Served served{.planned = compiled.planned_on(0)};
  for (const engine::TensorState& tensor : device.tensors()) {
    if (!tensor.trained()) continue;
    tensors.push_back(&tensor);
    sizes.push_back(static_cast<double>(tensor.elements()));
    served.model += tensor.elements() * static_cast<std::int64_t>(sizeof(float));
  }
  train::RoundExchange exchange(world, clients, std::nullopt);
  share_sizes(world, sizes);
  train::SpooledSum sum(config, tensors);
  std::vector<int> all(static_cast<std::size_t>(clients));
  std::iota(all.begin(), all.end(), 0);
  const auto start = std::chrono::steady_clock::now();
  for (int round = 0; round < rounds; ++round) {
    sum.begin_round(tensors);
    sum.receive(exchange, all, std::vector<double>(all.size(), 1.0));
    sum.close({.round = round,
               .clients = static_cast<std::size_t>(clients),
               .weights = static_cast<double>(clients)});
    exchange.share_weights(tensors);
  }
  served.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / rounds;
  return served;
}

int run(const std::string& path, int clients, int rounds) {
  const train::Config config = train::load_config(path);
  require(config.edge.averages() && config.edge.codec == "none", path,
          " must average, with edge.codec \"none\"");
  Wires wires(clients + 1);
  std::vector<pid_t> children;
  for (int client = 0; client < clients; ++client) {
    const pid_t child = fork();
    if (child == 0) {
      generate(wires.join(client + 1), client, clients, rounds);
      _exit(0);
    }
    children.push_back(child);
  }
  const Served served = serve(config, wires.join(0), clients, rounds);
  bool well = true;
  for (const pid_t child : children) {
    int status = 1;
    waitpid(child, &status, 0);
    well = well && status == 0;
  }
  fmt::print(
      "{{\"clients\": {}, \"model_bytes\": {}, \"planned_bytes\": {}, \"resident_bytes\": {}, "
      "\"round_seconds\": {:.3f}}}\n",
      clients, served.model, served.planned, peak_resident_bytes(), served.seconds);
  return well ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print(stderr, "usage: aggregate_bench run.toml CLIENTS ROUNDS\n");
    return 2;
  }
  try {
    return run(argv[1], std::stoi(argv[2]), std::stoi(argv[3]));
  } catch (const std::exception& error) {
    fmt::print(stderr, "aggregate_bench: {}\n", error.what());
    return 1;
  }
}
