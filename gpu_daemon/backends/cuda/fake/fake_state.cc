#include "gpu_daemon/backends/cuda/fake/fake_state.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <new>
#include <utility>

namespace carillon::gpud::cuda {
namespace {

// Written when a FakeGpu comes and goes, read by every call of the driver.
std::mutex current_mutex;
FakeGpu::State* current = nullptr;
bool had_one = false;

constexpr std::align_val_t kAlignment{512};

// Of late work for which nobody waits: enough that whoever should have waited is
// found out. A caller that does wait never spends it.
constexpr std::chrono::milliseconds kLate{20};
// Threads for graphs that kernels launch; more of them go when they are idle.
constexpr size_t kKeptLaunchers = 4;
// Of AwaitQuiet(): more than any kernel takes that does not stay.
constexpr std::chrono::seconds kPatience{10};

struct Registered {
  std::string name;
  DefinedKernel kernel;
};
std::vector<Registered>& RegisteredKernels() {
  static auto* const kernels = new std::vector<Registered>;
  return *kernels;
}

FakeGpu::When FirstWordIs(uint32_t word) {
  return [word](const KernelCall& call) {
    uint32_t first = 0;
    const std::span<const std::byte> args = call.args();
    if (args.size() < sizeof(first)) return false;
    std::memcpy(&first, args.data(), sizeof(first));
    return first == word;
  };
}

FakeGpu::When WhenOf(const FakeSettings::Fate& fate) {
  return fate.nth != 0 ? FakeGpu::Nth(fate.nth) : FirstWordIs(fate.first_word);
}

}  // namespace

FakeKernelRegistration::FakeKernelRegistration(
    std::string name, std::vector<uint32_t> param_sizes,
    KernelFunction function) {
  RegisteredKernels().push_back(
      {std::move(name), {std::move(param_sizes), std::move(function)}});
}

FakeGpu::State* CurrentFake() {
  {
    std::lock_guard lock(current_mutex);
    if (current != nullptr || had_one) return current;
  }
  const char* text = std::getenv("CARILLON_FAKE_CUDA");
  absl::StatusOr<FakeSettings> settings =
      ParseFakeSettings(text != nullptr ? text : "");
  if (!settings.ok()) {
    std::fprintf(stderr, "%s\n",
                 std::string(settings.status().message()).c_str());
    std::abort();
  }
  // Lives as long as the process, as a driver does.
  static auto* const gpu = new FakeGpu(*std::move(settings));
  (void)gpu;
  std::lock_guard lock(current_mutex);
  return current;
}

FakeGpu::FakeGpu(FakeSettings settings)
    : state_(std::make_unique<State>(std::move(settings))) {
  std::lock_guard lock(current_mutex);
  if (current != nullptr) {
    std::fprintf(stderr, "a process has one FakeGpu at a time\n");
    std::abort();
  }
  current = state_.get();
  had_one = true;
}

FakeGpu::~FakeGpu() {
  {
    Lock lock(state_->mutex);
    while (!state_->roots.empty()) {
      const RootPtr root = state_->roots.back();
      state_->Destroy(lock, root);
    }
  }
  std::lock_guard lock(current_mutex);
  current = nullptr;
}

FakeGpu::State::State(FakeSettings initial) : settings(std::move(initial)) {
  if (settings.driver_version == 0) settings.driver_version = CUDA_VERSION;
  for (const Registered& kernel : RegisteredKernels()) {
    defined[kernel.name] = kernel.kernel;
  }
  for (const FakeSettings::Fate& fate : settings.faults) {
    fates.push_back({fate.kernel, WhenOf(fate), CUDA_ERROR_ILLEGAL_ADDRESS});
  }
  for (const FakeSettings::Fate& fate : settings.hangs) {
    fates.push_back({fate.kernel, WhenOf(fate), CUDA_SUCCESS});
  }
}

FakeGpu::State::~State() = default;

uint64_t FakeGpu::State::NewHandle() {
  // Writers: all; relaxed: each value is given once. Never an address.
  static std::atomic<uint64_t> next{0x1000};
  return next.fetch_add(0x10, std::memory_order_relaxed);
}

RootPtr FakeGpu::State::NewRoot(int device) {
  auto root = std::make_shared<Root>();
  root->device = device;
  roots.push_back(root);
  root->default_stream = NewStream(root);
  return root;
}

uint64_t FakeGpu::State::AddContext(RootPtr root, SmRange sms) {
  const uint64_t handle = NewHandle();
  contexts[handle] = {std::move(root), sms, {}};
  return handle;
}

CUresult FakeGpu::State::Retain(int device, uint64_t& handle) {
  if (lasting_fault != CUDA_SUCCESS) return lasting_fault;
  Primary& primary = primaries[device];
  if (primary.root == nullptr) {
    primary.root = NewRoot(device);
    primary.handle = AddContext(primary.root, {});
  }
  ++primary.references;
  handle = primary.handle;
  return CUDA_SUCCESS;
}

CUresult FakeGpu::State::Release(Lock& lock, int device) {
  Primary& primary = primaries[device];
  if (primary.references == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--primary.references == 0) {
    const RootPtr root = std::exchange(primary.root, nullptr);
    if (root != nullptr) Destroy(lock, root);
  }
  return CUDA_SUCCESS;
}

void FakeGpu::State::Fault(Root& root, CUresult fault) {
  if (root.fault == CUDA_SUCCESS) root.fault = fault;
  if (settings.faults_stay && lasting_fault == CUDA_SUCCESS) {
    lasting_fault = fault;
  }
  root.stopped.store(true, std::memory_order_relaxed);
  changed.notify_all();
}

void FakeGpu::State::Destroy(Lock& lock, const RootPtr& root) {
  if (root->destroyed) return;
  root->destroyed = true;
  root->stopped.store(true, std::memory_order_relaxed);
  for (const StreamPtr& stream : root->streams) stream->closing = true;
  changed.notify_all();
  std::vector<std::thread> threads = std::move(root->launchers);
  std::ranges::move(root->gone_launchers, std::back_inserter(threads));
  root->gone_launchers.clear();
  for (const StreamPtr& stream : root->streams) {
    threads.push_back(std::move(stream->thread));
  }
  lock.unlock();
  for (std::thread& thread : threads) thread.join();
  lock.lock();
  root->streams.clear();
  root->default_stream.reset();
  root->launched.clear();
  const auto is_mine = [&](const auto& entry) {
    return entry.second->root == root;
  };
  std::erase_if(streams, is_mine);
  std::erase_if(events, is_mine);
  std::erase_if(execs, is_mine);
  std::erase_if(modules, [&](const auto& entry) {
    if (entry.second->root != root) return false;
    for (const auto& [name, handle] : entry.second->functions) {
      functions.erase(handle);
    }
    return true;
  });
  std::erase_if(greens, [&](const auto& entry) {
    if (entry.second.root != root) return false;
    // A reset takes green contexts and what they retained.
    Primary& primary = primaries[root->device];
    if (primary.references > 0) --primary.references;
    return true;
  });
  std::erase_if(contexts,
                [&](const auto& entry) { return entry.second.root == root; });
  for (auto range = memory.begin(); range != memory.end();) {
    const auto [address, what] = *range;
    if (what.root != root) {
      ++range;
      continue;
    }
    if (what.kind == MemoryRange::Kind::kRegistered &&
        root->fault != CUDA_SUCCESS) {
      range->second.left_behind = true;
      ++memory_changes;
      range->second.root = nullptr;
      ++range;
      continue;
    }
    range = memory.erase(range);
    Unpin(address, what.size);
    ++memory_changes;
    if (what.kind == MemoryRange::Kind::kDevice) memory_used -= what.size;
    if (what.kind != MemoryRange::Kind::kRegistered) {
      ::operator delete(reinterpret_cast<void*>(address), kAlignment);
    }
  }
  std::erase(roots, root);
  changed.notify_all();
}

StreamPtr FakeGpu::State::NewStream(const RootPtr& root) {
  // Those that were destroyed and are done.
  std::erase_if(root->streams, [](const StreamPtr& stream) {
    const bool over =
        stream->closing && stream->idle() && stream->root == nullptr;
    if (over) stream->thread.join();
    return over;
  });
  auto stream = std::make_shared<Stream>();
  stream->root = root;
  stream->aliased = static_cast<size_t>(std::ranges::count(
                        root->streams, false, [](const StreamPtr& other) {
                          return other->closing;
                        })) >= settings.hardware_queues;
  root->streams.push_back(stream);
  stream->thread = std::thread([this, stream = stream.get()] {
    Lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] {
        return stream->work.empty() ? stream->closing : HasQueue(*stream);
      });
      if (stream->work.empty()) break;
      std::function<void()> work = std::move(stream->work.front());
      stream->work.pop_front();
      if (stream->root->stopped.load(std::memory_order_relaxed)) continue;
      stream->busy = true;
      ++stream->begun;
      lock.unlock();
      work();
      work = nullptr;
      lock.lock();
      stream->busy = false;
      changed.notify_all();
    }
    // Its thread no longer needs the mutex when this is seen under it.
    if (!stream->root->destroyed) stream->root = nullptr;
    changed.notify_all();
  });
  return stream;
}

