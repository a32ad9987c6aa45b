#include "gpu_daemon/backends/cuda/edge_path.h"

#include <pthread.h>
#include <sched.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "gpu_daemon/backends/cuda/gpu_rings.h"
#include "gpu_daemon/launch/user_kernel.h"
#include "shm/clock.h"

namespace carillon::gpud::cuda {
namespace {

using shm::EventState;
using shm::EventStatus;
using shm::Sequence;

// How often the watching thread looks, while a device sleeps that has events in
// flight, and otherwise.
constexpr std::chrono::microseconds kLookSoon{50};
constexpr std::chrono::milliseconds kLookLater{2};

template <class T>
absl::Status Put(const Driver& driver, const DeviceBytes& to, const T* from,
                 size_t count) {
  return ToStatus(driver,
                  driver.cuMemcpyHtoD(to.address(), from, count * sizeof(T)),
                  "write the dispatchers' tables");
}

template <class T>
absl::Status Fetch(const Driver& driver, const DeviceBytes& from, T* to,
                   size_t count) {
  return ToStatus(driver,
                  driver.cuMemcpyDtoH(to, from.address(), count * sizeof(T)),
                  "read the dispatchers' tables");
}

absl::Status MakeBytes(const Driver& driver, uint64_t size,
                       DeviceBytes& bytes) {
  auto made = DeviceBytes::Make(driver, size);
  if (!made.ok()) return made.status();
  bytes = *std::move(made);
  return absl::OkStatus();
}

// Hints: a GPU that does not take them works without. What dispatchers and event
// kernels hand to each other is ordered at the scope of the device, so all of
// them belong to one memory synchronisation domain; it is not the one of other
// kernels, whose stores a completion's fence would wait for.
void GiveHints(const Driver& driver, CUgraphNode node, int priority) {
  CUkernelNodeAttrValue value = {};
  value.priority = priority;
  driver.cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_PRIORITY,
                                       &value);
  value = {};
  value.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
  driver.cuGraphKernelNodeSetAttribute(
      node, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, &value);
}

// A graph of one kernel that the GPU may launch.
absl::StatusOr<GraphExec> DeviceGraph(Gpu* gpu, CUfunction function,
                                      uint32_t priority, simt::Dim3 grid,
                                      simt::Dim3 block, uint32_t shared_bytes,
                                      void** parameters, CUstream upload) {
  const Driver& driver = gpu->driver();
  const Gpu::Making making(gpu, SmSet::kEdge);
  auto graph = MakeGraph(driver);
  if (!graph.ok()) return graph.status();
  CUDA_KERNEL_NODE_PARAMS node = {};
  node.func = function;
  node.gridDimX = grid.x;
  node.gridDimY = grid.y;
  node.gridDimZ = grid.z;
  node.blockDimX = block.x;
  node.blockDimY = block.y;
  node.blockDimZ = block.z;
  node.sharedMemBytes = shared_bytes;
  node.kernelParams = parameters;
  CUgraphNode handle = nullptr;
  if (auto status = ToStatus(
          driver,
          driver.cuGraphAddKernelNode(&handle, graph->get(), nullptr, 0, &node),
          "add a kernel to a graph");
      !status.ok()) {
    return status;
  }
  GiveHints(driver, handle, gpu->NativePriority(priority));
  return Instantiate(driver, graph->get(),
                     CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |
                         CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD,
                     upload);
}

// EDGE IV-C, and what a resident warp can run besides its own work.
bool RunsInline(const KernelMetadata& kmd) {
  return kmd.single_warp() && !kmd.kernel->uses_barriers &&
         !kmd.kernel->unbounded && kmd.kernel->args_size <= kEdgeMaxInlineArgs;
}

}  // namespace

absl::StatusOr<std::unique_ptr<EdgePath>> EdgePath::Create(Gpu* gpu,
                                                           Options options) {
  std::unique_ptr<EdgePath> path(new EdgePath(gpu, std::move(options)));
  if (auto status = path->Open(); !status.ok()) return status;
  return path;
}

EdgePath::EdgePath(Gpu* gpu, Options options)
    : gpu_(gpu), options_(std::move(options)), tracing_(options_.tracing) {}

