// A Port (edge_dispatch.h) whose warps are threads: for tests of the dispatcher
// and for GPUs that are played by CPU threads.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_EDGE_THREAD_PORT_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_EDGE_THREAD_PORT_H_

#include <sched.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/clock.h"
#include "gpu_daemon/backends/cuda/edge/edge_block.h"
#include "gpu_daemon/backends/cuda/edge/edge_table.h"
#include "shm/layout.h"

namespace carillon::gpud {

// What a dispatcher cannot do by memory alone. Called by its warps' threads.
class EdgeThreadGpu {
 public:
  virtual ~EdgeThreadGpu() = default;
  virtual LaunchOutcome Launch(uint32_t dispatcher, uint64_t exec,
                               uint64_t* error) = 0;
  // A tail launch of the dispatcher's own graph.
  virtual bool Relaunch(uint32_t dispatcher, uint64_t* error) = 0;
  virtual void RunInline(const EdgeEntry& entry, const std::byte* args,
                         uint32_t* fail_status) = 0;
  // Ends the context: from now on alive() is false.
  virtual void Trap() = 0;
  virtual bool alive() const = 0;
  // Where the GPU finds the host's memory at this address.
  virtual const void* HostMemory(const void* address) const { return address; }
};

// Ends a warp's thread when the context is gone; thrown by EdgeThreadPort.
struct EdgeContextLost {};

class EdgeThreadPort {
 public:
  template <class T>
  using Lanes = std::array<T, kEdgeLanes>;

  EdgeThreadPort(EdgeThreadGpu* gpu, uint32_t dispatcher)
      : gpu_(gpu), dispatcher_(dispatcher) {}

  template <class F>
  void EachLane(F f) {
    for (uint32_t lane = 0; lane < kEdgeLanes; ++lane) f(lane);
  }
  template <class F>
  uint32_t Ballot(F f) {
    uint32_t lanes = 0;
    for (uint32_t lane = 0; lane < kEdgeLanes; ++lane) {
      if (f(lane)) lanes |= 1u << lane;
    }
    return lanes;
  }
  template <class F>
  auto Elect(F f) {
    return f();
  }
  template <class T>
  T Value(const Lanes<T>& lanes, uint32_t lane) {
    return lanes[lane];
  }
  static constexpr uint32_t index() { return 0; }
  static constexpr uint32_t count() { return 1; }
  static void Sync() {}
  static bool Any(bool mine) { return mine; }

  // TSan knows no fences: what a GPU orders by one is an acquire here.
  void PollLine(Lanes<uint32_t>& lanes, const uint32_t* words) {
    Pause(0);  // a core may have many warps to play
    words = Host(words);
    for (uint32_t lane = 0; lane < kEdgeLanes; ++lane) {
      lanes[lane] = Load(words + lane, std::memory_order_acquire);
    }
  }
  uint32_t PollWord(const uint32_t* word) {
    return Load(Host(word), std::memory_order_acquire);
  }
  // The words that say whether it is whole come first: so the others are no older
  // than these.
  void PollEntry(Lanes<uint64_t>& words, const std::byte* from) {
    const auto* entry = reinterpret_cast<const uint64_t*>(Host(from));
    for (const uint32_t lane : {7u, 0u, 1u, 2u, 3u, 4u, 5u, 6u}) {
      words[lane] = PollUnowned(entry + lane);
    }
  }
  void AcquirePolled() {}
  void CopyEntry(std::byte* to, const std::byte* from, uint32_t bytes) {
    from = Host(from);
    for (uint32_t i = 0; i < bytes; i += 8) {
      const uint64_t word = Load(reinterpret_cast<const uint64_t*>(from + i),
                                 std::memory_order_relaxed);
      std::memcpy(to + i, &word, sizeof(word));
    }
  }

