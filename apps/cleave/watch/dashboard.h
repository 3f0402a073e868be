#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace cleave::app {

/// What the dashboard answers with; called on threads of its own.
struct DashboardPages {
  std::function<std::string()> page;  ///< HTML
  /// JSON of what comes after these steps: of the log, and of the lanes.
  std::function<std::string(std::int64_t after, std::int64_t lanes)> data;
  std::function<std::string()> metrics;  ///< text of Prometheus
};

/// A web server on the loopback interface, for as long as it lives. It answers only requests that
/// name this machine as localhost, so that pages from elsewhere cannot read it through a browser.
class Dashboard {
 public:
  /// Port 0: any that is free. Throws UserError if the port cannot be had.
  Dashboard(int port, DashboardPages pages);
  ~Dashboard();

  int port() const;

 private:
  struct Server;
  std::unique_ptr<Server> server_;
};

}  // namespace cleave::app