bool FakeGpu::State::HasQueue(const Stream& stream) {
  return stream.root->stopped.load(std::memory_order_relaxed) ||
         std::ranges::none_of(stream.root->streams,
                              [&](const StreamPtr& other) {
                                return other.get() != &stream && other->busy &&
                                       (other->aliased || stream.aliased);
                              });
}

void FakeGpu::State::Push(Stream& stream, std::function<void()> work) {
  stream.work.push_back(std::move(work));
  changed.notify_all();
}

void FakeGpu::State::PushLate(Stream& stream, std::function<void()> work) {
  Push(stream, [this, stream = &stream, work = std::move(work)] {
    const Root& root = *stream->root;
    {
      Lock lock(mutex);
      changed.wait_for(lock, kLate, [&] {
        return stream->waiters + root.waiters != 0 ||
               root.stopped.load(std::memory_order_relaxed);
      });
    }
    if (!root.stopped.load(std::memory_order_relaxed)) work();
  });
}

void FakeGpu::State::PushLaunch(const RootPtr& root,
                                std::function<void()> work) {
  root->launched.push_back(std::move(work));
  if (root->idle_launchers >= root->launched.size()) {
    changed.notify_all();
    return;
  }
  // Those that have gone hold no lock any more.
  for (std::thread& gone : root->gone_launchers) gone.join();
  root->gone_launchers.clear();
  do {
    root->launchers.emplace_back([this, root = root.get()] { Launch(*root); });
  } while (root->launchers.size() < kKeptLaunchers);
}

