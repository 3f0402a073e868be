// The one file that knows cpp-httplib.
#include "watch/dashboard.h"

#include <array>
#include <charconv>
#include <chrono>
#include <csignal>
#include <thread>
#include <utility>

#include "watch/dashboard_keys.h"
#include <httplib.h>
#include <pthread.h>
#include <unistd.h>

#include "cleave/base/check.h"

namespace cleave::app {
namespace {

constexpr const char* kLoopback = "127.0.0.1";
constexpr const char* kTokenHelp =
    "this dashboard asks for its token: open the address that the run prints, or send "
    "\"Authorization: Bearer TOKEN\"\n";

bool names_loopback(const httplib::Request& request) {
  const std::string host = request.get_header_value("Host");
  const std::string name = host.substr(0, host.rfind(':'));
  return name == "localhost" || name == kLoopback || name == "[::1]";
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

/// By a provider: cpp-httplib would compress a plain body with Brotli's slowest setting for every
/// browser that offers it, which took 54 ms for 15 KB.
void send(httplib::Response& response, std::string body, const char* type) {
  const std::size_t size = body.size();
  response.set_content_provider(
      size, type,
      [body = std::move(body)](std::size_t from, std::size_t count, httplib::DataSink& sink) {
        return sink.write(body.data() + from, count);
      });
}

/// How others call the machine that listens there.
std::string name_of_host(const std::string& host) {
  if (host != "0.0.0.0" && host != "::") return host;
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : host;
}

std::string refusal_of(const comm::Address& at) {
  const bool here = at.host == kLoopback;
  return "--dashboard cannot have " +
         (here ? "port " + std::to_string(at.port) : comm::to_string(at)) +
         ": it is taken or not allowed; choose another, or 0 for any that is free";
}

}  // namespace

comm::Address parse_dashboard(const std::string& text) {
  if (text.find(':') != text.npos) return comm::parse_address(text);
  int port = -1;
  const char* const end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, port);
  require(error == std::errc() && after == end && port >= 0 && port < 65536, "--dashboard=", text,
          " is no port; give a number from 0 (any that is free) to 65535");
  return {kLoopback, static_cast<std::uint16_t>(port)};
}

struct Dashboard::Server {
  std::unique_ptr<httplib::Server> http;
  DashboardPages pages;
  std::thread thread;
  std::string host;   ///< as a browser has it
  std::string token;  ///< empty: loopback alone
  int port = 0;

  std::string cookie() const { return "cleave_" + std::to_string(port); }

  bool has_token(const httplib::Request& request) const {
    const std::string sent = request.get_header_value("Authorization");
    constexpr std::string_view kBearer = "Bearer ";
    if (sent.starts_with(kBearer)) return is_same_secret(sent.substr(kBearer.size()), token);
    const std::string cookies = request.get_header_value("Cookie"), name = cookie() + "=";
    const auto at = cookies.find(name);
    return at != cookies.npos &&
           is_same_secret(cookies.substr(at + name.size(), token.size()), token);
  }

  /// Whoever comes with the address that the run prints: the token leaves the browser's address
  /// bar.
  bool takes_in(const httplib::Request& request, httplib::Response& response) const {
    if (token.empty() || !is_same_secret(request.get_param_value("token"), token)) return false;
    response.set_header("Set-Cookie",
                        cookie() + "=" + token + "; HttpOnly; Secure; SameSite=Strict; Path=/");
    response.set_redirect("/");
    return true;
  }

  bool admits(const httplib::Request& request, httplib::Response& response) const {
    if (token.empty() ? names_loopback(request) : has_token(request)) return true;
    response.status = token.empty() ? 403 : 401;
    response.set_content(token.empty() ? "only for localhost\n" : kTokenHelp, "text/plain");
    return false;
  }

  void answer(const char* path, const char* type,
              std::function<std::string(const httplib::Request&)> make) {
    http->Get(path,
              [this, type, make](const httplib::Request& request, httplib::Response& response) {
                name_thread();
                if (takes_in(request, response) || !admits(request, response)) return;
                send(response, make(request), type);
              });
  }

  void begin(const comm::Address& at) {
    if (comm::is_loopback(at.host)) {
      host = at.host == kLoopback ? "localhost" : at.host;
      http = std::make_unique<httplib::Server>();
      return;
    }
    host = name_of_host(at.host);
    const DashboardKeys keys = dashboard_keys(host);
    token = keys.token;
    http = std::make_unique<httplib::SSLServer>(keys.certificate.c_str(), keys.key.c_str());
    require(http->is_valid(), "the dashboard cannot use ", keys.certificate.string(), " and ",
            keys.key.string(), "; remove them, and new ones are made");
  }

  void limit() {
    http->new_task_queue = [] { return new httplib::ThreadPool(2); };
    http->set_keep_alive_max_count(1);  // an idle browser must not hold a thread, or our end
    // Browsers open connections ahead of need, and cpp-httplib looks at each a hundred times a
    // second.
    http->set_keep_alive_timeout(1);
    // Without SO_REUSEPORT, which is cpp-httplib's default: a second run must not share the port.
    http->set_socket_options([](socket_t socket) {
      const int yes = 1;
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
  }

  void bind(const comm::Address& at) {
    if (at.port == 0) {
      port = http->bind_to_any_port(at.host);
    } else if (http->bind_to_port(at.host, at.port)) {
      port = at.port;
    }
    require(port > 0, refusal_of(at));
  }
};

Dashboard::Dashboard(const comm::Address& at, DashboardPages pages)
    : server_(std::make_unique<Server>()) {
  Server& server = *server_;
  server.pages = std::move(pages);
  std::signal(SIGPIPE, SIG_IGN);  // a browser that leaves must not end the run
  server.begin(at);
  server.limit();
  server.answer("/", "text/html; charset=utf-8",
                [&server](const auto&) { return server.pages.page(); });
  server.answer("/data", "application/json", [&server](const auto& request) {
    return server.pages.data(number_of(request.get_param_value("after")),
                             number_of(request.get_param_value("lanes")));
  });
  server.answer("/metrics", "text/plain; version=0.0.4",
                [&server](const auto&) { return server.pages.metrics(); });
  server.bind(at);
  server.thread = std::thread([&server] {
    name_thread();
    server.http->listen_after_bind();
  });
  // stop() does nothing before the loop has begun: a run that ends at once would wait for ever.
  for (int i = 0; i < 5000 && !server.http->is_running(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

Dashboard::~Dashboard() {
  server_->http->stop();
  server_->thread.join();
}

std::string Dashboard::address() const {
  const std::string where =
      comm::to_string({server_->host, static_cast<std::uint16_t>(server_->port)});
  return server_->token.empty() ? "http://" + where + "/"
                                : "https://" + where + "/?token=" + server_->token;
}

}  // namespace cleave::app
