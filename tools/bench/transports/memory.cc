#include "tools/bench/transports/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/status.h"
#include "fmt/format.h"
#include "shm/load_shared.h"
#include "shm/waiting.h"

namespace carillon::bench {
namespace {

absl::StatusOr<void*> MapAll(int fd, size_t bytes) {
  void* memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        fmt::format("mmap of {} bytes: {}", bytes, std::strerror(errno)));
  }
  return memory;
}

}  // namespace

std::string PathOfDescriptor(int fd) {
  return fmt::format("/proc/{}/fd/{}", getpid(), fd);
}

absl::StatusOr<UniqueFd> OpenDescriptor(const std::string& path,
                                        bool writable) {
  UniqueFd fd(open(path.c_str(), (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC));
  if (fd) return fd;
  return absl::NotFoundError(
      fmt::format("cannot open the server's memory: {}", std::strerror(errno)));
}

absl::StatusOr<void*> MakeSharedMemory(size_t bytes, std::string* path) {
  UniqueFd fd(memfd_create("carillon-bench", MFD_CLOEXEC));
  if (!fd || ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return absl::ResourceExhaustedError(
        fmt::format("memfd of {} bytes: {}", bytes, std::strerror(errno)));
  }
  auto memory = MapAll(fd.get(), bytes);
  // The descriptor stays open for the client until the process ends.
  if (memory.ok()) *path = PathOfDescriptor(fd.release());
  return memory;
}

absl::StatusOr<void*> MapSharedMemory(const std::string& path, size_t bytes) {
  ASSIGN_OR_RETURN(const auto fd, OpenDescriptor(path, true));
  return MapAll(fd.get(), bytes);
}

void PublishWord(uint32_t* word, uint32_t value, Wait wait) {
  std::atomic_ref<uint32_t>(*word).store(value, std::memory_order_release);
  // Whether anybody sleeps is not asked: the call itself finds out.
  if (wait != Wait::kSpins) shm::FutexWakeAll(word);
}

bool WaitForWord(const uint32_t* word, uint32_t seen, Wait wait,
                 std::chrono::nanoseconds spin) {
  const auto changed = [&] {
    return shm::LoadShared(*word, std::memory_order_acquire) != seen;
  };
  return WaitUntil(wait, spin, changed, [&] {
    while (!changed()) {
      const std::array<shm::FutexWord, 1> words = {shm::FutexWord{word, seen}};
      if (shm::FutexWait(words, kPatience) == shm::WaitResult::kTimedOut) {
        return changed();
      }
    }
    return true;
  });
}

}  // namespace carillon::bench
