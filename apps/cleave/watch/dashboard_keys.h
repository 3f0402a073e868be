#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace cleave::app {

/// What a dashboard needs that other machines can reach: TLS, and a token that only those have who
/// can read the first line of the run or its owner's files.
struct DashboardKeys {
  std::filesystem::path certificate;  ///< PEM, signed by itself
  std::filesystem::path key;
  std::string token;
};

/// Those of this user for a host, made when they are first needed and anew before they expire, so
/// that browsers meet the same certificate, and Prometheus the same token, in every run.
DashboardKeys dashboard_keys(const std::string& host);

/// Takes as long for a near miss as for any other text.
bool is_same_secret(std::string_view given, std::string_view secret);

}  // namespace cleave::app
