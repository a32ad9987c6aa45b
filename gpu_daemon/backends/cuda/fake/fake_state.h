// What the functions of the fake driver work on. Internal to this package.
//
// One mutex guards everything but the memory that kernels use; it is not held
// while kernels run. Handles are numbers that are used once a process, so that a
// handle of something destroyed is found out.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_FAKE_FAKE_STATE_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_FAKE_FAKE_STATE_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "gpu_daemon/backends/cuda/fake/fake_gpu.h"
#include "gpu_daemon/backends/cuda/fake/fake_image.h"
#include "kernels/simt/kernel_info.h"

namespace carillon::gpud::cuda {

using Lock = std::unique_lock<std::mutex>;

struct Stream;

// A context with all that it owns, and the green contexts beside it.
struct Root {
  int device = 0;
  CUresult fault = CUDA_SUCCESS;  // sticky
  // Faulted or being destroyed: nothing goes on. Writer: under the mutex;
  // readers: kernels at any time. Relaxed: it stands for itself.
  std::atomic<bool> stopped{false};
  bool destroyed = false;
  // Bytes of stack per thread: what the next launch with a stack may take
  // (cuCtxSetLimit), and what there is memory for.
  uint64_t stack_limit = 1024;
  uint64_t stack_taken = 0;
  std::shared_ptr<Stream> default_stream;
  std::vector<std::shared_ptr<Stream>> streams;  // with the destroyed ones

  uint32_t waiters = 0;  // threads that wait for all of its streams

  // Graphs that kernels launched run on these.
  std::vector<std::thread> launchers;
  std::vector<std::thread> gone_launchers;  // to be joined
  std::deque<std::function<void()>> launched;
  uint32_t idle_launchers = 0;
};
using RootPtr = std::shared_ptr<Root>;

struct Context {
  RootPtr root;
  SmRange sms;  // of a green one
  // Of a green one: where it is current. Default: nowhere.
  std::thread::id current_in;
};

// Where a kernel is to run.
struct Place {
  SmRange sms;  // of a green context
  int priority = 0;
  int memory_domain = 0;
};

struct Graph;

struct Stream {
  RootPtr root;
  Place place;
  // What is put into it becomes nodes of this, and does not happen.
  std::shared_ptr<Graph> capture;
  std::deque<std::function<void()>> work;
  bool busy = false;
  uint64_t begun = 0;  // pieces of work
  bool closing = false;
  bool aliased = false;  // has no hardware queue of its own
  // The graph in it has launched itself again: a query finds it done.
  bool relaunched = false;
  uint32_t waiters = 0;  // threads that wait until it is idle
  std::thread thread;

  bool idle() const { return work.empty() && !busy; }
};
using StreamPtr = std::shared_ptr<Stream>;

struct Event {
  RootPtr root;
  bool timed = false;
  bool recorded = false;
  uint64_t pending = 0;  // records that are still to happen
  std::chrono::steady_clock::time_point time;
};

struct Function {
  enum class Form { kPlain, kEvent, kCall, kPtb, kPersistent, kDefined, kNone };
  std::string name;
  Form form = Form::kNone;  // kNone: known, but it cannot run here
  const simt::KernelInfo* kernel = nullptr;
  KernelFunction defined;
  std::vector<FakeParam> params;
  uint32_t local_bytes = 0;  // of stack, a thread
  uint32_t registers = 32;   // a thread
  // Of form kDefined.
  uint32_t own_shared_bytes = 0;
  // What a launch may ask for; nullopt: as much as CUDA gives without asking.
  std::optional<int> largest_dynamic_shared;

  // That its code declares.
  int static_shared() const {
    return form == Form::kEvent || form == Form::kCall || form == Form::kPtb
               ? 128
               : static_cast<int>(own_shared_bytes);
  }
  int LargestDynamicShared() const {
    return largest_dynamic_shared.value_or((48 << 10) - static_shared());
  }
};
using FunctionPtr = std::shared_ptr<Function>;

struct Module {
  RootPtr root;
  FakeImage image;
  std::map<std::string, uint64_t> functions;  // handles
  std::map<std::string, std::pair<uint64_t, uint64_t>> globals;
};

struct LaunchSpec {
  FunctionPtr function;
  simt::Dim3 grid;
  simt::Dim3 block;
  uint32_t shared_bytes = 0;
  Place place;
  std::vector<std::byte> params;
};

struct GraphNode {
  uint64_t handle = 0;
  LaunchSpec launch;
};

struct Graph {
  std::vector<GraphNode> nodes;  // each after those that it depends on
};

struct Exec {
  RootPtr root;
  uint64_t handle = 0;
  uint64_t memory = 0;  // on the GPU
  std::vector<GraphNode> nodes;
  bool device_launch = false;
  bool node_priorities = false;  // not those of where it is launched
  bool uploaded = false;
  bool busy = false;  // running or retiring

