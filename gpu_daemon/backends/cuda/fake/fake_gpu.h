// A GPU made of CPU threads behind the functions of NVIDIA's driver, so that the
// host code of the CUDA back-end is tested where there is no GPU.
//
//   stream     an ordered queue with a thread of its own (the default stream,
//              too: it waits for no other, and no other for it); streams beyond
//              the number of hardware queues do wait for others
//   kernel     found by its CUDA name: carillon_<name> and carillon_event_<name>
//              run the CPU form of <name>, block by block; the blocks of
//              carillon_persistent_<name> are threads; others are defined by
//              tests or by FakeKernelRegistration
//   memory     the host's, of limited size; kernels may use it, pinned and
//              registered memory, and nothing else
//   room       so many threads an SM as the settings say: a kernel begins when one
//              of its blocks has room, and keeps what it has found until it ends
//   stack      a launch of a kernel with more of it per thread than there is
//              memory for waits for an idle GPU, and fails where it waits in vain
//   graph      its nodes one after another; graphs that kernels launch run on
//              threads of their own; the stream of one that launches itself again
//              says from then on that it is done
//   late       what a driver promises for later happens much later, but before
//              a wait for its stream ends: copies from pageable memory, uploads
//              of graphs
//   pinned     pages of registered memory are the GPU's, whatever becomes of the
//              file that they are of: what is freed there stays for it
//   streams, events, modules and memory are made when all that runs has ended,
//              or not at all
//   reset      of a context waits for the kernels that run there
//   fault      stops all of the context's work and is the answer to all further
//              calls, until the context is destroyed; host memory that was
//              registered in it cannot be registered again, before it has been
//              unregistered
// What NVIDIA's driver leaves undefined or takes long to show is refused here
// (handles of a destroyed context, for example). The timing says nothing.
//
// A process has one FakeGpu at a time. Without one, as in a gpud that runs on
// the shared library libcuda.so.1 of this package, the first call of the driver
// makes one as the environment variable CARILLON_FAKE_CUDA says
// (fake_settings.h).
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_FAKE_FAKE_GPU_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_FAKE_FAKE_GPU_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iosfwd>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "gpu_daemon/backends/cuda/driver/driver.h"
#include "gpu_daemon/backends/cuda/fake/fake_settings.h"
#include "kernels/simt/kernel_info.h"
#include "kernels/simt/types.h"

namespace carillon::gpud::cuda {

enum class DeviceLaunch { kFireAndForget, kTail };

struct FakeImage;

// SMs of a GPU that follow each other. None: all of them.
struct SmRange {
  uint32_t first = 0;
  uint32_t count = 0;

  friend bool operator==(const SmRange&, const SmRange&) = default;
};

// One launch of a kernel, as its function sees it; valid until that returns.
// Thread safe, so that the function may use threads as its warps.
class KernelCall {
 public:
  struct Impl;
  explicit KernelCall(Impl* impl) : impl_(impl) {}

  const simt::Dim3& grid() const;
  const simt::Dim3& block() const;
  uint32_t shared_bytes() const;
  // Parameter number `index`, which must be a T.
  template <class T>
  T param(size_t index) const {
    T value;
    std::memcpy(&value, ParamBytes(index, sizeof(T)), sizeof(T));
    return value;
  }
  int priority() const;  // CUDA's: the lower number is the higher one
  SmRange sms() const;   // that it may run on; never none
  // All of them, as cuLaunchKernel's buffer has them.
  std::span<const std::byte> params() const;
  // The arguments of a kernel of kernels in either of its forms; empty
  // for other kernels, and when the frame is out of reach.
  std::span<const std::byte> args() const;

  // The memory that it may reach, each at its own address.
  std::vector<std::span<std::byte>> memory() const;
  // Changes with it. Any thread's.
  uint64_t memory_changes() const;

  // True when the context faulted or is being destroyed: a GPU would have stopped
  // the kernel, so its function returns soon.
  bool stopped() const;
  // The context faults at once, whatever the kernel does besides: as by a trap of
  // one of its threads.
  void Fault(CUresult fault) const;
  // Where the GPU finds the host's memory at this address: see FreePages().
  const void* HostMemory(const void* address) const;
  // What is to become of a kernel of kernels/ that this one runs by itself, as of
  // a launch. CUDA_SUCCESS: it may run; a fault; or it hangs, and this returns
  // CUDA_ERROR_LAUNCH_TIMEOUT when the context is stopped.
  CUresult Meet(const simt::KernelInfo& kernel, const std::byte* args) const;
  // What cudaGetCurrentGraphExec() gives in this kernel.
  CUgraphExec current_graph() const;
  // cudaGraphLaunch() in this kernel. CUDA_ERROR_INVALID_VALUE: not launchable by
  // a GPU; still running or retiring; launch budget used up; a second tail launch
  // of itself; not in a graph. INVALID_HANDLE: not uploaded (yet).
  // LAUNCH_OUT_OF_RESOURCES: a tail launch that is to be refused.
  CUresult Launch(CUgraphExec exec, DeviceLaunch mode);

