#include "tools/bench/transports/link_files.h"

#include "base/status.h"
#include "base/subprocess.h"
#include "fmt/format.h"
#include "tools/bench/transports/wait.h"

namespace carillon::bench {

TlsFiles LinkFilesIn(const std::string& directory) {
  const std::string certificate = directory + "/link.pem";
  return {.certificate = certificate,
          .key = directory + "/link.key",
          .ca = certificate};
}

absl::StatusOr<TlsFiles> MakeLinkFiles(const std::string& directory) {
  const TlsFiles files = LinkFilesIn(directory);
  const std::string log = directory + "/openssl.log";
  ASSIGN_OR_RETURN(
      auto openssl,
      Subprocess::Start(
          {.argv = {"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
                    "-subj", "/CN=bench", "-addext",
                    "subjectAltName=URI:carillon:role:link,DNS:a,DNS:b",
                    "-keyout", files.key, "-out", files.certificate},
           .log_path = log}));
  if (!openssl.AwaitEnd(kPatience) || !openssl.Reap().ok()) {
    return absl::InternalError(
        fmt::format("openssl made no certificate: see {}", log));
  }
  return files;
}

}  // namespace carillon::bench
