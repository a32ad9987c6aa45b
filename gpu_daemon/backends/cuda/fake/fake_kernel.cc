// Kernels: found by name, launched, run on the calling thread.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "gpu_daemon/backends/cpu/run_block.h"
#include "gpu_daemon/backends/cuda/fake/fake_epilogue.h"
#include "gpu_daemon/backends/cuda/fake/fake_persistent.h"
#include "gpu_daemon/backends/cuda/fake/fake_ptb.h"
#include "gpu_daemon/backends/cuda/fake/fake_state.h"
#include "kernels/registry.h"
#include "kernels/simt/event_frame.h"

namespace carillon::gpud::cuda {
namespace {

constexpr std::string_view kPlainPrefix = "carillon_";
constexpr std::string_view kEventPrefix = "carillon_event_";
constexpr std::string_view kCallPrefix = "carillon_call_";
constexpr std::string_view kPtbPrefix = "carillon_ptb_";
constexpr std::string_view kPersistentPrefix = "carillon_persistent_";

std::vector<FakeParam> ParamsOf(Function::Form form,
                                const simt::KernelInfo& kernel) {
  if (form == Function::Form::kEvent || form == Function::Form::kPersistent) {
    return PlaceParams(std::array<uint32_t, 1>{sizeof(void*)});
  }
  if (form == Function::Form::kCall) {
    return PlaceParams(std::array<uint32_t, 3>{
        sizeof(simt::EventFrame), kernel.args_size, sizeof(simt::GridPart)});
  }
  if (form == Function::Form::kPtb) {
    return PlaceParams(std::array<uint32_t, 3>{
        sizeof(simt::EventFrame), kernel.args_size, sizeof(simt::BlockSupply)});
  }
  return PlaceParams(
      std::array<uint32_t, 2>{kernel.args_size, sizeof(uint32_t*)});
}

// Which form of which kernel a name says, if it says one.
void ResolveForm(Function& function) {
  const std::string_view name = function.name;
  if (name.starts_with(kEventPrefix)) {
    function.kernel = simt::FindKernel(name.substr(kEventPrefix.size()));
    function.form = Function::Form::kEvent;
  }
  if (name.starts_with(kCallPrefix)) {
    function.kernel = simt::FindKernel(name.substr(kCallPrefix.size()));
    function.form = Function::Form::kCall;
  }
  if (name.starts_with(kPtbPrefix)) {
    function.kernel = simt::FindKernel(name.substr(kPtbPrefix.size()));
    function.form = Function::Form::kPtb;
  }
  if (name.starts_with(kPersistentPrefix)) {
    function.kernel = simt::FindKernel(name.substr(kPersistentPrefix.size()));
    function.form = Function::Form::kPersistent;
  }
  if (function.kernel == nullptr && name.starts_with(kPlainPrefix)) {
    function.kernel = simt::FindKernel(name.substr(kPlainPrefix.size()));
    function.form = Function::Form::kPlain;
  }
  if (function.kernel == nullptr) function.form = Function::Form::kNone;
}

// The arguments of a kernel of kernels; nullptr: out of reach.
const std::byte* ArgsOf(FakeGpu::State& state, const Root& root,
                        const LaunchSpec& launch) {
  const Function& function = *launch.function;
  switch (function.form) {
    case Function::Form::kPlain:
      return launch.params.data();
    case Function::Form::kCall:
    case Function::Form::kPtb:
      return launch.params.data() + function.params[1].offset;
    case Function::Form::kEvent: {
      simt::EventFrame* frame = nullptr;
      std::memcpy(&frame, launch.params.data(), sizeof(frame));
      const uint64_t size = simt::EventFrameBytes(function.kernel->args_size);
      return state.Reachable(root, frame, size) ? frame->args() : nullptr;
    }
    default:
      return nullptr;
  }
}

bool BuffersAreReachable(FakeGpu::State& state, const Root& root,
                         const simt::KernelInfo& kernel,
                         const std::byte* args) {
  return std::ranges::all_of(kernel.params, [&](const simt::ParamInfo& param) {
    if (!param.is_buffer()) return true;
    simt::Span<std::byte> buffer;
    std::memcpy(static_cast<void*>(&buffer), args + param.offset,
                sizeof(buffer));
    return buffer.size == 0 ||
           state.Reachable(root, buffer.data, buffer.size * param.element_size);
  });
}

// Whether what the frame points to is where a GPU needs it.
bool FrameIsReachable(FakeGpu::State& state, const Root& root,
                      const simt::EventFrame& frame) {
  return state.Reachable(root, frame.ecq, sizeof(*frame.ecq)) &&
         state.IsDeviceMemory(root, frame.scratch, sizeof(*frame.scratch)) &&
         (frame.totals == nullptr ||
          state.IsDeviceMemory(root, frame.totals, sizeof(*frame.totals))) &&
         (frame.life == nullptr ||
          state.Reachable(root, frame.life, sizeof(*frame.life)));
}

CUresult RunKernelForm(FakeGpu::State& state, const Root& root,
                       const LaunchSpec& launch, bool check_buffers) {
  const simt::KernelInfo& kernel = *launch.function->kernel;
  const std::byte* args = ArgsOf(state, root, launch);
  if (args == nullptr || launch.shared_bytes < kernel.static_shared_bytes ||
      (check_buffers && !BuffersAreReachable(state, root, kernel, args))) {
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  simt::EventFrame* frame = nullptr;
  simt::EventFrame by_value;
  uint32_t* fail_status = nullptr;
  const bool is_ptb = launch.function->form == Function::Form::kPtb;
  if (launch.function->form == Function::Form::kCall || is_ptb) {
    std::memcpy(&by_value, launch.params.data(), sizeof(by_value));
    frame = &by_value;
  } else if (launch.function->form == Function::Form::kEvent) {
    std::memcpy(&frame, launch.params.data(), sizeof(frame));
    if (frame->ecq == nullptr) return CUDA_SUCCESS;  // refused already
  }
  if (frame != nullptr) {
    if (!FrameIsReachable(state, root, *frame)) {
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    fail_status = &frame->scratch->fail_status;
  } else {
    std::memcpy(&fail_status,
                launch.params.data() + launch.function->params[1].offset,
                sizeof(fail_status));
    if (!state.IsDeviceMemory(root, fail_status, sizeof(*fail_status))) {
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
  }
  KernelMetadata kmd;
  kmd.kernel = &kernel;
  simt::GridPart part{.grid = launch.grid};
  if (launch.function->form == Function::Form::kCall) {
    std::memcpy(&part, launch.params.data() + launch.function->params[2].offset,
                sizeof(part));
  }
  kmd.grid = part.grid;
  kmd.block = launch.block;
  kmd.shared_bytes = launch.shared_bytes - kernel.static_shared_bytes;
  const auto stopped = [&root] {
    return root.stopped.load(std::memory_order_relaxed);
  };
  if (is_ptb) {
    simt::BlockSupply supply;
    std::memcpy(&supply,
                launch.params.data() + launch.function->params[2].offset,
                sizeof(supply));
    if (!state.IsDeviceMemory(root, supply.taken, sizeof(*supply.taken)) ||
        !state.Reachable(root, supply.stop, sizeof(*supply.stop)) ||
        !state.Reachable(root, supply.ended, sizeof(*supply.ended))) {
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    kmd.grid = supply.grid;
    constexpr uint64_t kThreads = 3;
    const bool left = RunPtb(
        supply, static_cast<uint32_t>(std::min(kThreads, launch.grid.count())),
        [&](uint64_t block) {
          if (stopped()) return false;
          RunBlock(kmd, block, args, fail_status);
          return true;
        });
    if (left) EndPtb(*frame, supply);
    return CUDA_SUCCESS;
  }
  for (uint64_t i = 0; i < launch.grid.count(); ++i) {
    if (stopped()) return CUDA_SUCCESS;
    // Each block adds where the box begins, as on a GPU.
    const uint64_t x = part.first.x + i % launch.grid.x;
    const uint64_t y = part.first.y + i / launch.grid.x % launch.grid.y;
    const uint64_t z = part.first.z + i / launch.grid.x / launch.grid.y;
    RunBlock(kmd, (z * part.grid.y + y) * part.grid.x + x, args, fail_status);
  }
  if (frame != nullptr) CompleteEvent(*frame);
  return CUDA_SUCCESS;
}

}  // namespace

const simt::Dim3& KernelCall::grid() const { return impl_->launch.grid; }
const simt::Dim3& KernelCall::block() const { return impl_->launch.block; }
uint32_t KernelCall::shared_bytes() const { return impl_->launch.shared_bytes; }

const std::byte* KernelCall::ParamBytes(size_t index, size_t size) const {
  const FakeParam& param = impl_->launch.function->params.at(index);
  if (param.size != size) std::abort();  // a test's mistake
  return impl_->launch.params.data() + param.offset;
}

int KernelCall::priority() const { return impl_->launch.place.priority; }

SmRange KernelCall::sms() const {
  const SmRange sms = impl_->launch.place.sms;
  return sms == SmRange() ? SmRange{.count = impl_->state.settings.sms} : sms;
}

std::span<const std::byte> KernelCall::params() const {
  return impl_->launch.params;
}

std::vector<std::span<std::byte>> KernelCall::memory() const {
  FakeGpu::State& state = impl_->state;
  std::lock_guard lock(state.mutex);
  std::vector<std::span<std::byte>> ranges;
  for (const auto& [start, range] : state.memory) {
    if (state.FindRange(impl_->root, start, range.size) == nullptr) continue;
    ranges.emplace_back(reinterpret_cast<std::byte*>(start), range.size);
  }
  return ranges;
}

uint64_t KernelCall::memory_changes() const {
  return impl_->state.memory_changes.load(std::memory_order_relaxed);
}

std::span<const std::byte> KernelCall::args() const {
  const std::byte* args = ArgsOf(impl_->state, impl_->root, impl_->launch);
  if (args == nullptr) return {};
  return {args, impl_->launch.function->kernel->args_size};
}

bool KernelCall::stopped() const {
  return impl_->root.stopped.load(std::memory_order_relaxed);
}

void KernelCall::Fault(CUresult fault) const {
  std::lock_guard lock(impl_->state.mutex);
  impl_->state.Fault(impl_->root, fault);
}

const void* KernelCall::HostMemory(const void* address) const {
  return impl_->state.HostMemory(address);
}

CUresult KernelCall::Meet(const simt::KernelInfo& kernel,
                          const std::byte* args) const {
  FakeGpu::State& state = impl_->state;
  LaunchSpec launch = impl_->launch;
  launch.function = std::make_shared<Function>();
  launch.function->form = Function::Form::kPlain;
  launch.function->kernel = &kernel;
  launch.params.assign(args, args + kernel.args_size);
  Impl impl{state, impl_->root, launch, impl_->execution};
  const KernelCall call(&impl);
  std::vector<Fate> possible;
  {
    std::lock_guard lock(state.mutex);
    possible = state.FatesOf(*launch.function);
  }
  for (const Fate& fate : possible) {
    if (!fate.when(call)) continue;
    if (fate.fault != CUDA_SUCCESS) return fate.fault;
    Lock lock(state.mutex);
    state.changed.wait(lock, [this] { return stopped(); });
    return CUDA_ERROR_LAUNCH_TIMEOUT;
  }
  return CUDA_SUCCESS;
}

CUgraphExec KernelCall::current_graph() const {
  const Execution* execution = impl_->execution;
  if (execution == nullptr || !execution->exec->device_launch) return nullptr;
  return reinterpret_cast<CUgraphExec>(execution->exec->handle);
}

CUresult KernelCall::Launch(CUgraphExec exec, DeviceLaunch mode) {
  return impl_->state.LaunchFromKernel(impl_->root, impl_->execution,
                                       reinterpret_cast<uint64_t>(exec), mode);
}

FunctionPtr FakeGpu::State::MakeFunction(const FakeImage& image,
                                         const std::string& name) {
  auto function = std::make_shared<Function>();
  function->name = name;
  if (image.code == nullptr) function->local_bytes = OwnLocalBytes(name);
  const auto entry = std::ranges::find(image.entries, name, &FakeEntry::name);
  const auto own = defined.find(name);
  if (entry != image.entries.end()) {
    function->params = entry->params;
    function->local_bytes = std::max(function->local_bytes, entry->local_bytes);
    function->registers = entry->registers;
    function->own_shared_bytes = entry->static_shared_bytes;
  } else if (!image.is_fatbin) {
    return nullptr;
  }
  if (image.code != nullptr) {
    if (entry == image.entries.end()) return nullptr;
    function->form = Function::Form::kDefined;
    function->defined = entry->run;
    return function;
  }
  if (own != defined.end()) {
    function->form = Function::Form::kDefined;
    function->defined = own->second.function;
    if (entry == image.entries.end()) {
      function->params = PlaceParams(own->second.param_sizes);
    }
    return function;
  }
  // A user's own PTX runs nowhere, whatever its kernels are called.
  if (!image.is_fatbin) return function;
  ResolveForm(*function);
  if (entry != image.entries.end()) return function;
  if (!image.entries.empty() || function->form == Function::Form::kNone) {
    return nullptr;
  }
  function->params = ParamsOf(function->form, *function->kernel);
  return function;
}

uint32_t FakeGpu::State::OwnLocalBytes(std::string_view name) const {
  if (!name.starts_with(kPlainPrefix)) return 0;
  for (const auto& [kernel, bytes] : settings.stacks) {
    if (name.ends_with("_" + kernel)) return bytes;
  }
  // As nvcc 13.0 compiles them for sm_90.
  if (name == "carillon_take_stack") return 256;
  if (name.ends_with("_memc_set")) return 1360;
  return name.ends_with("_memc_get") ? 1256 : 0;
}

std::vector<std::string> FakeGpu::State::FunctionNames(
    const FakeImage& image) const {
  std::vector<std::string> names;
  for (const FakeEntry& entry : image.entries) names.push_back(entry.name);
  if (!names.empty() || !image.is_fatbin) return names;
  for (const auto& [name, kernel] : defined) names.push_back(name);
  for (const simt::KernelInfo* kernel : simt::AllKernels()) {
    for (const std::string_view prefix :
         {kPlainPrefix, kEventPrefix, kCallPrefix, kPtbPrefix}) {
      names.push_back(std::string(prefix) + std::string(kernel->name));
    }
  }
  return names;
}

CUresult FakeGpu::State::TakeStack(Lock& lock, Root& root, uint32_t bytes) {
  const uint64_t wanted = std::max<uint64_t>(bytes, root.stack_limit);
  if (bytes == 0 || wanted <= root.stack_taken) return CUDA_SUCCESS;
  if (wanted > settings.most_stack) return CUDA_ERROR_OUT_OF_MEMORY;
  // Long enough for all that ends; what stays, stays longer.
  constexpr std::chrono::seconds kInVain{3};
  const bool idle = changed.wait_for(lock, kInVain, [&] {
    return root.stopped.load(std::memory_order_relaxed) ||
           std::ranges::all_of(root.streams, [](const StreamPtr& stream) {
             return stream->idle();
           });
  });
  if (root.fault != CUDA_SUCCESS) return root.fault;
  if (!idle) return CUDA_ERROR_UNKNOWN;
  root.stack_limit = wanted;
  root.stack_taken = wanted;
  return CUDA_SUCCESS;
}

CUresult FakeGpu::State::MakeLaunch(const FunctionPtr& function,
                                    const unsigned* grid, const unsigned* block,
                                    unsigned shared_bytes, void** params,
                                    void** extra, LaunchSpec& launch) const {
  launch.function = function;
  launch.grid = {grid[0], grid[1], grid[2]};
  launch.block = {block[0], block[1], block[2]};
  launch.shared_bytes = shared_bytes;
  if (!simt::IsValidBlock(launch.block) || launch.block.z > 64 ||
      launch.grid.count() == 0 || grid[0] > 0x7fffffff || grid[1] > 65535 ||
      grid[2] > 65535 ||
      shared_bytes > static_cast<unsigned>(function->LargestDynamicShared())) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (function->params.empty()) return CUDA_SUCCESS;
  const FakeParam& last = function->params.back();
  launch.params.resize(last.offset + last.size);
  if (params != nullptr) {
    for (size_t i = 0; i < function->params.size(); ++i) {
      std::memcpy(launch.params.data() + function->params[i].offset, params[i],
                  function->params[i].size);
    }
    return CUDA_SUCCESS;
  }
  const void* buffer = nullptr;
  size_t size = 0;
  for (; extra != nullptr && *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = extra[1];
    if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      size = *static_cast<const size_t*>(extra[1]);
    }
  }
  if (buffer == nullptr || size < launch.params.size()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::memcpy(launch.params.data(), buffer, launch.params.size());
  return CUDA_SUCCESS;
}

bool FakeGpu::State::Reachable(const Root& root, const void* address,
                               uint64_t size) {
  std::lock_guard lock(mutex);
  return FindRange(root, reinterpret_cast<uint64_t>(address), size) != nullptr;
}

bool FakeGpu::State::IsDeviceMemory(const Root& root, const void* address,
                                    uint64_t size) {
  std::lock_guard lock(mutex);
  const MemoryRange* range =
      FindRange(root, reinterpret_cast<uint64_t>(address), size);
  return range != nullptr && (range->kind == MemoryRange::Kind::kDevice ||
                              range->kind == MemoryRange::Kind::kMapped);
}

std::vector<Fate> FakeGpu::State::FatesOf(const Function& function) const {
  std::vector<Fate> possible;
  for (const Fate& fate : fates) {
    if (fate.kernel == function.name ||
        (function.kernel != nullptr && fate.kernel == function.kernel->name)) {
      possible.push_back(fate);
    }
  }
  return possible;
}

uint64_t FakeGpu::State::TakeRoom(Lock& lock, const Root& root,
                                  const LaunchSpec& launch) {
  const uint64_t threads = launch.block.count();
  const uint64_t capacity =
      uint64_t{settings.threads_per_sm} *
      (launch.place.sms.count != 0 ? launch.place.sms.count : settings.sms);
  uint64_t& used = threads_used[launch.place.sms.count];
  const auto stopped = [&] {
    return root.stopped.load(std::memory_order_relaxed);
  };
  changed.wait(lock, [&] { return stopped() || capacity - used >= threads; });
  if (stopped()) return 0;
  const uint64_t taken =
      std::min(launch.grid.count(), (capacity - used) / threads) * threads;
  used += taken;
  return taken;
}

void FakeGpu::State::Run(Root& root, const LaunchSpec& launch,
                         Execution* execution) {
  const Function& function = *launch.function;
  std::vector<Fate> possible;
  bool check_buffers = true;
  uint64_t room = 0;
  {
    Lock lock(mutex);
    room = TakeRoom(lock, root, launch);
    if (room == 0) return;
    ++launches[function.name];
    LaunchPlaces& places_of = places[function.name];
    places_of.sms.insert(launch.place.sms.count != 0 ? launch.place.sms.count
                                                     : settings.sms);
    places_of.priorities.insert(launch.place.priority);
    places_of.memory_domains.insert(launch.place.memory_domain);
    check_buffers = settings.check_buffers;
    possible = FatesOf(function);
  }
  struct GiveBack {
    ~GiveBack() {
      std::lock_guard lock(state.mutex);
      state.threads_used[sms] -= room;
      state.changed.notify_all();
    }
    State& state;
    uint32_t sms;
    uint64_t room;
  };
  const GiveBack give_back{*this, launch.place.sms.count, room};
  if (function.form == Function::Form::kPersistent) {
    const CUresult result = RunPersistentForm(*this, root, launch);
    if (result != CUDA_SUCCESS) {
      std::lock_guard lock(mutex);
      Fault(root, result);
    }
    return;
  }
  KernelCall::Impl impl{*this, root, launch, execution};
  KernelCall call(&impl);
  CUresult result = CUDA_SUCCESS;
  for (const Fate& fate : possible) {
    if (!fate.when(call)) continue;
    if (fate.fault == CUDA_SUCCESS) {
      Lock lock(mutex);
      changed.wait(
          lock, [&] { return root.stopped.load(std::memory_order_relaxed); });
      return;
    }
    result = fate.fault;
    break;
  }
  if (result == CUDA_SUCCESS) {
    result = function.form == Function::Form::kDefined
                 ? function.defined(call)
                 : RunKernelForm(*this, root, launch, check_buffers);
  }
  if (result != CUDA_SUCCESS) {
    std::lock_guard lock(mutex);
    Fault(root, result);
  }
}

}  // namespace carillon::gpud::cuda
