// What the back-end makes in a CUDA context, each destroyed by the object that
// holds it. Move-only. Not thread safe, but for reading the handle.
//
// The Driver must outlive them, and their context must be current where they are
// made and destroyed. They must go before their context; where a fault took the
// context first, Abandon() them, for the driver has freed what they name.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_OWNED_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_OWNED_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "absl/status/statusor.h"
#include "gpu_daemon/backends/cuda/driver/driver.h"

namespace carillon::gpud::cuda {

// A handle and the function of the driver that destroys it.
template <class Handle, auto Destroy>
class Owned {
 public:
  Owned() = default;
  // Takes the handle over. Driver: not nullptr.
  Owned(const Driver* driver, Handle handle)
      : driver_(driver), handle_(handle) {}
  ~Owned() { Reset(); }
  Owned(Owned&& other) noexcept
      : driver_(std::exchange(other.driver_, nullptr)),
        handle_(std::exchange(other.handle_, Handle{})) {}
  Owned& operator=(Owned&& other) noexcept {
    if (this != &other) {
      Reset();
      driver_ = std::exchange(other.driver_, nullptr);
      handle_ = std::exchange(other.handle_, Handle{});
    }
    return *this;
  }

  Handle get() const { return handle_; }
  explicit operator bool() const { return driver_ != nullptr; }
  // Destroys it now. An error is a fault of the context, which is found by
  // whoever uses that next.
  void Reset() {
    if (driver_ != nullptr) (driver_->*Destroy)(handle_);
    Abandon();
  }
  // Forgets it: its context is gone.
  void Abandon() {
    driver_ = nullptr;
    handle_ = Handle{};
  }

 private:
  const Driver* driver_ = nullptr;  // nullptr: holds nothing
  Handle handle_{};
};

// A stream. Where somebody counts streams, it holds a place until it goes.
class Stream : public Owned<CUstream, &Driver::cuStreamDestroy> {
 public:
  using Owned::Owned;
  void Hold(std::shared_ptr<const void> place) { place_ = std::move(place); }
  void Reset() {
    Owned::Reset();
    place_.reset();
  }
  void Abandon() {
    Owned::Abandon();
    place_.reset();
  }

 private:
  std::shared_ptr<const void> place_;
};
using Event = Owned<CUevent, &Driver::cuEventDestroy>;
using Module = Owned<CUmodule, &Driver::cuModuleUnload>;
using Graph = Owned<CUgraph, &Driver::cuGraphDestroy>;
using GraphExec = Owned<CUgraphExec, &Driver::cuGraphExecDestroy>;
using GreenContext = Owned<CUgreenCtx, &Driver::cuGreenCtxDestroy>;

// Errors of all that follow: what ToStatus() says, naming what was to be made.

// Never waits for the default stream. Priority: 0 is the lowest, negative ones
// are higher (cuCtxGetStreamPriorityRange).
absl::StatusOr<Stream> MakeStream(const Driver& driver, int priority = 0);
// On the green context's SMs, whatever context is current.
absl::StatusOr<Stream> MakeStream(const Driver& driver,
                                  const GreenContext& green, int priority);
// Flags: CU_EVENT_DISABLE_TIMING makes it cheaper.
absl::StatusOr<Event> MakeEvent(const Driver& driver,
                                unsigned flags = CU_EVENT_DISABLE_TIMING);
absl::StatusOr<Graph> MakeGraph(const Driver& driver);
// Flags: CUgraphInstantiate_flags. With ..._UPLOAD, `upload` is where.
absl::StatusOr<GraphExec> Instantiate(const Driver& driver, CUgraph graph,
                                      uint64_t flags,
                                      CUstream upload = nullptr);
// Image: fatbin, cubin or PTX text; the compiler's own words are in the message.
absl::StatusOr<Module> LoadModule(const Driver& driver,
                                  std::span<const std::byte> image);
// InvalidArgument and NotFound name the function.
absl::StatusOr<CUfunction> FindFunction(const Driver& driver, CUmodule module,
                                        const char* name);

// Device memory.
class DeviceBytes {
 public:
  DeviceBytes() = default;
  // Zeroed. Size 0 is an error.
  static absl::StatusOr<DeviceBytes> Make(const Driver& driver, uint64_t size);

  // Copies to its start. Kernels of every stream find it when this returns.
  CUresult Write(const Driver& driver, const void* from, uint64_t bytes) const;

  CUdeviceptr address() const { return memory_.get(); }
  uint64_t size() const { return size_; }
  // For the GPU alone: the CPU must not follow it.
  template <class T>
  T* as(uint64_t offset = 0) const {
    return reinterpret_cast<T*>(memory_.get() + offset);
  }
  void Abandon() { memory_.Abandon(); }

 private:
  Owned<CUdeviceptr, &Driver::cuMemFree> memory_;
  uint64_t size_ = 0;
};

// Memory of the host that the GPU reads and writes at the same address.
class PinnedBytes {
 public:
  PinnedBytes() = default;
  // Zeroed, mapped for all contexts. Size 0 is an error.
  static absl::StatusOr<PinnedBytes> Make(const Driver& driver, uint64_t size);

  std::byte* data() const { return static_cast<std::byte*>(memory_.get()); }
  uint64_t size() const { return size_; }
  template <class T>
  T* as(uint64_t offset = 0) const {
    return reinterpret_cast<T*>(data() + offset);
  }
  void Abandon() { memory_.Abandon(); }

 private:
  Owned<void*, &Driver::cuMemFreeHost> memory_;
  uint64_t size_ = 0;
};

// Memory of somebody else (an aperture) that the GPU may use while this lives,
// at the host's addresses.
class HostRegistration {
 public:
  HostRegistration() = default;
  // Memory: at page boundaries, without another HostRegistration that begins
  // there. What a lost context has left registered is taken over. Errors: also Unimplemented, for a GPU that
  // needs other addresses than the host's.
  static absl::StatusOr<HostRegistration> Make(const Driver& driver,
                                               std::span<std::byte> memory);

  void Abandon() { memory_.Abandon(); }

 private:
  Owned<void*, &Driver::cuMemHostUnregister> memory_;
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_OWNED_H_
