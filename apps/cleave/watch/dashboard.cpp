// The one file that knows cpp-httplib.
#include "watch/dashboard.h"

#include <charconv>
#include <chrono>
#include <csignal>
#include <thread>

#include <httplib.h>
#include <pthread.h>

#include "cleave/base/check.h"

namespace cleave::app {
namespace {

bool names_loopback(const httplib::Request& request) {
  const std::string host = request.get_header_value("Host");
  const std::string name = host.substr(0, host.rfind(':'));
  return name == "localhost" || name == "127.0.0.1";
}

std::int64_t number_of(const std::string& text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);  // 0: all, as without it
  return value;
}

/// So that what they take can be told from what the run takes (scripts/check_page does).
void name_thread() {
  ::pthread_setname_np(::pthread_self(), "dashboard");
}

}  // namespace

struct Dashboard::Server {
  httplib::Server http;
  DashboardPages pages;
  std::thread thread;
  int port = 0;

  void answer(const char* path, const char* type,
              std::function<std::string(const httplib::Request&)> make) {
    http.Get(path, [type, make](const httplib::Request& request, httplib::Response& response) {
      name_thread();
      if (names_loopback(request)) return response.set_content(make(request), type);
      response.status = 403;
      response.set_content("only for localhost\n", "text/plain");
    });
  }
};

Dashboard::Dashboard(int port, DashboardPages pages) : server_(std::make_unique<Server>()) {
  Server& server = *server_;
  server.pages = std::move(pages);
  std::signal(SIGPIPE, SIG_IGN);  // a browser that leaves must not end the run
  server.http.new_task_queue = [] { return new httplib::ThreadPool(2); };
  server.http.set_keep_alive_max_count(1);  // an idle browser must not hold a thread, or our end
  // Browsers open connections ahead of need, and cpp-httplib looks at each a hundred times a
  // second.
  server.http.set_keep_alive_timeout(1);
  // Without SO_REUSEPORT, which is cpp-httplib's default: a second run must not share the port.
  server.http.set_socket_options([](socket_t socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  server.answer("/", "text/html; charset=utf-8",
                [&server](const auto&) { return server.pages.page(); });
  server.answer("/data", "application/json", [&server](const auto& request) {
    return server.pages.data(number_of(request.get_param_value("after")),
                             number_of(request.get_param_value("lanes")));
  });
  server.answer("/metrics", "text/plain; version=0.0.4",
                [&server](const auto&) { return server.pages.metrics(); });
  const char* const loopback = "127.0.0.1";
  if (port == 0) {
    server.port = server.http.bind_to_any_port(loopback);
  } else if (server.http.bind_to_port(loopback, port)) {
    server.port = port;
  }
  require(server.port > 0, "--dashboard cannot have port ", port,
          ": it is taken or not allowed; choose another, or 0 for any that is free");
  server.thread = std::thread([&server] {
    name_thread();
    server.http.listen_after_bind();
  });
  // stop() does nothing before the loop has begun: a run that ends at once would wait for ever.
  for (int i = 0; i < 5000 && !server.http.is_running(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

Dashboard::~Dashboard() {
  server_->http.stop();
  server_->thread.join();
}

int Dashboard::port() const {
  return server_->port;
}

}  // namespace cleave::app