absl::Status EdgePath::Open() {
  // A trial: it must be known now whether this GPU launches graphs.
  auto status = Change([this] {
    absl::Status prepared = Prepare();
    if (prepared.ok()) prepared = StartDispatchers();
    if (prepared.ok() && !StopDispatchers()) {
      prepared = absl::UnimplementedError("a dispatcher does not come to rest");
    }
    return prepared;
  });
  if (!status.ok()) return status;
  gpu_->Add(static_cast<Gpu::Tenant*>(this));
  gpu_->Add(static_cast<Gpu::Resident*>(this));
  watcher_ = std::thread([this] { Watch(); });
  return absl::OkStatus();
}

EdgePath::~EdgePath() {
  Stop();
  if (watcher_.joinable()) {
    gpu_->Remove(static_cast<Gpu::Resident*>(this));
    gpu_->Remove(static_cast<Gpu::Tenant*>(this));
    watcher_.join();
  }
  const Gpu::Quiet quiet(gpu_);
  const Gpu::Use use = gpu_->Enter();
  if (!use) Abandon();
  std::lock_guard lock(mutex_);
  residents_.clear();
  for (auto& exec : dispatchers_) exec.Reset();
  for (auto& stream : streams_) stream.Reset();
  for (DeviceBytes* bytes : {&table_, &entries_, &heads_, &totals_}) {
    *bytes = DeviceBytes();
  }
  control_.Unregister();
  report_.Unregister();
}

absl::Status EdgePath::Change(const std::function<absl::Status()>& change) {
  const Gpu::Quiet quiet(gpu_);
  while (true) {
    const Gpu::Use use = gpu_->Enter();
    if (!use) return gpu_->health();
    std::lock_guard lock(mutex_);
    const absl::Status status = change();
    if (status.ok() || !gpu_->Faulted()) return status;
  }
}

void EdgePath::Pause() {
  while (const Gpu::Use use = gpu_->Enter()) {
    std::lock_guard lock(mutex_);
    paused_ = true;
    if (StopDispatchers()) return;
  }
}

void EdgePath::Unpause() {
  const Gpu::Use use = gpu_->Enter();
  std::lock_guard lock(mutex_);
  paused_ = false;
  if (use) StartIfWanted();
}

// Where it cannot, the context is lost, and recovery tries again; or no event
// kernel is served any more, which must be known.
void EdgePath::StartIfWanted() {
  if (paused_ || stopped_ || residents_.empty()) return;
  const absl::Status status = StartDispatchers();
  if (status.ok() || gpu_->Faulted()) return;
  spdlog::error("no event kernel of launch path edge is served: {}",
                std::string(status.message()));
}

absl::Status EdgePath::Prepare() {
  const Driver& driver = gpu_->driver();
  absl::Status status = control_.Register(driver);
  status.Update(report_.Register(driver));
  status.Update(MakeBytes(driver, sizeof(EdgeTable), table_));
  status.Update(
      MakeBytes(driver, kEdgeMaxEntries * sizeof(EdgeEntry), entries_));
  status.Update(MakeBytes(
      driver, uint64_t{kEdgeMaxEntries} * kEdgeMaxEventWarps * sizeof(EdgeHead),
      heads_));
  status.Update(
      MakeBytes(driver, kEdgeMaxEntries * sizeof(EventTotals), totals_));
  if (!status.ok()) return status;
  auto function = gpu_->Function("carillon_edge_dispatcher");
  if (!function.ok()) return function.status();
  for (uint32_t i = 0; i < options_.dispatchers; ++i) {
    auto stream = gpu_->MakeStream(SmSet::kEdge, kPriorities - 1);
    if (!stream.ok()) return stream.status();
    streams_[i] = *std::move(stream);
    auto* table = table_.as<EdgeTable>();
    void* parameters[] = {&table, &i};
    auto exec = DeviceGraph(
        gpu_, *function, kPriorities - 1, {1, 1, 1},
        {kEdgeLanes * (options_.pollers + options_.event_warps), 1, 1}, 0,
        parameters, streams_[i].get());
    if (!exec.ok()) return exec.status();
    dispatchers_[i] = *std::move(exec);
  }
  return absl::OkStatus();
}

// --- Event kernels.

