#include "cleave/comm/tcp/tcp_world.h"

#include <utility>

#include "cleave/base/check.h"

namespace cleave::comm {

TcpWorld::TcpWorld(const ServerContact& server, Offer offer, const std::string& listen_host,
                   const OnWaiting& on_waiting)
    : line_(server) {
  line_.open();
  const std::string host = listen_host.empty() ? line_.local_host() : listen_host;
  listener_ = std::make_unique<Listener>(Address{host, 0});
  offer.port = listener_->port();
  assignment_ = line_.join(offer, on_waiting);
}

TcpWorld::~TcpWorld() = default;

void TcpWorld::run(const std::string& program,
                   const std::function<void(Communicator& world)>& work) {
  require(program == assignment_.program, "this device compiles the run to program ", program,
          ", and the server has program ", assignment_.program,
          "; build cleave from the same source on both");
  TcpTransport transport({.device = assignment_.device,
                          .peers = assignment_.peers,
                          .listener = listener_.get(),
                          .tls = line_.server().tls,
                          .server = &line_,
                          .program = program});
  Communicator world(transport);
  try {
    work(world);
  } catch (const std::exception& error) {
    transport.abort(error.what());
    line_.say_bye();
    throw;
  }
  line_.say_bye();
}

}  // namespace cleave::comm
