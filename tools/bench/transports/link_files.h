// What both ends of a link need for a measurement on this machine.
#ifndef CARILLON_TOOLS_BENCH_TRANSPORTS_LINK_FILES_H_
#define CARILLON_TOOLS_BENCH_TRANSPORTS_LINK_FILES_H_

#include <string>

#include "absl/status/statusor.h"
#include "base/tls_files.h"

namespace carillon::bench {

// Makes a certificate in `directory` that is its own CA, and is of both hosts of
// a link, "a" and "b". Errors: those of Subprocess::Start() for `openssl`;
// Internal: what it says is in `directory`/openssl.log.
absl::StatusOr<TlsFiles> MakeLinkFiles(const std::string& directory);
// The same files, once they are there.
TlsFiles LinkFilesIn(const std::string& directory);

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_TRANSPORTS_LINK_FILES_H_
