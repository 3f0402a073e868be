#pragma once

#include <filesystem>
#include <string>

#include <CLI/CLI.hpp>

namespace cleave::app {

inline constexpr const char* kStateHelp =
    "Directory with the server's key and its registry of devices; default "
    "~/.local/state/cleave/server";

std::filesystem::path registry_directory(const std::string& flag);

/// serve invite, serve devices, serve revoke.
void add_registry_commands(CLI::App& serve);

}  // namespace cleave::app
