// Memory as gpud shares it with devices: a file in memory, mapped and registered.
#ifndef CARILLON_TOOLS_GPU_CHECK_PROBES_SHARED_PAGES_H_
#define CARILLON_TOOLS_GPU_CHECK_PROBES_SHARED_PAGES_H_

#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "tools/gpu_check/probes/probe.h"

namespace carillon::gpu_check {

class SharedPages {
 public:
  SharedPages(const Kit& kit, uint64_t bytes) : bytes_(bytes) {
    file_ = memfd_create("probe", MFD_CLOEXEC);
    if (file_ < 0 || ftruncate(file_, static_cast<off_t>(bytes)) != 0) {
      Kit::Die("no shared memory");
    }
    data_ = static_cast<std::byte*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                         MAP_SHARED | MAP_POPULATE, file_, 0));
    if (data_ == MAP_FAILED) Kit::Die("cannot map shared memory");
    const auto start = std::chrono::steady_clock::now();
    registration_ = kit.Must(
        gpud::cuda::HostRegistration::Make(kit.driver(), {data_, bytes}));
    register_ms_ = MicrosSince(start) / 1000;
  }
  template <class T>
  T* as(uint64_t offset = 0) const {
    return reinterpret_cast<T*>(data_ + offset);
  }
  uint64_t bytes() const { return bytes_; }
  int file() const { return file_; }
  double register_ms() const { return register_ms_; }
  gpud::cuda::HostRegistration& registration() { return registration_; }

 private:
  const uint64_t bytes_;
  int file_ = -1;  // closed by the process's end
  std::byte* data_ = nullptr;
  gpud::cuda::HostRegistration registration_;
  double register_ms_ = 0;
};

}  // namespace carillon::gpu_check

#endif  // CARILLON_TOOLS_GPU_CHECK_PROBES_SHARED_PAGES_H_