absl::Status EdgePath::Add(std::shared_ptr<EventKernel> event) {
  const simt::KernelInfo& kernel = *event->kmd().kernel;
  if (event->modifyable()) {
    return absl::InvalidArgumentError(fmt::format(
        "kernel '{}' is to be modifyable: a GPU cannot change a block's "
        "dimensions when it launches a graph; use another launch path",
        kernel.name));
  }
  if (auto status = CheckCompletesItself(kernel); !status.ok()) return status;
  return Change([&]() -> absl::Status {
    if (stopped_) return absl::UnavailableError("gpud goes down");
    const auto index = FreeIndex(*event);
    if (!index) {
      return absl::ResourceExhaustedError(fmt::format(
          "the dispatchers poll {} doorbell lines already: that is the limit",
          kEdgeMaxLines));
    }
    auto resident = std::make_unique<Resident>();
    resident->event = event;
    resident->index = *index;
    resident->inlined = RunsInline(event->kmd());
    for (uint32_t warp = 0; warp < options_.event_warps; ++warp) {
      resident->heads[warp] =
          FirstHead(1, event->first_ring(), warp, options_.event_warps,
                    resident->inlined ? uint32_t{kEdgeInline} : 0);
    }
    if (auto status = Place(*resident); !status.ok()) return status;
    lines_[*index / kEdgeLanes] = {
        &event->memory(),
        event->event_id() / shm::kDoorbellsPerLine * shm::kDoorbellsPerLine};
    event->FollowTotals(&report_->totals[*index]);
    residents_.push_back(std::move(resident));
    return absl::OkStatus();
  });
}

// A device's doorbells keep their places in a line, which is its own.
std::optional<uint32_t> EdgePath::FreeIndex(const EventKernel& event) {
  const uint32_t lane = event.event_id() % shm::kDoorbellsPerLine;
  const uint32_t first_doorbell = event.event_id() - lane;
  const auto is_its_own = [&](const Line& line) {
    return line.memory == &event.memory() &&
           line.first_doorbell == first_doorbell;
  };
  auto line = std::ranges::find_if(lines_, is_its_own);
  if (line == lines_.end()) {
    line = std::ranges::find(lines_, nullptr, &Line::memory);
  }
  if (line == lines_.end()) return std::nullopt;
  return static_cast<uint32_t>(line - lines_.begin()) * kEdgeLanes + lane;
}

// Memory and graphs for one event kernel. Its slots are as at the beginning, or
// as its heads say.
absl::Status EdgePath::Place(Resident& resident) {
  const Driver& driver = gpu_->driver();
  const EventKernel& event = *resident.event;
  const uint64_t slots = event.ring().layout().entries;
  const uint64_t frame_bytes = EventFrameBytes(event.kmd().kernel->args_size);
  const std::vector<std::byte> steps = event.arguments().Pack();
  absl::Status status =
      MakeBytes(driver, slots * 2 * frame_bytes, resident.frames);
  status.Update(
      MakeBytes(driver, slots * 2 * sizeof(EventScratch), resident.scratch));
  status.Update(MakeBytes(driver, slots * sizeof(uint64_t), resident.ended));
  status.Update(
      MakeBytes(driver, slots * 2 * sizeof(uint64_t), resident.execs));
  status.Update(MakeBytes(driver, steps.size(), resident.arguments));
  if (!status.ok()) return status;
  status.Update(Put(driver, resident.arguments, steps.data(), steps.size()));
  const uint64_t first =
      std::ranges::min(std::span(resident.heads).first(options_.event_warps),
                       {}, &EdgeHead::next)
          .next;
  std::vector<uint64_t> ended(slots);
  for (uint32_t slot = 0; slot < slots; ++slot) {
    ended[slot] = FirstSlotEnded(first, slot, static_cast<uint32_t>(slots));
  }
  status.Update(Put(driver, resident.ended, ended.data(), ended.size()));
  if (!status.ok()) return status;
  return resident.inlined ? MakeInline(resident) : MakeGraphs(resident);
}

absl::Status EdgePath::MakeInline(Resident& resident) {
  auto address = gpu_->DeviceWord(
      fmt::format("carillon_inline_{}", resident.event->kmd().kernel->name));
  if (!address.ok()) return address.status();
  resident.inline_function = *address;
  return absl::OkStatus();
}

