// The certificate that one end of a TCP connection to gpud shows, and the CA
// that it believes (docs/security.md).
#ifndef CARILLON_BASE_TLS_FILES_H_
#define CARILLON_BASE_TLS_FILES_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace carillon {

struct TlsFiles {
  std::string certificate;  // PEM; more of its chain may follow
  std::string key;          // PEM, without a passphrase
  std::string ca;           // PEM, one or more CAs: who the other end may be of

  bool any() const {
    return !certificate.empty() || !key.empty() || !ca.empty();
  }
};

// What the files hold.
struct TlsPems {
  std::string certificate;
  std::string key;
  std::string ca;
};

// Reads and judges the files, so that what is wrong is told at once and by the
// one who can mend it. `ca_option`: how the user calls the CA's file
// ("--tls-ca"), for messages; the others are --tls-cert and --tls-key.
// Errors: InvalidArgument: the option, the file, and why: missing, unreadable,
// no regular file, above 1 MiB, no PEM, a key with a passphrase or of another
// certificate, expired, not valid yet, no CA's.
absl::StatusOr<TlsPems> ReadTlsFiles(const TlsFiles& files,
                                     std::string_view ca_option);

}  // namespace carillon

#endif  // CARILLON_BASE_TLS_FILES_H_
