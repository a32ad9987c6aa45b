// A network of a test's own.
#ifndef CARILLON_BASE_TESTING_NETWORK_NAMESPACE_H_
#define CARILLON_BASE_TESTING_NETWORK_NAMESPACE_H_

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "base/unique_fd.h"

namespace carillon {

// Writes `text` to a file that exists, as those of /proc.
inline bool WriteTo(const std::string& path, const std::string& text) {
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return file && write(file.get(), text.data(), text.size()) ==
                     static_cast<ssize_t>(text.size());
}

// Moves this process, which has one thread, into a new network namespace, in
// which it is root; without root's rights it also takes a new user namespace.
// False: there is none to have.
inline bool EnterNetworkNamespace() {
  if (unshare(CLONE_NEWNET) == 0) return true;
  const uid_t user = geteuid();
  const gid_t group = getegid();
  return unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 &&
         WriteTo("/proc/self/setgroups", "deny") &&
         WriteTo("/proc/self/uid_map", fmt::format("0 {} 1", user)) &&
         WriteTo("/proc/self/gid_map", fmt::format("0 {} 1", group));
}

// Runs `ip`, with these flags, on a batch of its commands. False: it refuses one.
// SIGPIPE must be ignored.
inline bool RunIp(const std::string& flags, const std::string& commands) {
  FILE* const ip = popen(("ip " + flags + " -batch -").c_str(), "w");
  if (ip == nullptr) return false;
  const bool written =
      fwrite(commands.data(), 1, commands.size(), ip) == commands.size();
  return pclose(ip) == 0 && written;
}

}  // namespace carillon

#endif  // CARILLON_BASE_TESTING_NETWORK_NAMESPACE_H_
