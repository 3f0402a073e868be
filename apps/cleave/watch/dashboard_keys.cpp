#include "watch/dashboard_keys.h"

#include <chrono>

#include "serve/network.h"

#include "cleave/comm/tcp/identity.h"

namespace cleave::app {
namespace {

constexpr std::chrono::hours kValid{397 * 24};  // browsers take no longer one
constexpr std::chrono::hours kLeft{30 * 24};

bool lasts(const comm::Identity& identity) {
  return comm::read_certificate(identity.certificate).ends >
         std::chrono::system_clock::now() + kLeft;
}

}  // namespace

DashboardKeys dashboard_keys(const std::string& host) {
  const std::filesystem::path directory = state_directory("dashboard") / host;
  const comm::Identity identity = comm::kept_identity(
      directory, [&] { return comm::make_web_identity(host, kValid); }, lasts);
  // Whoever has the key could play this server anyway, so it may stand for the token as well.
  return {.certificate = directory / "certificate.pem",
          .key = directory / "key.pem",
          .token = comm::sha256("token of the dashboard " + identity.key).substr(0, 32)};
}

bool is_same_secret(std::string_view given, std::string_view secret) {
  if (given.size() != secret.size()) return false;
  unsigned different = 0;
  for (std::size_t i = 0; i < secret.size(); ++i)
    different |= static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(secret[i]);
  return different == 0;
}

}  // namespace cleave::app
