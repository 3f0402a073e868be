// What shows a run while it goes on and afterwards: dashboard, TensorBoard's files, run.html,
// report.

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <thread>

#include "app/process.h"
#include "app/tiny_run.h"
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cleave {
namespace {

using testing::Answer;
using testing::Process;
using testing::run_cleave;
using testing::TinyRun;

/// What the server says to `GET path`, headers and all; empty if there is none. It is offered
/// compression as browsers offer it, and must not spend a run's time on it.
std::string get(int port, const std::string& path, const std::string& host = "localhost") {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string answer;
  if (::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
    const std::string request = "GET " + path + " HTTP/1.1\r\nHost: " + host + ":" +
                                std::to_string(port) +
                                "\r\nAccept-Encoding: gzip, br\r\nConnection: close\r\n\r\n";
    if (::send(socket, request.data(), request.size(), MSG_NOSIGNAL) > 0) {
      char block[4096];
      for (ssize_t got; (got = ::recv(socket, block, sizeof block, 0)) > 0;)
        answer.append(block, got);
    }
  }
  ::close(socket);
  return answer;
}

std::string body(const std::string& answer) {
  const auto end = answer.find("\r\n\r\n");
  return end == answer.npos ? "" : answer.substr(end + 4);
}

std::vector<nlohmann::json> log_lines(const TinyRun& run) {
  std::vector<nlohmann::json> lines;
  std::istringstream log(testing::read_text(run.out() + "/log.jsonl"));
  for (std::string line; std::getline(log, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

TEST(Dashboard, ShowsWhatTheLogHasWhileTheRunGoesOn) {
  const TinyRun run;
  Process process(run.command({"train.steps=1000000"}, {"--dashboard=0"}));
  ASSERT_TRUE(process.prints("dashboard: http://localhost:")) << process.err();
  const std::string out = process.out();
  const int port = std::stoi(out.substr(out.find("localhost:") + 10));

  nlohmann::json data;
  for (int i = 0; i < 400 && (data.is_null() || data["columns"]["step"].empty()); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    data = nlohmann::json::parse(body(get(port, "/data")))["runs"][0];
  }
  const auto lines = log_lines(run);

  const auto& steps = data["columns"]["step"];
  ASSERT_FALSE(steps.empty());
  ASSERT_GE(lines.size(), steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i], lines[i]["step"]);
    EXPECT_EQ(data["columns"]["loss"][i], lines[i]["loss"]);
  }
  EXPECT_EQ(data["done"], false);
  const std::int64_t last = steps.back();
  const auto later = nlohmann::json::parse(body(get(port, "/data?after=" + std::to_string(last))));
  for (const auto& step : later["runs"][0]["columns"]["step"]) EXPECT_GT(step, last);
  EXPECT_NE(get(port, "/metrics").find("\ncleave_step "), std::string::npos);
  EXPECT_NE(get(port, "/").find("<title>cleave: out</title>"), std::string::npos);
  EXPECT_TRUE(get(port, "/data", "elsewhere.example").starts_with("HTTP/1.1 403"));

  const TinyRun second;
  const Answer taken = second.train({}, {"--dashboard=" + std::to_string(port)});
  EXPECT_EQ(taken.exit, 2);
  EXPECT_EQ(taken.err,
            "cleave: --dashboard cannot have port " + std::to_string(port) +
                ": it is taken or not allowed; choose another, or 0 for any that is free\n");
  process.signal(SIGINT);
  EXPECT_EQ(process.wait().exit, 0);
  EXPECT_NE(testing::read_text(run.out() + "/run.html").find("\"done\":true"), std::string::npos);
}

/// What the server says over TLS: status, cookie, and the first line of the rest.
std::string get_by_tls(int port, const std::string& path, const std::string& header = "") {
  const std::string script =
      "import http.client, ssl, sys\n"
      "port, path, header = sys.argv[1:]\n"
      "line = http.client.HTTPSConnection('127.0.0.1', int(port), timeout=20,\n"
      "                                   context=ssl._create_unverified_context())\n"
      "line.request('GET', path, headers=dict([header.split(': ', 1)]) if header else {})\n"
      "reply = line.getresponse()\n"
      "print(reply.status, reply.getheader('Set-Cookie') or '-', reply.read(60).decode())\n";
  return testing::run({"/usr/bin/python3", "-c", script, std::to_string(port), path, header}).out;
}

TEST(Dashboard, SpeaksTlsAndAsksForItsTokenWhereOthersReachIt) {
  const TinyRun run;
  setenv("XDG_STATE_HOME", run.path("state").c_str(), /*replace=*/1);
  Process process(run.command({"train.steps=1000000"}, {"--dashboard=0.0.0.0:0"}));
  ASSERT_TRUE(process.prints("/?token=")) << process.err();
  const std::string out = process.out();
  const std::string address = out.substr(out.find("https://"));
  const int port = std::stoi(address.substr(address.find(':', 8) + 1));
  const std::string token = address.substr(address.find("token=") + 6, 32);
  const std::string cookie = "cleave_" + std::to_string(port) + "=" + token;

  EXPECT_TRUE(get_by_tls(port, "/").starts_with("401 - this dashboard asks for its token"));
  EXPECT_TRUE(get_by_tls(port, "/data?token=" + std::string(32, '0')).starts_with("401 - "));
  EXPECT_TRUE(get_by_tls(port, "/data", "Host: localhost").starts_with("401 - "));
  EXPECT_TRUE(get_by_tls(port, "/?token=" + token)
                  .starts_with("302 " + cookie + "; HttpOnly; Secure; SameSite=Strict"));
  EXPECT_TRUE(get_by_tls(port, "/", "Cookie: " + cookie).starts_with("200 - <!doctype html>"));
  EXPECT_TRUE(get_by_tls(port, "/metrics", "Authorization: Bearer " + token)
                  .starts_with("200 - # HELP cleave_steps_planned"));
  EXPECT_EQ(body(get(port, "/metrics")), "") << "without TLS there is no answer";
  process.signal(SIGINT);
  EXPECT_EQ(process.wait().exit, 0);

  // The certificate stays, so that a browser that has accepted it is not asked again.
  Process again(run.command({"train.steps=1000000", "train.out=" + run.path("again")},
                            {"--dashboard=0.0.0.0:0"}));
  EXPECT_TRUE(again.prints("/?token=" + token)) << again.out();
  EXPECT_TRUE(again.prints("step 1/")) << again.err();  // before it, a signal ends it at once
  again.signal(SIGINT);
  EXPECT_EQ(again.wait().exit, 0);
  EXPECT_EQ(run.train({"train.out=" + run.path("nowhere")}, {"--dashboard=192.0.2.7:8421"}).err,
            "cleave: --dashboard cannot have 192.0.2.7:8421: it is taken or not allowed; choose "
            "another, or 0 for any that is free\n");
  unsetenv("XDG_STATE_HOME");
}

/// Our own descriptor of the socket with which a process listens on a port; -1 where there is none,
/// or the system does not give it.
int listener_of(pid_t pid, int port) {
  const int process = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  int found = -1;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd")) {
    const int number = std::stoi(entry.path().filename().string());
    const int copy = static_cast<int>(::syscall(SYS_pidfd_getfd, process, number, 0));
    if (copy < 0) continue;
    sockaddr_in address{};
    socklen_t size = sizeof address;
    int listens = 0;
    socklen_t listens_size = sizeof listens;
    if (::getsockopt(copy, SOL_SOCKET, SO_ACCEPTCONN, &listens, &listens_size) == 0 && listens &&
        ::getsockname(copy, reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
        ntohs(address.sin_port) == port) {
      found = copy;
      break;
    }
    ::close(copy);
  }
  ::close(process);
  return found;
}

TEST(Dashboard, LosesItsPortWithoutAnyEffectOnTheRun) {
  const TinyRun run({"train.schedule=constant", "train.warmup=0"});  // so that steps fix weights
  Process process(run.command({"train.steps=1000000"}, {"--dashboard=0"}));
  ASSERT_TRUE(process.prints("dashboard: http://localhost:")) << process.err();
  const std::string out = process.out();
  const int port = std::stoi(out.substr(out.find("localhost:") + 10));
  const int listener = listener_of(process.pid(), port);
  if (listener < 0) GTEST_SKIP() << "this system does not give a process the sockets of another";

  ASSERT_EQ(::shutdown(listener, SHUT_RDWR), 0);
  ::close(listener);
  for (int i = 0; i < 400 && !get(port, "/data").empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(get(port, "/data"), "") << "nobody listens any more";
  const std::size_t before = log_lines(run).size();
  for (int i = 0; i < 400 && log_lines(run).size() < before + 5; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  process.signal(SIGINT);
  const Answer end = process.wait();
  const std::size_t steps = log_lines(run).size();

  EXPECT_EQ(end.exit, 0) << end.err;
  EXPECT_GE(steps, before + 5) << "the run goes on";
  const auto alone =
      run.report({"train.steps=" + std::to_string(steps), "train.out=" + run.path("alone")});
  EXPECT_NE(end.out.find("weights " + alone["weights"].get<std::string>()), end.out.npos)
      << end.out;
}

TEST(Dashboard, RefusesWhatIsNoPort) {
  const TinyRun run;
  EXPECT_EQ(run.train({}, {"--dashboard=here:"}).err,
            "cleave: \"here:\" is no address; write HOST:PORT, as 192.0.2.7:4242\n");
  EXPECT_EQ(
      run.train({}, {"--dashboard=http"}).err,
      "cleave: --dashboard=http is no port; give a number from 0 (any that is free) to 65535\n");
}

TEST(Report, ComparesRunsAndNamesTheKeysInWhichTheyDiffer) {
  const TinyRun run({"train.steps=3", "train.warmup=0"});
  ASSERT_EQ(run.train().exit, 0);
  ASSERT_EQ(run.train({"train.lr=1e-3", "train.out=" + run.path("other")}).exit, 0);

  const Answer text = run_cleave("report " + run.out() + " " + run.path("other") + " --output " +
                                 run.path("report.html"));
  const auto json = nlohmann::json::parse(
      run_cleave("report " + run.out() + " " + run.path("other") + " --json").out);

  EXPECT_NE(text.out.find("train.lr: 0.01 | 0.001\n"), std::string::npos) << text.out << text.err;
  EXPECT_EQ(json["runs"][0]["steps"], 3);
  EXPECT_EQ(json["runs"][0]["loss"], log_lines(run).back()["loss"]);
  EXPECT_EQ(json["differences"]["train.lr"], (nlohmann::json{"0.01", "0.001"}));
  EXPECT_NE(testing::read_text(run.path("report.html")).find("runs compared"), std::string::npos);
  EXPECT_TRUE(std::filesystem::is_directory(run.out() + "/tb"));
  EXPECT_EQ(run_cleave("report /nowhere").err,
            "cleave: there is no log.jsonl in /nowhere; give the out directory of a run that has "
            "done a step\n");
}

}  // namespace
}  // namespace cleave
