// A struct that the host and the GPU share, in memory that outlives contexts.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_HOST_WORDS_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_HOST_WORDS_H_

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "absl/status/status.h"
#include "base/status.h"
#include "gpu_daemon/backends/cuda/driver/owned.h"
#include "shm/layout.h"

namespace carillon::gpud::cuda {

template <class T>
class HostWords {
 public:
  HostWords()
      : bytes_(static_cast<std::byte*>(
            std::aligned_alloc(shm::kPageSize, kBytes))) {
    std::memset(bytes_.get(), 0, kBytes);
  }

  T* get() const { return reinterpret_cast<T*>(bytes_.get()); }
  T* operator->() const { return get(); }

  // In a new context.
  absl::Status Register(const Driver& driver) {
    ASSIGN_OR_RETURN(registration_,
                     HostRegistration::Make(driver, {bytes_.get(), kBytes}));
    return absl::OkStatus();
  }
  void Unregister() { registration_ = {}; }
  void Abandon() { registration_.Abandon(); }

 private:
  static constexpr size_t kBytes = shm::AlignUp(sizeof(T), shm::kPageSize);
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };

  std::unique_ptr<std::byte, Free> bytes_;
  HostRegistration registration_;
};

// Words of it, each for itself: what orders them is said where they are used.
template <class T>
T LoadWord(const T& word) {
  return std::atomic_ref(const_cast<T&>(word)).load(std::memory_order_acquire);
}
template <class T>
void StoreWord(T& word, std::type_identity_t<T> value) {
  std::atomic_ref(word).store(value, std::memory_order_release);
}

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_HOST_WORDS_H_
