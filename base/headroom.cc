#include "base/headroom.h"

#include <sys/eventfd.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"
#include "fmt/format.h"

namespace carillon {
namespace {

absl::Status TryDescriptors(size_t wanted) {
  std::vector<UniqueFd> held;
  while (held.size() < wanted) {
    UniqueFd one(eventfd(0, EFD_CLOEXEC));
    if (!one) {
      return absl::ResourceExhaustedError(fmt::format(
          "{} descriptors are needed and {} can be had ({}): raise the limit "
          "(ulimit -n)",
          wanted, held.size(), std::strerror(errno)));
    }
    held.push_back(std::move(one));
  }
  return absl::OkStatus();
}

absl::Status TryThreads(size_t wanted) {
  std::vector<std::thread> started;
  started.reserve(wanted);
  // Writer: this thread; readers: the others, which all wait for it.
  std::atomic<bool> enough{false};
  absl::Status status;
  try {
    while (started.size() < wanted) {
      started.emplace_back([&enough] { enough.wait(false); });
    }
  } catch (const std::system_error& error) {
    status = absl::ResourceExhaustedError(fmt::format(
        "{} threads are needed and {} can be had ({}): raise the limits of "
        "processes and of memory (ulimit -u, ulimit -v)",
        wanted, started.size(), error.code().message()));
  }
  enough.store(true);
  enough.notify_all();
  for (std::thread& thread : started) thread.join();
  return status;
}

}  // namespace

absl::Status CheckHeadroom(size_t descriptors, size_t threads) {
  RETURN_IF_ERROR(TryDescriptors(descriptors));
  return TryThreads(threads);
}

void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace carillon