absl::Status EdgePath::MakeGraphs(Resident& resident) {
  const Driver& driver = gpu_->driver();
  const KernelMetadata& kmd = resident.event->kmd();
  auto function = gpu_->FunctionFor("carillon_event_", kmd);
  if (!function.ok()) return function.status();
  const uint64_t frame_bytes = EventFrameBytes(kmd.kernel->args_size);
  const uint32_t copies = resident.event->ring().layout().entries * 2;
  std::vector<uint64_t> handles;
  resident.graphs.clear();
  for (uint32_t i = 0; i < copies; ++i) {
    auto* frame = resident.frames.as<EventFrame>(i * frame_bytes);
    void* parameters[] = {&frame};
    auto exec = DeviceGraph(gpu_, *function, resident.event->priority(),
                            kmd.grid, kmd.block, kmd.total_shared(), parameters,
                            streams_[0].get());
    if (!exec.ok()) return exec.status();
    handles.push_back(reinterpret_cast<uint64_t>(exec->get()));
    resident.graphs.push_back(*std::move(exec));
  }
  return Put(driver, resident.execs, handles.data(), handles.size());
}

void EdgePath::Remove(const std::shared_ptr<EventKernel>& event) {
  TakeOutAll([&](const Resident& resident) { return resident.event == event; });
}

std::vector<std::shared_ptr<EventKernel>> EdgePath::RemoveDevice(
    const DeviceMemory* memory) {
  return TakeOutAll([memory](const Resident& resident) {
    return &resident.event->memory() == memory;
  });
}

std::vector<std::shared_ptr<EventKernel>> EdgePath::TakeOutAll(
    const std::function<bool(const Resident&)>& match) {
  std::vector<std::shared_ptr<EventKernel>> taken;
  const auto any = [&] {
    return std::ranges::any_of(residents_,
                               [&](const auto& r) { return match(*r); });
  };
  const auto take = [&] {
    for (ResidentPtr& resident : residents_) {
      if (!match(*resident)) continue;
      taken.push_back(resident->event);
      TakeOut(*resident);
      resident.reset();
    }
    std::erase(residents_, nullptr);
    return absl::OkStatus();
  };
  {
    // Who has nothing here disturbs nobody.
    std::lock_guard lock(mutex_);
    if (!any()) return taken;
  }
  if (!Change(take).ok()) {
    // No GPU any more: recovery has ended what was in flight.
    std::lock_guard lock(mutex_);
    take().IgnoreError();
  }
  return taken;
}

void EdgePath::TakeOut(Resident& resident) {
  resident.event->TakeBack(resident.totals);
  Line& line = lines_[resident.index / kEdgeLanes];
  const bool last =
      std::ranges::count_if(residents_, [&](const ResidentPtr& other) {
        return other != nullptr &&
               other->index / kEdgeLanes == resident.index / kEdgeLanes;
      }) == 1;
  if (last) line = {};
}

absl::Status EdgePath::Wake() {
  return absl::UnimplementedError(
      "nothing but its doorbell launches an event kernel on launch path edge "
      "of the cuda back-end: ring it");
}

// --- Dispatchers.

