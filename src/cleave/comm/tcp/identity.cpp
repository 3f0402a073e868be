#include "cleave/comm/tcp/identity.h"

#include <array>
#include <span>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include "cleave/base/check.h"
#include "cleave/comm/tcp/openssl.h"

namespace cleave::comm {
namespace {

using std::chrono::hours;
using std::chrono::system_clock;

void check_openssl(bool ok, SourceLocation where = SourceLocation::current()) {
  if (ok) [[likely]]
    return;
  throw InternalError(detail::concat(where.file, ":", where.line, ": OpenSSL: ", openssl_error()));
}

std::string hexadecimal(std::span<const unsigned char> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

void openssl_free(void* memory) {
  OPENSSL_free(memory);
}

template <class Write>
std::string to_pem(Write&& write) {
  const BioPointer bio(BIO_new(BIO_s_mem()));
  check_openssl(write(bio.get()) == 1);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<std::size_t>(size));
}

std::string pem_of(EVP_PKEY* key) {
  return to_pem([&](BIO* bio) {
    return PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  });
}

BioPointer bio_of(const std::string& text) {
  return BioPointer(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

KeyPointer new_key() {
  KeyPointer key(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  check_openssl(key != nullptr);
  return key;
}

void add_extension(X509& certificate, X509& issuer, int kind, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, &issuer, &certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value);
  check_openssl(extension != nullptr);
  X509_add_ext(&certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

void set_name(X509_NAME* at, const std::string& name) {
  check_openssl(X509_NAME_add_entry_by_txt(at, "CN", MBSTRING_UTF8,
                                           reinterpret_cast<const unsigned char*>(name.data()),
                                           static_cast<int>(name.size()), -1, 0) == 1);
}

X509Pointer new_certificate(EVP_PKEY& holder, const std::string& name, hours valid,
                            hours begins = -kClockTolerance) {
  X509Pointer certificate(X509_new());
  check_openssl(certificate != nullptr);
  check_openssl(X509_set_version(certificate.get(), X509_VERSION_3) == 1);
  std::array<unsigned char, 16> serial{};
  check_openssl(RAND_bytes(serial.data(), serial.size()) == 1);
  serial[0] &= 0x7f;  // a serial number is positive
  BIGNUM* number = BN_bin2bn(serial.data(), serial.size(), nullptr);
  BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate.get()));
  BN_free(number);
  const auto seconds = [](hours time) {
    return static_cast<long>(std::chrono::seconds(time).count());
  };
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), seconds(begins));
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), seconds(valid));
  check_openssl(X509_set_pubkey(certificate.get(), &holder) == 1);
  set_name(X509_get_subject_name(certificate.get()), name);
  return certificate;
}

std::string pem_of(X509* certificate) {
  return to_pem([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}

Identity signed_by_itself(X509& certificate, EVP_PKEY& key) {
  check_openssl(X509_set_issuer_name(&certificate, X509_get_subject_name(&certificate)) == 1);
  check_openssl(X509_sign(&certificate, &key, nullptr) > 0);
  const std::string pem = pem_of(&certificate);
  return {.key = pem_of(&key), .certificate = pem, .authority = pem};
}

system_clock::time_point time_of(const ASN1_TIME* time) {
  std::tm parts{};
  check_openssl(ASN1_TIME_to_tm(time, &parts) == 1);
  return system_clock::from_time_t(timegm(&parts));
}

}  // namespace

std::string openssl_error() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  if (code == 0) return "no reason given";
  const char* reason = ERR_reason_error_string(code);
  return reason != nullptr ? reason : "error " + std::to_string(code);
}

KeyPointer key_of_pem(const std::string& pem) {
  KeyPointer key(PEM_read_bio_PrivateKey(bio_of(pem).get(), nullptr, nullptr, nullptr));
  require(key != nullptr, "this is not a private key in PEM form (", openssl_error(), ")");
  return key;
}

X509Pointer certificate_of_pem(const std::string& pem) {
  X509Pointer certificate(PEM_read_bio_X509(bio_of(pem).get(), nullptr, nullptr, nullptr));
  require(certificate != nullptr, "this is not a certificate in PEM form (", openssl_error(), ")");
  return certificate;
}

std::string fingerprint_of(const X509& certificate) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  check_openssl(X509_digest(&certificate, EVP_sha256(), digest.data(), &size) == 1);
  return hexadecimal(std::span(digest).first(size));
}

