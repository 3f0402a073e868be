#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "cleave/comm/tcp/address.h"

namespace cleave::app {

/// What the dashboard answers with; called on threads of its own.
struct DashboardPages {
  std::function<std::string()> page;  ///< HTML
  /// JSON of what comes after these steps: of the log, and of the lanes.
  std::function<std::string(std::int64_t after, std::int64_t lanes)> data;
  std::function<std::string()> metrics;  ///< text of Prometheus
};

/// Where --dashboard=PORT, on this machine, or --dashboard=HOST:PORT listens. Throws UserError.
comm::Address parse_dashboard(const std::string& text);

/// A web server for as long as it lives. On the loopback interface it answers only requests that
/// name this machine as localhost, so that pages from elsewhere cannot read it through a browser.
/// On any other it speaks TLS and answers only those who have its token: as `?token=` once, then by
/// a cookie, or as `Authorization: Bearer`.
class Dashboard {
 public:
  /// Port 0: any that is free. Throws UserError if the address cannot be had.
  Dashboard(const comm::Address& at, DashboardPages pages);
  ~Dashboard();

  /// What to open in a browser; with the token, if there is one.
  std::string address() const;

 private:
  struct Server;
  std::unique_ptr<Server> server_;
};

}  // namespace cleave::app
