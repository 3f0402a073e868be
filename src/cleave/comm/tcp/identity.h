#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace cleave::comm {

/// Who a program is on the wire: an Ed25519 key, its certificate, and that of the server which
/// signed it. All are PEM texts.
struct Identity {
  std::string key;
  std::string certificate;
  std::string authority;
};

/// What a certificate says.
struct CertificateFacts {
  std::string name;         ///< of whom it is
  std::string fingerprint;  ///< SHA-256 of the whole, 64 hexadecimal digits
  std::chrono::system_clock::time_point begins, ends;
};

CertificateFacts read_certificate(const std::string& certificate);

/// A new key of a server, with a certificate that it signed itself.
Identity make_authority(const std::string& name, std::chrono::hours valid);

/// The same for a server that browsers talk to: on P-256, since they do not know Ed25519, and for
/// one name or number of a host.
Identity make_web_identity(const std::string& host, std::chrono::hours valid);

/// A new private key, and the public half of one.
std::string make_key();
std::string public_key_of(const std::string& key);

/// How long before now a certificate begins, so that clocks may differ.
inline constexpr std::chrono::hours kClockTolerance{24};

/// A certificate of `authority` for the holder of a public key, from `begins` until `valid` after
/// now.
std::string certify(const Identity& authority, const std::string& public_key,
                    const std::string& name, std::chrono::hours valid,
                    std::chrono::hours begins = -kClockTolerance);

/// The signature of a key's holder under a text, in hexadecimal digits, and whether it is that of a
/// certificate's holder.
std::string sign(const std::string& key, std::string_view text);
bool is_signed_by(const std::string& certificate, std::string_view text,
                  const std::string& signature);

/// 16 random bytes as 32 hexadecimal digits, and SHA-256 of a text as 64.
std::string random_token();
std::string sha256(std::string_view text);

/// Whether the certificate is that of the key.
bool is_pair(const Identity& identity);

/// Files key.pem (readable by its owner only), certificate.pem and authority.pem. load_identity()
/// throws IoError naming the file, and UserError if others may read the key, or it is not that of
/// the certificate.
void store_identity(const Identity& identity, const std::filesystem::path& directory);
bool is_identity_in(const std::filesystem::path& directory);
Identity load_identity(const std::filesystem::path& directory);

/// The one in the directory, made if there is none that is good. Programs that ask at the same time
/// get the same one.
Identity kept_identity(
    const std::filesystem::path& directory, const std::function<Identity()>& make,
    const std::function<bool(const Identity&)>& is_good = [](const Identity&) { return true; });

}  // namespace cleave::comm