std::string name_of(const X509& certificate) {
  X509_NAME* subject = X509_get_subject_name(&certificate);
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (at < 0) return "";
  unsigned char* text = nullptr;
  const int size =
      ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
  if (size < 0) return "";
  const std::string name(reinterpret_cast<char*>(text), static_cast<std::size_t>(size));
  OPENSSL_free(text);
  return name;
}

CertificateFacts read_certificate(const std::string& pem) {
  const X509Pointer certificate = certificate_of_pem(pem);
  return {.name = name_of(*certificate),
          .fingerprint = fingerprint_of(*certificate),
          .begins = time_of(X509_get0_notBefore(certificate.get())),
          .ends = time_of(X509_get0_notAfter(certificate.get()))};
}

Identity make_authority(const std::string& name, hours valid) {
  const KeyPointer key = new_key();
  const X509Pointer certificate = new_certificate(*key, name, valid);
  add_extension(*certificate, *certificate, NID_basic_constraints, "critical,CA:TRUE");
  add_extension(*certificate, *certificate, NID_subject_key_identifier, "hash");
  return signed_by_itself(*certificate, *key);
}

Identity make_web_identity(const std::string& host, hours valid) {
  const KeyPointer key(EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256"));
  check_openssl(key != nullptr);
  const X509Pointer certificate = new_certificate(*key, host, valid);
  const bool is_number =
      host.find(':') != host.npos || host.find_first_not_of("0123456789.") == host.npos;
  const std::string entry = (is_number ? "IP:" : "DNS:") + host;
  add_extension(*certificate, *certificate, NID_subject_alt_name, entry.c_str());
  return signed_by_itself(*certificate, *key);
}

std::string make_key() {
  return pem_of(new_key().get());
}

std::string public_key_of(const std::string& key) {
  return to_pem([&](BIO* bio) { return PEM_write_bio_PUBKEY(bio, key_of_pem(key).get()); });
}

bool is_pair(const Identity& identity) {
  return X509_check_private_key(certificate_of_pem(identity.certificate).get(),
                                key_of_pem(identity.key).get()) == 1;
}

std::string sign(const std::string& key, std::string_view text) {
  const KeyPointer signer = key_of_pem(key);
  const DigestPointer context(EVP_MD_CTX_new());
  std::array<unsigned char, 64> signature{};
  std::size_t size = signature.size();
  check_openssl(EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, signer.get()) == 1);
  check_openssl(
      EVP_DigestSign(context.get(), signature.data(), &size, bytes_of(text), text.size()) == 1);
  return hexadecimal(std::span(signature).first(size));
}

bool is_signed_by(const std::string& certificate, std::string_view text,
                  const std::string& signature) {
  const X509Pointer holder = certificate_of_pem(certificate);
  const DigestPointer context(EVP_MD_CTX_new());
  long size = 0;
  const std::unique_ptr<unsigned char, OpensslFree<openssl_free>> bytes(
      OPENSSL_hexstr2buf(signature.c_str(), &size));
  if (bytes == nullptr) return false;
  check_openssl(EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr,
                                     X509_get0_pubkey(holder.get())) == 1);
  const int valid = EVP_DigestVerify(context.get(), bytes.get(), static_cast<std::size_t>(size),
                                     bytes_of(text), text.size());
  ERR_clear_error();
  return valid == 1;
}

std::string certify(const Identity& authority, const std::string& public_key,
                    const std::string& name, hours valid, hours begins) {
  const KeyPointer holder(PEM_read_bio_PUBKEY(bio_of(public_key).get(), nullptr, nullptr, nullptr));
  require(holder != nullptr && EVP_PKEY_get_id(holder.get()) == EVP_PKEY_ED25519,
          "a certificate was asked for something that is not an Ed25519 key");
  const KeyPointer signer = key_of_pem(authority.key);
  const X509Pointer issuer = certificate_of_pem(authority.certificate);
  const X509Pointer certificate = new_certificate(*holder, name, valid, begins);
  check_openssl(X509_set_issuer_name(certificate.get(), X509_get_subject_name(issuer.get())) == 1);
  add_extension(*certificate, *issuer, NID_basic_constraints, "critical,CA:FALSE");
  add_extension(*certificate, *issuer, NID_authority_key_identifier, "keyid");
  check_openssl(X509_sign(certificate.get(), signer.get(), nullptr) > 0);
  return pem_of(certificate.get());
}

std::string random_token() {
  std::array<unsigned char, 16> bytes{};
  check_openssl(RAND_bytes(bytes.data(), bytes.size()) == 1);
  return hexadecimal(bytes);
}

std::string sha256(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  check_openssl(EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr) ==
                1);
  return hexadecimal(std::span(digest).first(size));
}

}  // namespace cleave::comm