void FakeGpu::State::Launch(Root& root) {
  Lock lock(mutex);
  while (true) {
    if (root.launched.empty() && !root.destroyed &&
        root.idle_launchers >= kKeptLaunchers) {
      const auto self = std::ranges::find(
          root.launchers, std::this_thread::get_id(), &std::thread::get_id);
      root.gone_launchers.push_back(std::move(*self));
      root.launchers.erase(self);
      return;
    }
    ++root.idle_launchers;
    changed.wait(lock,
                 [&] { return !root.launched.empty() || root.destroyed; });
    --root.idle_launchers;
    if (root.launched.empty()) return;
    std::function<void()> work = std::move(root.launched.front());
    root.launched.pop_front();
    lock.unlock();
    work();
    work = nullptr;
    lock.lock();
  }
}

const void* FakeGpu::State::HostMemory(const void* address) const {
  const auto at = reinterpret_cast<uint64_t>(address);
  for (const FreedPages* pages = freed.load(std::memory_order_acquire);
       pages != nullptr; pages = pages->next) {
    if (at - pages->start < pages->size &&
        pages->pinned.load(std::memory_order_relaxed)) {
      return pages->old.get() + (at - pages->start);
    }
  }
  return address;
}

void FakeGpu::State::Unpin(uint64_t address, uint64_t size) {
  for (FreedPages& pages : freed_pages) {
    if (pages.start - address < size) {
      pages.pinned.store(false, std::memory_order_relaxed);
    }
  }
}