  SmRange sms() const { return nodes.front().launch.place.sms; }
};
using ExecPtr = std::shared_ptr<Exec>;

// One run of a graph.
struct Execution {
  ExecPtr exec;
  uint32_t launches = 0;  // fire and forget
  uint32_t running = 0;   // of these
  std::deque<ExecPtr> tails;
};

struct MemoryRange {
  enum class Kind { kDevice, kMapped, kPinned, kRegistered };
  uint64_t size = 0;
  Kind kind = Kind::kDevice;
  RootPtr root;  // nullptr: of no context
  // Registered in a context that faulted: the driver has kept it, for no kernel,
  // and refuses to register the same memory again.
  bool left_behind = false;
};

struct Fate {
  std::string kernel;
  FakeGpu::When when;
  CUresult fault = CUDA_SUCCESS;  // CUDA_SUCCESS: never ends
};

struct DefinedKernel {
  std::vector<uint32_t> param_sizes;
  KernelFunction function;
};

struct KernelCall::Impl {
  FakeGpu::State& state;
  Root& root;
  const LaunchSpec& launch;
  Execution* execution;  // nullptr outside of a graph
};

struct FakeGpu::State {
  explicit State(FakeSettings initial);
  ~State();

  // --- Contexts and streams (fake_state.cc). The mutex is held.

  CUresult Retain(int device, uint64_t& handle);
  CUresult Release(Lock& lock, int device);
  uint64_t AddContext(RootPtr root, SmRange sms);
  RootPtr NewRoot(int device);
  // Stops all of its work and destroys what it owns.
  void Destroy(Lock& lock, const RootPtr& root);
  void Fault(Root& root, CUresult fault);

  StreamPtr NewStream(const RootPtr& root);
  // Whether its next work may start: a queue that it shares is free.
  static bool HasQueue(const Stream& stream);
  void Push(Stream& stream, std::function<void()> work);
  // Work that a driver does some time after the call that asked for it: when
  // somebody waits for the stream, or long after everybody else. What comes
  // behind it in the stream waits for it.
  void PushLate(Stream& stream, std::function<void()> work);
  // Waits until it is idle or the context stopped; the fault, if there is one.
  CUresult WaitIdle(Lock& lock, Stream& stream);
  CUresult WaitIdle(Lock& lock, Root& root);
  // Before something is given back: WaitIdle(), if the settings have it so.
  CUresult AwaitIdle(Lock& lock, Root& root);
  // Before something is made: waits until all that runs now has ended. A kernel
  // that stays lets it fail after a while, where a GPU might wait for ever.
  CUresult AwaitQuiet(Lock& lock, const RootPtr& root);
  // Work on a launcher thread of the context.
  void PushLaunch(const RootPtr& root, std::function<void()> work);
  // What such a thread does. The mutex is not held.
  void Launch(Root& root);

  // --- Memory (fake_state.cc). The mutex is held.

  // The range that has all of [address, address + size); nullptr: none.
  const MemoryRange* FindRange(const Root& root, uint64_t address,
                               uint64_t size) const;
  CUresult Allocate(const RootPtr& root, uint64_t size, MemoryRange::Kind kind,
                    uint64_t& address);
  CUresult Free(Lock& lock, uint64_t address, MemoryRange::Kind kind);

  // What a GPU finds at an address of the host's. Without the mutex.
  const void* HostMemory(const void* address) const;
  // What begins there is registered no more. The mutex is held.
  void Unpin(uint64_t address, uint64_t size);

  // --- Kernels (fake_kernel.cc). The mutex is held, but for Run().

