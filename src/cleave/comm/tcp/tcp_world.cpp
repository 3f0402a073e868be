#include "cleave/comm/tcp/tcp_world.h"

#include <new>
#include <utility>

#include "cleave/base/check.h"
#include "cleave/comm/early_bytes.h"
#include "cleave/comm/together.h"

namespace cleave::comm {

TcpWorld::TcpWorld(const ServerContact& server, Offer offer, const std::string& listen_host,
                   std::function<bool()> leaves)
    : leaves_(std::move(leaves)), line_(server) {
  line_.open();
  const std::string host = listen_host.empty() ? line_.local_host() : listen_host;
  listener_ = std::make_unique<Listener>(Address{host, 0});
  offer.port = listener_->port();
  line_.join(offer);
  pulse_.emplace(line_);
}

TcpWorld::~TcpWorld() = default;

const std::optional<Assignment>& TcpWorld::await_epoch(const ServerLine::OnWaiting& on_waiting) {
  assignment_.reset();
  if (!said_bye_) assignment_ = line_.await_epoch(on_waiting, leaves_);
  return assignment_;
}

void TcpWorld::run(const std::string& program,
                   const std::function<void(Communicator& world)>& work) {
  // One that leaves must not be planned with before it says so.
  const auto say_ready = [&] {
    if (leaves_ && leaves_()) return say_bye();
    line_.say({"ready", std::to_string(assignment_->epoch)});
  };
  try {
    take_part(program, work);
  } catch (const DeviceLost&) {
    say_ready();
    throw;
  } catch (const PeerFailed&) {
    say_ready();
    throw;
  } catch (const std::bad_alloc&) {
    line_.say({"failed", "it has less memory than its part of the run needs"});
    throw;
  } catch (const std::exception& error) {
    line_.say({"failed", error.what()});
    throw;
  }
  say_ready();
}

void TcpWorld::say_bye() {
  if (!std::exchange(said_bye_, true)) line_.say({"bye"});
}

void TcpWorld::take_part(const std::string& program,
                         const std::function<void(Communicator& world)>& work) {
  require(program == assignment_->program, "this device compiles the run to program ", program,
          ", and the server has program ", assignment_->program,
          "; build cleave from the same source on both");
  TcpTransport transport({.device = assignment_->device,
                          .peers = assignment_->peers,
                          .listener = listener_.get(),
                          .tls = line_.server().tls,
                          .server = &line_,
                          .epoch = assignment_->epoch,
                          .program = program,
                          .early_bytes = kEarlyBytes});
  Communicator world(transport);
  try {
    work(world);
  } catch (const std::exception& error) {
    transport.abort(error.what());
    throw;
  }
}

}  // namespace cleave::comm
