#include "gpu_daemon/backends/cpu/cpu_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "fmt/format.h"

namespace carillon::gpud {
namespace {

class AnonymousMemory : public GpuMemory {
 public:
  AnonymousMemory(std::byte* data, uint64_t bytes)
      : data_(data), bytes_(bytes) {}
  ~AnonymousMemory() override { munmap(data_, bytes_); }
  std::byte* data() const override { return data_; }

 private:
  std::byte* const data_;
  const uint64_t bytes_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<GpuMemory>> CpuMemory::Allocate(uint64_t bytes) {
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return absl::ResourceExhaustedError(fmt::format(
        "cannot map {} bytes of GPU memory: {}", bytes, std::strerror(errno)));
  }
  return std::make_unique<AnonymousMemory>(static_cast<std::byte*>(data),
                                           bytes);
}

}  // namespace carillon::gpud