CUresult FakeGpu::State::WaitIdle(Lock& lock, Stream& stream) {
  const RootPtr root = stream.root;
  ++stream.waiters;
  changed.notify_all();
  changed.wait(lock, [&] {
    return stream.idle() || root->stopped.load(std::memory_order_relaxed);
  });
  --stream.waiters;
  if (root->destroyed) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return root->fault;
}

CUresult FakeGpu::State::WaitIdle(Lock& lock, Root& root) {
  ++root.waiters;
  changed.notify_all();
  changed.wait(lock, [&] {
    return root.stopped.load(std::memory_order_relaxed) ||
           std::ranges::all_of(root.streams, [](const StreamPtr& stream) {
             return stream->idle();
           });
  });
  --root.waiters;
  if (root.destroyed) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return root.fault;
}

CUresult FakeGpu::State::AwaitIdle(Lock& lock, Root& root) {
  return settings.free_waits_for_idle ? WaitIdle(lock, root) : root.fault;
}

CUresult FakeGpu::State::AwaitQuiet(Lock& lock, const RootPtr& root) {
  std::vector<std::pair<StreamPtr, uint64_t>> running;
  for (const StreamPtr& stream : root->streams) {
    if (stream->busy) running.emplace_back(stream, stream->begun);
  }
  const bool quiet = changed.wait_for(lock, kPatience, [&] {
    return root->stopped.load(std::memory_order_relaxed) ||
           std::ranges::none_of(running, [](const auto& one) {
             return one.first->busy && one.first->begun == one.second;
           });
  });
  if (root->destroyed) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (root->fault != CUDA_SUCCESS) return root->fault;
  return quiet ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

const MemoryRange* FakeGpu::State::FindRange(const Root& root, uint64_t address,
                                             uint64_t size) const {
  auto after = memory.upper_bound(address);
  if (after == memory.begin()) return nullptr;
  const auto& [start, range] = *std::prev(after);
  if (address - start > range.size || size > range.size - (address - start)) {
    return nullptr;
  }
  if (range.left_behind) return nullptr;
  // Host memory is portable: every context of the process has it.
  if (range.kind == MemoryRange::Kind::kDevice && range.root.get() != &root) {
    return nullptr;
  }
  return &range;
}

CUresult FakeGpu::State::Allocate(const RootPtr& root, uint64_t size,
                                  MemoryRange::Kind kind, uint64_t& address) {
  if (size == 0) return CUDA_ERROR_INVALID_VALUE;
  if (kind == MemoryRange::Kind::kDevice) {
    if (memory_used > settings.memory_bytes ||
        size > settings.memory_bytes - memory_used) {
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memory_used += size;
  }
  void* data = ::operator new(size, kAlignment, std::nothrow);
  if (data == nullptr) {
    if (kind == MemoryRange::Kind::kDevice) memory_used -= size;
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  // Fresh memory is not zero on a GPU either.
  std::memset(data, 0xcd, std::min<uint64_t>(size, 1 << 16));
  address = reinterpret_cast<uint64_t>(data);
  memory[address] = {size, kind, root};
  ++memory_changes;
  return CUDA_SUCCESS;
}

CUresult FakeGpu::State::Free(Lock& lock, uint64_t address,
                              MemoryRange::Kind kind) {
  const auto found = memory.find(address);
  if (found == memory.end() || found->second.kind != kind) {
    ++stale_uses;
    return kind == MemoryRange::Kind::kRegistered
               ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED
               : CUDA_ERROR_INVALID_VALUE;
  }
  if (found->second.left_behind) {
    memory.erase(found);
    return CUDA_SUCCESS;
  }
  const RootPtr root = found->second.root;
  if (root->fault != CUDA_SUCCESS) return root->fault;
  const CUresult idle = AwaitIdle(lock, *root);
  if (idle != CUDA_SUCCESS) return idle;
  const auto range = memory.extract(address);
  ++memory_changes;
  if (range.empty()) return CUDA_ERROR_INVALID_VALUE;
  Unpin(address, range.mapped().size);
  if (kind == MemoryRange::Kind::kDevice) memory_used -= range.mapped().size;
  if (kind != MemoryRange::Kind::kRegistered) {
    ::operator delete(reinterpret_cast<void*>(address), kAlignment);
  }
  return CUDA_SUCCESS;
}

}  // namespace carillon::gpud::cuda