  uint32_t LoadBlock(const uint32_t* word) {
    return Load(word, std::memory_order_acquire);
  }
  uint64_t LoadBlock(const uint64_t* word) {
    return Load(word, std::memory_order_acquire);
  }
  void StoreBlock(uint64_t* word, uint64_t value) {
    Ref(word).store(value, std::memory_order_release);
  }
  void StoreBlock(uint32_t* word, uint32_t value) {
    Ref(word).store(value, std::memory_order_release);
  }
  uint32_t AddBlock(uint32_t* word, uint32_t value) {
    return Ref(word).fetch_add(value, std::memory_order_acq_rel);
  }

  uint32_t LoadDevice(const uint32_t* word) {
    return Load(word, std::memory_order_acquire);
  }
  void FreeDevice(uint32_t* word, uint32_t value) {
    Ref(word).store(value, std::memory_order_release);
  }
  bool TakeDevice(uint32_t* word, uint32_t from, uint32_t to) {
    return Ref(word).compare_exchange_strong(from, to,
                                             std::memory_order_acquire);
  }
  uint32_t AddDevice(uint32_t* word, uint32_t value) {
    return Ref(word).fetch_add(value, std::memory_order_acq_rel);
  }
  // Acquire and release, where a GPU needs neither: a kernel has what it loaded
  // before it stores what comes behind, so that who sees that may overwrite it.
  template <class T>
  T PeekDevice(const T* word) {
    return Load(word, std::memory_order_acquire);
  }
  template <class T>
  void PutDevice(T* word, std::type_identity_t<T> value) {
    Ref(word).store(value, std::memory_order_release);
  }
  template <class T>
  void CountDevice(T* word, std::type_identity_t<T> value) {
    Ref(word).fetch_add(value, std::memory_order_relaxed);
  }

  template <class T>
  void ReleaseSystem(T* word, std::type_identity_t<T> value) {
    Ref(word).store(value, std::memory_order_release);
  }
  template <class T>
  void StoreSystem(T* word, std::type_identity_t<T> value) {
    // Release: so that a test that reads it with acquire may look further.
    Ref(word).store(value, std::memory_order_release);
  }
  template <class T>
  T LoadSystem(const T* word) {
    return Load(word, std::memory_order_relaxed);
  }
  void Complete(shm::EcqEntry* to, shm::EventState state, uint32_t status,
                uint64_t sequence) {
    Ref(&to->state).store(state, std::memory_order_relaxed);
    Ref(&to->status).store(status, std::memory_order_relaxed);
    Ref(&to->sequence).store(sequence, std::memory_order_release);
  }

  LaunchOutcome Launch(uint64_t exec, uint64_t* error) {
    return gpu_->Launch(dispatcher_, exec, error);
  }
  bool RelaunchSelf(uint64_t* error) {
    return gpu_->Relaunch(dispatcher_, error);
  }
  void RunInline(const EdgeEntry& entry, const std::byte* args,
                 uint32_t* fail_status) {
    gpu_->RunInline(entry, args, fail_status);
  }
  uint64_t NowNs() { return carillon::NowNs(); }
  void Pause(uint32_t) {
    if (!gpu_->alive()) throw EdgeContextLost();
    sched_yield();
  }
  [[noreturn]] void Trap() {
    gpu_->Trap();
    throw EdgeContextLost();
  }

 private:
  // The device may be writing there: what it says is used only if it is whole.
  // TSan sees no atomic operation here, and an x86 CPU loads in order.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
  __attribute__((no_sanitize("thread")))
#endif
#endif
#if defined(__SANITIZE_THREAD__)
  __attribute__((no_sanitize_thread))
#endif
  static uint64_t
  PollUnowned(const uint64_t* word) {
    return *static_cast<const volatile uint64_t*>(word);
  }
  template <class T>
  const T* Host(const T* address) const {
    if (gpu_ == nullptr) return address;
    return static_cast<const T*>(gpu_->HostMemory(address));
  }
  template <class T>
  static std::atomic_ref<T> Ref(T* word) {
    return std::atomic_ref<T>(*word);
  }
  template <class T>
  static T Load(const T* word, std::memory_order order) {
    return std::atomic_ref<T>(*const_cast<T*>(word)).load(order);
  }

  EdgeThreadGpu* const gpu_;
  const uint32_t dispatcher_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_EDGE_THREAD_PORT_H_