absl::Status EdgePath::StartDispatchers() {
  if (running_) return absl::OkStatus();
  const Driver& driver = gpu_->driver();
  std::vector<EdgeEntry> entries(kEdgeMaxEntries);
  std::vector<EventTotals> totals(kEdgeMaxEntries);
  std::vector<EdgeHead> heads(uint64_t{kEdgeMaxEntries} * kEdgeMaxEventWarps);
  EdgeTable table{};
  for (uint32_t line = 0; line < kEdgeMaxLines; ++line) {
    if (lines_[line].memory == nullptr) continue;
    table.line_count = line + 1;
  }
  // A free line among others shows words that nobody takes for doorbells.
  for (uint32_t line = 0; line < table.line_count; ++line) {
    const Line& shown = lines_[line];
    table.lines[line].doorbells =
        shown.memory != nullptr
            ? &shown.memory->submission().doorbells()[shown.first_doorbell]
            : reinterpret_cast<const uint32_t*>(control_.get());
  }
  for (const ResidentPtr& resident : residents_) {
    const EventKernel& event = *resident->event;
    const shm::RingLayout& layout = event.ring().layout();
    const DeviceMemory& memory = event.memory();
    EdgeEntry& entry = entries[resident->index];
    entry.esq = memory.submission().At(layout.esq_offset);
    entry.ecq = event.ring().completion_slot(Sequence(0));
    entry.lives = &event.ring().life(Sequence(0));
    entry.ended = resident->ended.as<uint64_t>();
    entry.execs =
        reinterpret_cast<uint64_t(*)[2]>(resident->execs.as<uint64_t>());
    entry.frames = resident->frames.as<std::byte>();
    entry.scratch = resident->scratch.as<EventScratch>();
    entry.arguments = resident->arguments.as<ArgumentSteps>();
    entry.inline_function = resident->inline_function;
    entry.entries = layout.entries;
    entry.entry_bytes = layout.entry_bytes;
    entry.parameter_offset = layout.parameter_offset;
    entry.parameter_bytes = layout.parameter_bytes;
    entry.generation = layout.generation.value();
    entry.frame_bytes =
        static_cast<uint32_t>(EventFrameBytes(event.kmd().kernel->args_size));
    entry.flags = resident->inlined ? uint32_t{kEdgeInline} : 0;
    entry.block[0] = event.kmd().block.x;
    entry.block[1] = event.kmd().block.y;
    entry.block[2] = event.kmd().block.z;
    totals[resident->index] = resident->totals;
    report_->totals[resident->index] = resident->totals;
    report_->violations[resident->index] = 0;
    const uint32_t line = resident->index / kEdgeLanes;
    for (uint32_t warp = 0; warp < options_.event_warps; ++warp) {
      heads[(uint64_t{line} * options_.event_warps + warp) * kEdgeLanes +
            resident->index % kEdgeLanes] = resident->heads[warp];
    }
  }
  table.control = control_.get();
  table.report = report_.get();
  table.entries = entries_.as<EdgeEntry>();
  table.heads = heads_.as<EdgeHead>();
  table.totals = totals_.as<EventTotals>();
  table.dispatcher_count = options_.dispatchers;
  table.pollers = options_.pollers;
  table.event_warps = options_.event_warps;
  table.budget = options_.budget;
  table.report_every = 256;

  absl::Status status = Put(driver, entries_, entries.data(), entries.size());
  status.Update(Put(driver, totals_, totals.data(), totals.size()));
  status.Update(Put(driver, heads_, heads.data(), heads.size()));
  status.Update(Put(driver, table_, &table, 1));
  if (!status.ok()) return status;
  StoreWord(report_->halted, 0u);
  traced_ever_ |= tracing_;
  StoreWord(control_->tracing,
            static_cast<uint32_t>(tracing_       ? EdgeTracing::kOn
                                  : traced_ever_ ? EdgeTracing::kClear
                                                 : EdgeTracing::kOff));
  StoreWord(control_->clock_offset_ns, gpu_->clock_offset_ns());
  StoreWord(control_->trap, 0u);
  StoreWord(control_->command, static_cast<uint32_t>(EdgeCommand::kServe));
  for (uint32_t i = 0; i < options_.dispatchers; ++i) {
    const CUresult result =
        driver.cuGraphLaunch(dispatchers_[i].get(), streams_[i].get());
    if (!gpu_->Check(result)) {
      // Those that are up leave again with the next stop.
      running_ = i != 0;
      return ToStatus(driver, result, "launch a dispatcher");
    }
  }
  running_ = true;
  watch_.notify_all();
  return absl::OkStatus();
}

// Waits, looking at the streams for faults and at the clock.
bool EdgePath::AwaitReport(const std::function<bool()>& said) {
  const auto limit = static_cast<shm::Nanoseconds>(
      std::chrono::nanoseconds(options_.longest_kernel).count());
  const shm::Nanoseconds start = shm::NowNs();
  while (!said()) {
    if (gpu_->Faulted()) return false;
    if (shm::NowNs() - start > limit) return false;
    sched_yield();
  }
  return true;
}

