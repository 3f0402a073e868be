#include "cleave/comm/tcp/certificate_fault.h"

#include <ctime>

#include <openssl/x509_vfy.h>

namespace cleave::comm {
namespace {

/// "2026-01-31 14:03 UTC".
std::string date_of(const std::tm& utc) {
  char text[32];
  return std::string(text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &utc));
}

std::string date_of(const ASN1_TIME* time) {
  std::tm utc{};
  return ASN1_TIME_to_tm(time, &utc) == 1 ? date_of(utc) : "a date that is none";
}

std::string date_of_today() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  return date_of(utc);
}

}  // namespace

std::string certificate_fault(const X509& certificate, long code) {
  if (code == X509_V_OK) return "";
  const std::string fault = X509_verify_cert_error_string(code);
  if (code == X509_V_ERR_CERT_NOT_YET_VALID)
    return fault + ": it begins " + date_of(X509_get0_notBefore(&certificate)) +
           ", and here it is " + date_of_today() + "; compare the clocks of both machines";
  if (code == X509_V_ERR_CERT_HAS_EXPIRED)
    return fault + ": it ended " + date_of(X509_get0_notAfter(&certificate)) + ", and here it is " +
           date_of_today() + "; enrol the device again, or compare the clocks of both machines";
  return fault;
}

}  // namespace cleave::comm
