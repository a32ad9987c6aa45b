// Lets chosen users, besides the owner, at one file: by a POSIX access control
// list, so that nobody else of their groups gets in.
#ifndef CARILLON_GPU_DAEMON_CONTROL_NET_USER_ACCESS_H_
#define CARILLON_GPU_DAEMON_CONTROL_NET_USER_ACCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"

namespace carillon::gpud {

enum class UserAccess : uint16_t {
  kPassThrough = 1,   // a directory: open what is in it by name; no listing
  kReadAndWrite = 6,  // a socket: connect
};

// Sets the whole list of `path`: its owner keeps all (for a directory) or reads
// and writes, `users` get `access`, and nobody else anything. Errors:
// FailedPrecondition (the file system has no such lists), Unavailable with the
// system's reason.
absl::Status LetUsers(const std::string& path, std::span<const uid_t> users,
                      UserAccess access);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_NET_USER_ACCESS_H_