bool EdgePath::AllTakenHaveEnded() const {
  return std::ranges::all_of(residents_, [&](const ResidentPtr& resident) {
    const EventTotals& totals = report_->totals[resident->index];
    return LoadWord(totals.launched) + LoadWord(totals.refused) ==
           LoadWord(totals.done) + LoadWord(totals.failed);
  });
}

bool EdgePath::StopDispatchers() {
  if (!running_) return true;
  const auto all_left = [&] {
    for (uint32_t i = 0; i < options_.dispatchers; ++i) {
      if (gpu_->driver().cuStreamQuery(streams_[i].get()) ==
          CUDA_ERROR_NOT_READY) {
        return false;
      }
    }
    return true;
  };
  StoreWord(control_->command, static_cast<uint32_t>(EdgeCommand::kHalt));
  bool stopped = AwaitReport(
      [&] { return LoadWord(report_->halted) != 0 && AllTakenHaveEnded(); });
  if (stopped) {
    StoreWord(control_->command, static_cast<uint32_t>(EdgeCommand::kLeave));
    stopped = AwaitReport(all_left) && !gpu_->Faulted();
  }
  if (!stopped) {
    if (!gpu_->Faulted()) {
      spdlog::warn(
          "the dispatchers did not come to rest: they are stopped, and the "
          "CUDA context with them");
      StoreWord(control_->trap, 1u);
      gpu_->StopEverything();
    }
    return false;
  }
  running_ = false;
  return FetchHeads().ok();
}

absl::Status EdgePath::FetchHeads() {
  const Driver& driver = gpu_->driver();
  std::vector<EventTotals> totals(kEdgeMaxEntries);
  std::vector<EdgeHead> heads(uint64_t{kEdgeMaxEntries} * kEdgeMaxEventWarps);
  absl::Status status = Fetch(driver, totals_, totals.data(), totals.size());
  status.Update(Fetch(driver, heads_, heads.data(), heads.size()));
  if (!status.ok()) {
    gpu_->Faulted();
    return status;
  }
  for (ResidentPtr& resident : residents_) {
    resident->totals = totals[resident->index];
    const uint32_t line = resident->index / kEdgeLanes;
    for (uint32_t warp = 0; warp < options_.event_warps; ++warp) {
      resident->heads[warp] =
          heads[(uint64_t{line} * options_.event_warps + warp) * kEdgeLanes +
                resident->index % kEdgeLanes];
    }
  }
  return absl::OkStatus();
}

void EdgePath::SetTracing(bool on) {
  std::lock_guard lock(mutex_);
  tracing_ = on;
  traced_ever_ |= on;
  StoreWord(control_->tracing,
            static_cast<uint32_t>(on             ? EdgeTracing::kOn
                                  : traced_ever_ ? EdgeTracing::kClear
                                                 : EdgeTracing::kOff));
}

std::vector<PathCounter> EdgePath::counters() const {
  const EdgeFigures now = dispatch_figures();
  return {{"inlined", now.inlined},
          {"graph launches", now.launched},
          {"graph busy", now.busy},
          {"launch errors", now.launch_errors},
          {"relays", now.relays}};
}

EdgeFigures EdgePath::dispatch_figures() const {
  const EdgeFigures& now = report_->figures;
  return {.launched = LoadWord(now.launched),
          .inlined = LoadWord(now.inlined),
          .busy = LoadWord(now.busy),
          .launch_errors = LoadWord(now.launch_errors),
          .relays = LoadWord(now.relays),
          .last_error = LoadWord(now.last_error),
          .reserved = {}};
}

void EdgePath::Stop() {
  {
    std::lock_guard lock(mutex_);
    if (stopped_) return;
    stopped_ = true;
  }
  Change([] { return absl::OkStatus(); }).IgnoreError();
  watch_.notify_all();
}

// --- Watching.

void EdgePath::Watch() {
  pthread_setname_np(pthread_self(), "gpud-edge-watch");
  std::unique_lock lock(mutex_);
  while (!stopped_) {
    if (!running_) {
      watch_.wait(lock);
      continue;
    }
    const shm::Nanoseconds now = shm::NowNs();
    if (tracing_) {
      StoreWord(control_->clock_offset_ns, gpu_->clock_offset_ns());
    }
    bool soon = false;
    for (ResidentPtr& resident : residents_) {
      LookAt(*resident, now);
      soon |=
          Sleeps(resident->event->memory()) &&
          resident->event->waiting_rings() + resident->event->in_flight() != 0;
    }
    watch_.wait_for(lock, soon ? std::chrono::nanoseconds(kLookSoon)
                               : std::chrono::nanoseconds(kLookLater));
  }
}

