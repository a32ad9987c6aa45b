#include "gpu_daemon/backends/cuda/fake/fake_gpu.h"

#include <array>
#include <ostream>
#include <utility>

#include "gpu_daemon/backends/cuda/fake/fake_state.h"

namespace carillon::gpud::cuda {

// What of FakeGpu only looks and sets; its life is in fake_state.cc.

Driver FakeGpu::driver() {
  Driver driver;
#define CARILLON_FAKE_MEMBER(function) driver.function = &::function;
  CARILLON_CUDA_FUNCTIONS(CARILLON_FAKE_MEMBER)
#undef CARILLON_FAKE_MEMBER
  driver.cuInit(0);
  return driver;
}

void FakeGpu::DefineKernel(std::string name, std::vector<uint32_t> param_sizes,
                           KernelFunction function) {
  std::lock_guard lock(state_->mutex);
  state_->defined[std::move(name)] = {std::move(param_sizes),
                                      std::move(function)};
}

namespace {
const ExecutingGpu* executing_gpu = nullptr;
}  // namespace

ExecutingGpu::ExecutingGpu(std::string name, ImageLoader load)
    : name(std::move(name)), load(std::move(load)) {
  executing_gpu = this;
}

const ExecutingGpu* ExecutingGpu::Find() { return executing_gpu; }

std::span<const std::byte> FakeGpu::Image() {
  // The header of a fatbin that nothing follows.
  static constexpr std::array<uint32_t, 4> kHeader = {0xba55ed50, 0x00100001, 0,
                                                      0};
  return std::as_bytes(std::span(kHeader));
}

FakeGpu::When FakeGpu::Nth(uint64_t nth) {
  return [count = std::make_shared<std::atomic<uint64_t>>(0),
          nth](const KernelCall&) {
    // Writers: the threads that run the kernel. Relaxed: only a count.
    return count->fetch_add(1, std::memory_order_relaxed) + 1 == nth;
  };
}

FakeGpu::When FakeGpu::Always() {
  return [](const KernelCall&) { return true; };
}

void FakeGpu::FaultOn(std::string kernel, When when, CUresult fault) {
  std::lock_guard lock(state_->mutex);
  state_->fates.push_back({std::move(kernel), std::move(when), fault});
}

void FakeGpu::HangOn(std::string kernel, When when) {
  FaultOn(std::move(kernel), std::move(when), CUDA_SUCCESS);
}

void FakeGpu::FreePages(void* address, uint64_t size) {
  std::lock_guard lock(state_->mutex);
  State::FreedPages& pages = state_->freed_pages.emplace_back();
  pages.start = reinterpret_cast<uint64_t>(address);
  pages.size = size;
  pages.old = std::make_unique<std::byte[]>(size);
  // By words: a kernel may look.
  for (uint64_t i = 0; i < size; i += sizeof(uint64_t)) {
    const std::atomic_ref word(
        *reinterpret_cast<uint64_t*>(static_cast<std::byte*>(address) + i));
    const uint64_t old = word.load(std::memory_order_relaxed);
    std::memcpy(pages.old.get() + i, &old, sizeof(old));
  }
  pages.next = state_->freed.load(std::memory_order_relaxed);
  state_->freed.store(&pages, std::memory_order_release);
}

void FakeGpu::FailNext(std::string function, CUresult result, uint32_t count) {
  std::lock_guard lock(state_->mutex);
  state_->failures[std::move(function)] = {result, count};
}

void FakeGpu::ChangeSettings(const std::function<void(FakeSettings&)>& change) {
  std::lock_guard lock(state_->mutex);
  change(state_->settings);
}

std::map<std::string, uint64_t> FakeGpu::calls() const {
  std::lock_guard lock(state_->mutex);
  return state_->calls;
}

uint64_t FakeGpu::launches(const std::string& function) const {
  std::lock_guard lock(state_->mutex);
  const auto found = state_->launches.find(function);
  return found == state_->launches.end() ? 0 : found->second;
}

std::map<std::string, LaunchPlaces> FakeGpu::places() const {
  std::lock_guard lock(state_->mutex);
  return state_->places;
}

void FakeGpu::ForgetLaunches() {
  std::lock_guard lock(state_->mutex);
  state_->launches.clear();
  state_->places.clear();
}

LiveObjects FakeGpu::live_objects() const {
  std::lock_guard lock(state_->mutex);
  LiveObjects live;
  live.contexts = state_->roots.size();
  live.green_contexts = state_->greens.size();
  live.streams = state_->streams.size();
  live.events = state_->events.size();
  live.modules = state_->modules.size();
  live.graphs = state_->graphs.size();
  live.execs = state_->execs.size();
  live.mappings = state_->physical.size() + state_->reservations.size();
  for (const auto& [address, range] : state_->memory) {
    switch (range.kind) {
      case MemoryRange::Kind::kDevice:
        ++live.allocations;
        break;
      case MemoryRange::Kind::kMapped:
        break;
      case MemoryRange::Kind::kPinned:
        ++live.pinned;
        break;
      case MemoryRange::Kind::kRegistered:
        if (!range.left_behind) ++live.registrations;
        break;
    }
  }
  return live;
}

uint64_t FakeGpu::memory_used() const {
  std::lock_guard lock(state_->mutex);
  return state_->memory_used;
}

uint64_t FakeGpu::stale_uses() const {
  std::lock_guard lock(state_->mutex);
  return state_->stale_uses;
}

std::ostream& operator<<(std::ostream& out, const LiveObjects& live) {
  return out << live.contexts << " contexts, " << live.green_contexts
             << " green contexts, " << live.streams << " streams, "
             << live.events << " events, " << live.allocations
             << " allocations, " << live.pinned << " pinned allocations, "
             << live.registrations << " registrations, " << live.modules
             << " modules, " << live.graphs << " graphs, " << live.execs
             << " execs, " << live.mappings
             << " mapped allocations or reservations";
}

}  // namespace carillon::gpud::cuda