 private:
  const std::byte* ParamBytes(size_t index, size_t size) const;
  Impl* impl_;
};

// Runs a launch to its end. CUDA_SUCCESS, or the fault that it ends with.
using KernelFunction = std::function<CUresult(KernelCall&)>;

// A kernel of every FakeGpu of the binary (or libcuda.so.1) that it is linked
// into. As a static object.
class FakeKernelRegistration {
 public:
  FakeKernelRegistration(std::string name, std::vector<uint32_t> param_sizes,
                         KernelFunction function);
};

// Reads images in place of ParseImage(), and says how their kernels run.
using ImageLoader = std::function<CUresult(const void* image, FakeImage& loaded,
                                           std::string& log)>;

// The GPU that executes code behind a FakeGpu of the binary (or libcuda.so.1)
// that this is linked into; `name` is the GPU's. As a static object, at most one.
class ExecutingGpu {
 public:
  ExecutingGpu(std::string name, ImageLoader load);
  // nullptr: none, kernels are C++.
  static const ExecutingGpu* Find();

  const std::string name;
  const ImageLoader load;
};

struct LiveObjects {
  uint64_t contexts = 0;
  uint64_t green_contexts = 0;
  uint64_t streams = 0;  // without the default ones
  uint64_t events = 0;
  uint64_t allocations = 0;  // of device memory
  uint64_t pinned = 0;       // of host memory
  uint64_t registrations = 0;
  uint64_t modules = 0;
  uint64_t graphs = 0;
  uint64_t execs = 0;
  uint64_t mappings = 0;  // cuMemCreate and cuMemAddressReserve

  friend bool operator==(const LiveObjects&, const LiveObjects&) = default;
  friend std::ostream& operator<<(std::ostream& out, const LiveObjects& live);
};

// Of a kernel's launches since the beginning.
struct LaunchPlaces {
  // Those of the green context of their stream; in a graph, of the stream that
  // their node was captured in, or of the context that it was made in; or all.
  std::set<uint32_t> sms;
  // Of their stream; in a graph made with USE_NODE_PRIORITY, of their node; in
  // another that a kernel launched, the lowest. CUDA's.
  std::set<int> priorities;
  std::set<int> memory_domains;  // CUlaunchMemSyncDomain
};

// Thread safe.
class FakeGpu {
 public:
  explicit FakeGpu(FakeSettings settings = {});
  // Destroys all that was left.
  ~FakeGpu();
  FakeGpu(const FakeGpu&) = delete;
  FakeGpu& operator=(const FakeGpu&) = delete;

  // The table; initialised (cuInit) if there is a device.
  Driver driver();

  // A kernel of every fatbin, or how one that a cubin or PTX text names runs.
  // Where the image does not say, its parameters lie as a compiler would place
  // them.
  void DefineKernel(std::string name, std::vector<uint32_t> param_sizes,
                    KernelFunction function);
  // A fatbin with nothing in it: all of kernels in their two forms.
  // A real image has the kernels that it names. Those of a fatbin that are of
  // kernels run; a user's own run only when defined.
  static std::span<const std::byte> Image();

  // Which launches of a kernel: by the name of its CUDA function, or by that of
  // its KernelInfo for all forms. Of a persistent form: which events.
  using When = std::function<bool(const KernelCall&)>;
  // The nth from now on, from 1.
  static When Nth(uint64_t nth);
  static When Always();
  // They fault and do nothing else.
  void FaultOn(std::string kernel, When when,
               CUresult fault = CUDA_ERROR_ILLEGAL_ADDRESS);
  // They never end by themselves.
  void HangOn(std::string kernel, When when);

  // As a device does that punches a hole into registered memory, and writes there
  // what it finds gone: the CPU has new pages with the same contents, the GPU has
  // the old ones, for as long as they are registered. Of kernels only gpud's own
  // heed it: they look at doorbells and entries.
  void FreePages(void* address, uint64_t size);

  // The next `count` calls of a function ("cuMemAlloc") fail so, without effect.
  void FailNext(std::string function, CUresult result, uint32_t count = 1);
  // From now on; what is not for later (devices) does not change.
  void ChangeSettings(const std::function<void(FakeSettings&)>& change);

  // Calls of each of the driver's functions ("cuMemAlloc") since the beginning.
  std::map<std::string, uint64_t> calls() const;
  // Launches that began, by the name of the CUDA function.
  uint64_t launches(const std::string& function) const;
  // Where they began, by the name of the CUDA function.
  std::map<std::string, LaunchPlaces> places() const;
  // launches() and places() begin anew.
  void ForgetLaunches();
  LiveObjects live_objects() const;
  uint64_t memory_used() const;
  // Calls with a handle that names nothing (any more): on a GPU anything may
  // happen then.
  uint64_t stale_uses() const;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_FAKE_FAKE_GPU_H_