// Its device may sleep until a completion that is there; it may have broken the
// protocol; its events may stand still.
void EdgePath::LookAt(Resident& resident, shm::Nanoseconds now) {
  EventKernel& event = *resident.event;
  WakeForCompletion(event);
  if (!resident.violation_seen &&
      LoadWord(report_->violations[resident.index]) != 0) {
    resident.violation_seen = true;
    if (options_.on_violation) {
      options_.on_violation(event.shared_memory(), DoorbellViolation(event));
    }
  }
  const EventTotals& totals = report_->totals[resident.index];
  const uint64_t ended = LoadWord(totals.done) + LoadWord(totals.failed);
  const bool waits = ended < event.RungOf(ended);
  if (!waits || ended != resident.ended_before ||
      resident.stands_still_since == 0) {
    resident.ended_before = ended;
    resident.stands_still_since = now;
  }
}

bool EdgePath::MarkOverdue(shm::Nanoseconds since) {
  std::lock_guard lock(mutex_);
  if (!running_) return false;
  for (ResidentPtr& resident : residents_) {
    if (resident->stands_still_since == 0 || resident->violation_seen ||
        resident->stands_still_since >= since) {
      continue;
    }
    const EventKernel& event = *resident->event;
    const uint64_t rung = event.RungOf(resident->ended_before);
    const uint64_t entries = event.ring().layout().entries;
    if (rung <= resident->ended_before) continue;
    for (uint64_t s = rung > entries ? rung - entries + 1 : 1; s <= rung; ++s) {
      if (IsCompleted(event, s)) continue;
      resident->overdue = s;
      return true;
    }
  }
  return false;
}

// --- A lost context.

void EdgePath::Abandon() {
  std::lock_guard lock(mutex_);
  running_ = false;
  control_.Abandon();
  report_.Abandon();
  for (DeviceBytes* bytes : {&table_, &entries_, &heads_, &totals_}) {
    bytes->Abandon();
  }
  for (auto& exec : dispatchers_) exec.Abandon();
  for (auto& stream : streams_) stream.Abandon();
  for (ResidentPtr& resident : residents_) {
    for (DeviceBytes* bytes :
         {&resident->frames, &resident->scratch, &resident->ended,
          &resident->execs, &resident->arguments}) {
      bytes->Abandon();
    }
    for (GraphExec& graph : resident->graphs) graph.Abandon();
    resident->graphs.clear();
  }
}

// How many have failed is known as of the dispatchers' last report.
void EdgePath::TakeUnfinished(LostWork& lost) {
  std::lock_guard lock(mutex_);
  for (ResidentPtr& resident : residents_) {
    const EventKernel& event = *resident->event;
    EventTotals& totals = resident->totals;
    EventTotals& reported = report_->totals[resident->index];
    totals.failed = std::max(totals.failed, LoadWord(reported.failed));
    totals.refused = std::max(totals.refused, LoadWord(reported.refused));
    const uint64_t rung =
        TakeUnfinishedOf(resident->event, totals, reported, resident->overdue,
                         gpu_->model(), lost);
    resident->overdue = 0;
    resident->stands_still_since = 0;
    for (uint32_t warp = 0; warp < options_.event_warps; ++warp) {
      const uint32_t flags = resident->heads[warp].flags;
      resident->heads[warp] =
          FirstHead(rung + 1, event.first_ring() + static_cast<uint32_t>(rung),
                    warp, options_.event_warps, flags);
    }
  }
}

absl::Status EdgePath::Settle() {
  std::lock_guard lock(mutex_);
  absl::Status status = Prepare();
  for (ResidentPtr& resident : residents_) {
    if (status.ok()) status = Place(*resident);
  }
  return status;
}

absl::Status EdgePath::Resume() {
  std::lock_guard lock(mutex_);
  if (stopped_ || paused_ || residents_.empty()) return absl::OkStatus();
  return StartDispatchers();
}

}  // namespace carillon::gpud::cuda