  // nullptr: there is no such function in the image.
  FunctionPtr MakeFunction(const FakeImage& image, const std::string& name);
  // Copies the parameters of a launch and checks its shape.
  CUresult MakeLaunch(const FunctionPtr& function, const unsigned* grid,
                      const unsigned* block, unsigned shared_bytes,
                      void** params, void** extra, LaunchSpec& launch) const;
  // Stack of one of gpud's kernels.
  uint32_t OwnLocalBytes(std::string_view name) const;
  // The names of an image's functions.
  std::vector<std::string> FunctionNames(const FakeImage& image) const;
  // Memory for a stack of so many bytes per thread: where there is too little,
  // it waits until the GPU is idle. Errors: UNKNOWN, it waited in vain.
  CUresult TakeStack(Lock& lock, Root& root, uint32_t bytes);
  // Runs it to its end in the calling thread; a fault becomes the context's.
  void Run(Root& root, const LaunchSpec& launch, Execution* execution);
  // Room for a kernel's blocks, as many as fit and at least one: waits for it, and
  // returns the threads taken. 0: the context is stopped. The mutex is held.
  uint64_t TakeRoom(Lock& lock, const Root& root, const LaunchSpec& launch);
  // Whether [address, address + size) is there for a kernel of this context.
  bool Reachable(const Root& root, const void* address, uint64_t size);
  bool IsDeviceMemory(const Root& root, const void* address, uint64_t size);
  // The fates that a launch of it may meet. The mutex is held.
  std::vector<Fate> FatesOf(const Function& function) const;

  // --- Graphs (fake_graph.cc). The mutex is not held.

  // Runs a graph whose exec was made busy, and all that it launches. Priority: of
  // the stream that it is launched in; stream: that one, nullptr: none.
  void RunGraph(const RootPtr& root, const ExecPtr& exec, int priority,
                Stream* stream);
  CUresult LaunchFromKernel(Root& root, Execution* execution, uint64_t handle,
                            DeviceLaunch mode);

  static uint64_t NewHandle();
  FakeSettings settings;
  // What every call gives from a fault on, if they stay.
  CUresult lasting_fault = CUDA_SUCCESS;
  mutable std::mutex mutex;
  // Anything changed: work done, a fault, work for a thread.
  std::condition_variable changed;
  bool initialised = false;

  struct Primary {
    uint32_t references = 0;
    RootPtr root;
    uint64_t handle = 0;
  };
  std::map<int, Primary> primaries;
  std::vector<RootPtr> roots;
  std::unordered_map<uint64_t, Context> contexts;
  std::unordered_map<uint64_t, SmRange> resource_descs;
  struct Green {
    RootPtr root;
    SmRange sms;
    uint64_t context = 0;
  };
  std::unordered_map<uint64_t, Green> greens;
  std::unordered_map<uint64_t, StreamPtr> streams;
  std::unordered_map<uint64_t, std::shared_ptr<Event>> events;
  std::unordered_map<uint64_t, std::shared_ptr<Module>> modules;
  std::unordered_map<uint64_t, FunctionPtr> functions;
  std::unordered_map<uint64_t, std::shared_ptr<Graph>> graphs;
  std::unordered_map<uint64_t, uint64_t> node_graphs;  // by node
  std::unordered_map<uint64_t, ExecPtr> execs;
  std::map<uint64_t, MemoryRange> memory;  // by first address
  // Writer: whoever changes that map, under the mutex; readers: kernels, which
  // then look again under it. Relaxed: it stands for itself.
  std::atomic<uint64_t> memory_changes{1};
  uint64_t memory_used = 0;
  // Threads that run, by the number of SMs that they have to themselves; 0: all.
  std::map<uint32_t, uint64_t> threads_used;
  // Pages that were freed and that the GPU still has.
  struct FreedPages {
    uint64_t start = 0;
    uint64_t size = 0;
    std::unique_ptr<std::byte[]> old;
    // False: they are registered no more. Writers: under the mutex; readers:
    // kernels. Relaxed: it stands for itself.
    std::atomic<bool> pinned{true};
    FreedPages* next = nullptr;
  };
  // The last that were freed. Writers: under the mutex, release; readers: kernels
  // at any time, acquire. None goes before the State does.
  std::atomic<FreedPages*> freed{nullptr};
  std::deque<FreedPages> freed_pages;
  struct Physical {
    uint64_t size = 0;
    int file = -1;
  };
  std::unordered_map<uint64_t, Physical> physical;      // by handle
  std::unordered_map<uint64_t, uint64_t> reservations;  // sizes, by address

  std::map<std::string, DefinedKernel> defined;
  std::vector<Fate> fates;
  struct Failure {
    CUresult result;
    uint32_t count;
  };
  std::map<std::string, Failure> failures;
  std::map<std::string, uint64_t> calls;  // of the driver's functions
  std::map<std::string, uint64_t> launches;
  std::map<std::string, LaunchPlaces> places;  // by function
  uint64_t stale_uses = 0;
};

// The one of this process; makes it as the environment says if there never was
// one. nullptr: it is gone.
FakeGpu::State* CurrentFake();

// The context that is current in this thread; 0: none.
inline thread_local uint64_t current_context = 0;

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_FAKE_FAKE_STATE_H_
