#pragma once

#include <memory>
#include <string>

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

namespace cleave::comm {

/// OpenSSL's objects with an owner. Only .cpp files of comm/tcp include this.
template <auto free>
struct OpensslFree {
  template <class T>
  void operator()(T* object) const {
    free(object);
  }
};

using KeyPointer = std::unique_ptr<EVP_PKEY, OpensslFree<EVP_PKEY_free>>;
using X509Pointer = std::unique_ptr<X509, OpensslFree<X509_free>>;
using DigestPointer = std::unique_ptr<EVP_MD_CTX, OpensslFree<EVP_MD_CTX_free>>;
using BioPointer = std::unique_ptr<BIO, OpensslFree<BIO_free>>;

KeyPointer key_of_pem(const std::string& pem);
X509Pointer certificate_of_pem(const std::string& pem);
std::string fingerprint_of(const X509& certificate);
std::string name_of(const X509& certificate);

/// OpenSSL's own words for what went wrong last.
std::string openssl_error();

}  // namespace cleave::comm
