#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cleave/comm/tcp/identity.h"

namespace cleave::comm {

/// A certificate of this server, which a device has or had.
struct DeviceRecord {
  std::string name;
  std::string fingerprint;
  std::string first;  ///< fingerprint of what it enrolled with, before it was renewed
  std::chrono::system_clock::time_point enrolled, expires;
  bool revoked = false;
};

/// Which devices a server knows: a directory with its keys and a database. Copying the directory
/// is a backup. Several processes may use it at once.
class Registry {
 public:
  /// Makes the directory, the server's key and an empty database if they are not there.
  explicit Registry(const std::filesystem::path& directory);
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  const Identity& authority() const { return authority_; }
  std::string fingerprint() const;

  /// Something to hand to a device, good for one enrolment: "cleave1-" token "-" fingerprint.
  std::string invite(std::chrono::minutes valid);

  /// A certificate for the holder of `public_key`, if `token` is one that nobody used. Throws
  /// UserError saying what is wrong with it; where that is the key or the name, the token stays
  /// good.
  std::string enrol(const std::string& token, const std::string& public_key,
                    const std::string& name, std::chrono::hours valid);

  /// A later certificate for a device that has one.
  std::string renew(const std::string& fingerprint, const std::string& public_key,
                    std::chrono::hours valid);

  /// Why a certificate is not, or no longer, one of this server's; empty if it is.
  std::string fault_of(const std::string& fingerprint) const;

  std::vector<DeviceRecord> devices() const;

  /// All certificates of a device, by its name or by how a fingerprint begins; returns the last.
  /// Throws UserError unless that is exactly one device.
  DeviceRecord revoke(const std::string& which);

 private:
  struct Database;
  void note(const std::string& certificate, const std::string& name, const std::string& first);

  Identity authority_;
  std::unique_ptr<Database> database_;
};

/// Throws UserError unless a device may have the name: it stands in logs and tables, and in JSON.
void check_device_name(const std::string& name);

/// The two halves of what Registry::invite() returns. Throws UserError.
struct Invitation {
  std::string token;
  std::string fingerprint;  ///< of the server
};
Invitation parse_invitation(const std::string& text);

}  // namespace cleave::comm
