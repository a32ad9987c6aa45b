#include "gpu_daemon/backends/cuda/paths/edge_path.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/status.h"
#include "fmt/format.h"
#include "gpu_daemon/backends/cuda/driver/launch_sequence.h"
#include "gpu_daemon/backends/cuda/paths/gpu_rings.h"

namespace carillon::gpud::cuda {
namespace {

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
absl::StatusOr<GraphExec> DeviceGraph(Gpu& gpu, CUfunction function,
                                      uint32_t priority, simt::Dim3 grid,
                                      simt::Dim3 block, uint32_t shared_bytes,
                                      void** parameters, CUstream upload) {
  const Driver& driver = gpu.driver();
  const Gpu::PartitionScope making(&gpu, SmSet::kEdge);
  ASSIGN_OR_RETURN(auto graph, MakeGraph(driver));
  const CUDA_KERNEL_NODE_PARAMS node =
      NodeParams(function, grid, block, shared_bytes, parameters);
  CUgraphNode handle = nullptr;
  RETURN_IF_ERROR(ToStatus(
      driver,
      driver.cuGraphAddKernelNode(&handle, graph.get(), nullptr, 0, &node),
      "add a kernel to a graph"));
  GiveHints(driver, handle, gpu.NativePriority(priority));
  return Instantiate(driver, graph.get(),
                     CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |
                         CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD,
                     upload);
}

// EDGE IV-C, and what a resident warp can run besides its own work.
bool RunsInline(const KernelMetadata& kmd) {
  return kmd.single_warp() && !kmd.kernel->uses_barriers &&
         !kmd.kernel->unbounded && kmd.kernel->args_size <= kEdgeMaxInlineArgs;
}

// The first of the doorbells that lie in a line with the event kernel's.
uint32_t FirstDoorbell(const EventKernel& event) {
  return event.event_id() / shm::kDoorbellsPerLine * shm::kDoorbellsPerLine;
}

}  // namespace

absl::StatusOr<std::unique_ptr<EdgePath>> EdgePath::Create(Gpu* gpu,
                                                           Options options) {
  std::unique_ptr<EdgePath> path(new EdgePath(gpu, std::move(options)));
  RETURN_IF_ERROR(path->Open());
  path->opened_ = true;
  return path;
}

EdgePath::EdgePath(Gpu* gpu, Options options)
    : ResidentPath(gpu, std::string(kEdgePath), "gpud-edge-watch",
                   {.tracing = options.tracing,
                    .on_violation = options.on_violation,
                    .longest_kernel = options.longest_kernel}),
      options_(std::move(options)) {}

EdgePath::~EdgePath() { Close(); }

absl::Status EdgePath::Prepare() {
  const Driver& driver = gpu().driver();
  absl::Status status = control_.Register(driver);
  status.Update(report_.Register(driver));
  status.Update(MakeBytes(sizeof(EdgeTable), table_));
  status.Update(MakeBytes(kEdgeMaxEntries * sizeof(EdgeEntry), entries_));
  status.Update(MakeBytes(
      uint64_t{kEdgeMaxEntries} * kEdgeMaxEventWarps * sizeof(EdgeHead),
      heads_));
  status.Update(
      MakeBytes(kEdgeMaxEntries * sizeof(simt::EventTotals), totals_));
  if (!status.ok()) return status;
  ASSIGN_OR_RETURN(auto function, gpu().Function("carillon_edge_dispatcher"));
  for (uint32_t i = 0; i < dispatchers(); ++i) {
    ASSIGN_OR_RETURN(streams_[i],
                     gpu().MakeStream(SmSet::kEdge, kPriorities - 1));
    if (inline_only()) return absl::OkStatus();
    auto* table = table_.as<EdgeTable>();
    void* parameters[] = {&table, &i};
    auto exec = DeviceGraph(
        gpu(), function, kPriorities - 1, {1, 1, 1},
        {kEdgeLanes * (options_.pollers + options_.event_warps), 1, 1}, 0,
        parameters, streams_[i].get());
    if (!exec.ok()) return DoWithoutGraphs(exec.status());
    dispatchers_[i] = *std::move(exec);
  }
  return absl::OkStatus();
}

absl::Status EdgePath::DoWithoutGraphs(const absl::Status& refusal) {
  if (opened_ || absl::IsResourceExhausted(refusal) || gpu().Faulted()) {
    return refusal;
  }
  for (auto& exec : dispatchers_) exec.Reset();
  no_graphs_ = std::string(refusal.message());
  SetNotice(
      fmt::format("inline only, as this GPU launches no graphs: kernels of one "
                  "warp without barriers ({})",
                  no_graphs_));
  return absl::OkStatus();
}

absl::Status EdgePath::TryOut() {
  absl::Status status = BeginAll();
  if (!EndAll() && status.ok()) {
    status = absl::UnimplementedError("a dispatcher does not come to rest");
  }
  return status;
}

void EdgePath::FreeShared() {
  for (auto& exec : dispatchers_) exec.Reset();
  for (auto& stream : streams_) stream.Reset();
  for (DeviceBytes* bytes : {&table_, &entries_, &heads_, &totals_}) {
    *bytes = DeviceBytes();
  }
  control_.Unregister();
  report_.Unregister();
}

// --- Event kernels.

absl::Status EdgePath::CheckKernel(const EventKernel& event) const {
  const KernelMetadata& kmd = event.kmd();
  if (!inline_only() || RunsInline(kmd)) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "kernel '{}' with {} blocks of {} threads needs a launch, and this GPU "
      "launches no graphs by itself ({}): launch path edge serves kernels of "
      "one warp without barriers here; use another launch path",
      kmd.kernel->name, kmd.blocks(), kmd.threads(), no_graphs_));
}

absl::StatusOr<ResidentPath::ResidentEventPtr> EdgePath::NewResidentEvent(
    const EventKernel& event) {
  const auto index = FreeIndex(event);
  if (!index) {
    return absl::ResourceExhaustedError(fmt::format(
        "the dispatchers poll {} doorbell lines already: that is the limit; "
        "use another launch path",
        kEdgeMaxLines));
  }
  auto row = std::make_unique<Row>();
  row->index = *index;
  row->inlined = RunsInline(event.kmd());
  return row;
}

const EventKernel* EdgePath::OwnerOf(uint32_t line) const {
  const auto owner = std::ranges::find(
      residents(), line, [](const auto& r) { return r->index / kEdgeLanes; });
  return owner == residents().end() ? nullptr : (*owner)->event.get();
}

// A device's doorbells keep their places in a line, which is its own.
std::optional<uint32_t> EdgePath::FreeIndex(const EventKernel& event) const {
  std::optional<uint32_t> found;
  for (uint32_t line = 0; line < kEdgeMaxLines; ++line) {
    const EventKernel* owner = OwnerOf(line);
    const bool is_its_own = owner != nullptr &&
                            &owner->memory() == &event.memory() &&
                            FirstDoorbell(*owner) == FirstDoorbell(event);
    if (is_its_own || (owner == nullptr && !found)) found = line;
    if (is_its_own) break;
  }
  if (!found) return std::nullopt;
  return *found * kEdgeLanes + event.event_id() % shm::kDoorbellsPerLine;
}

void EdgePath::StartHeads(Row& row, uint64_t first) {
  const uint32_t rings_before =
      row.event->cursor().first_ring() + static_cast<uint32_t>(first - 1);
  for (uint32_t warp = 0; warp < options_.event_warps; ++warp) {
    EdgeHead& head = row.heads[warp];
    head = FirstHead(
        first, rings_before, warp, options_.event_warps,
        (head.flags & kEdgeClosed) | (row.inlined ? uint32_t{kEdgeInline} : 0));
  }
}

// Its slots are as at the beginning, or as its heads say.
absl::Status EdgePath::PlaceOwn(ResidentEvent& resident) {
  auto& row = static_cast<Row&>(resident);
  const Driver& driver = gpu().driver();
  const uint64_t slots = row.event->ring().layout().entries;
  absl::Status status = MakeBytes(slots * sizeof(uint64_t), row.ended);
  status.Update(MakeBytes(slots * 2 * sizeof(uint64_t), row.execs));
  if (!status.ok()) return status;
  if (row.heads[0].next == 0) StartHeads(row, row.event->ended_before() + 1);
  const uint64_t first =
      std::ranges::min(std::span(row.heads).first(options_.event_warps), {},
                       &EdgeHead::next)
          .next;
  std::vector<uint64_t> ended(slots);
  for (uint32_t slot = 0; slot < slots; ++slot) {
    ended[slot] = FirstSlotEnded(first, slot, static_cast<uint32_t>(slots));
  }
  status = Put(driver, row.ended, ended.data(), ended.size());
  if (!status.ok()) return status;
  return row.inlined ? MakeInline(row) : MakeGraphs(row);
}

absl::Status EdgePath::MakeInline(Row& row) {
  ASSIGN_OR_RETURN(row.inline_function,
                   gpu().DeviceWord(fmt::format(
                       "carillon_inline_{}", row.event->kmd().kernel->name)));
  return absl::OkStatus();
}

absl::Status EdgePath::MakeGraphs(Row& row) {
  const Driver& driver = gpu().driver();
  const KernelMetadata& kmd = row.event->kmd();
  ASSIGN_OR_RETURN(auto function, gpu().FunctionFor("carillon_event_", kmd));
  const uint64_t frame_bytes = simt::EventFrameBytes(kmd.kernel->args_size);
  const uint32_t copies = row.event->ring().layout().entries * 2;
  std::vector<uint64_t> handles;
  row.graphs.clear();
  for (uint32_t i = 0; i < copies; ++i) {
    auto* frame = row.frames.as<simt::EventFrame>(i * frame_bytes);
    void* parameters[] = {&frame};
    ASSIGN_OR_RETURN(
        auto exec,
        DeviceGraph(gpu(), function, row.event->priority(), kmd.grid, kmd.block,
                    kmd.total_shared(), parameters, streams_[0].get()));
    handles.push_back(reinterpret_cast<uint64_t>(exec.get()));
    row.graphs.push_back(std::move(exec));
  }
  return Put(driver, row.execs, handles.data(), handles.size());
}

// --- Dispatchers.

void EdgePath::FillIn(const Row& row, EdgeEntry& entry) const {
  entry = EntryOf(row);
  entry.ended = row.ended.as<uint64_t>();
  entry.execs = reinterpret_cast<uint64_t(*)[2]>(row.execs.as<uint64_t>());
  entry.inline_function = row.inline_function;
  entry.flags = row.inlined ? uint32_t{kEdgeInline} : 0;
}

void EdgePath::FillIn(EdgeTable& table) const {
  for (uint32_t line = 0; line < kEdgeMaxLines; ++line) {
    // A free line among others shows words that nobody takes for doorbells.
    table.lines[line].doorbells =
        reinterpret_cast<const uint32_t*>(control_.get());
    const EventKernel* owner = OwnerOf(line);
    if (owner == nullptr) continue;
    table.line_count = line + 1;
    table.lines[line].doorbells =
        &owner->memory().submission().doorbells()[FirstDoorbell(*owner)];
  }
  table.control = control_.get();
  table.report = report_.get();
  table.entries = entries_.as<EdgeEntry>();
  table.heads = heads_.as<EdgeHead>();
  table.totals = totals_.as<simt::EventTotals>();
  table.dispatcher_count = dispatchers();
  table.pollers = options_.pollers;
  table.event_warps = options_.event_warps;
  table.budget = options_.budget;
  table.report_every = 256;
  table.figures = dispatch_figures();
}

size_t EdgePath::HeadOf(const Row& row, uint32_t warp) const {
  return (size_t{row.index / kEdgeLanes} * options_.event_warps + warp) *
             kEdgeLanes +
         row.index % kEdgeLanes;
}

absl::Status EdgePath::BeginAll() {
  begun_ = StartDispatchers();
  return begun_;
}

absl::Status EdgePath::StartDispatchers() {
  const Driver& driver = gpu().driver();
  std::vector<EdgeEntry> entries(kEdgeMaxEntries);
  std::vector<simt::EventTotals> totals(kEdgeMaxEntries);
  std::vector<EdgeHead> heads(size_t{kEdgeMaxEntries} * kEdgeMaxEventWarps);
  EdgeTable table{};
  FillIn(table);
  for (const ResidentEventPtr& resident : residents()) {
    const auto& row = static_cast<const Row&>(*resident);
    FillIn(row, entries[row.index]);
    totals[row.index] = row.totals;
    report_->totals[row.index] = row.totals;
    report_->violations[row.index] = 0;
    for (uint32_t warp = 0; warp < options_.event_warps; ++warp) {
      heads[HeadOf(row, warp)] = row.heads[warp];
    }
  }
  absl::Status status = Put(driver, entries_, entries.data(), entries.size());
  status.Update(Put(driver, totals_, totals.data(), totals.size()));
  status.Update(Put(driver, heads_, heads.data(), heads.size()));
  status.Update(Put(driver, table_, &table, 1));
  if (!status.ok()) return status;
  StoreWord(report_->halted, 0u);
  for (EdgeDispatcherReport& dispatcher : report_->dispatchers) {
    StoreWord(dispatcher.state, static_cast<uint32_t>(EdgeState::kNone));
  }
  StoreWord(control_->trap, 0u);
  StoreWord(control_->command, static_cast<uint32_t>(EdgeCommand::kServe));
  for (; launched_ < dispatchers(); ++launched_) {
    const CUresult result = LaunchDispatcher(launched_);
    if (!gpu().Check(result)) {
      return ToStatus(driver, result, "launch a dispatcher");
    }
  }
  return absl::OkStatus();
}

CUresult EdgePath::LaunchDispatcher(uint32_t dispatcher) {
  const Driver& driver = gpu().driver();
  CUstream stream = streams_[dispatcher].get();
  if (!inline_only()) {
    return driver.cuGraphLaunch(dispatchers_[dispatcher].get(), stream);
  }
  // Found before, when its graph was to be made.
  const auto function = gpu().Function("carillon_edge_dispatcher");
  if (!function.ok()) return CUDA_ERROR_NOT_FOUND;
  auto* table = table_.as<EdgeTable>();
  void* parameters[] = {&table, &dispatcher};
  return driver.cuLaunchKernel(
      *function, 1, 1, 1,
      kEdgeLanes * (options_.pollers + options_.event_warps), 1, 1, 0, stream,
      parameters, nullptr);
}

bool EdgePath::AllTakenHaveEnded() const {
  return std::ranges::all_of(
      residents(), [&](const ResidentEventPtr& resident) {
        const simt::EventTotals& totals = report_->totals[resident->index];
        return LoadWord(totals.launched) + LoadWord(totals.refused) ==
               LoadWord(totals.done) + LoadWord(totals.failed);
      });
}

bool EdgePath::AllHaveLeft() {
  return std::ranges::all_of(
      std::span(streams_).first(launched_),
      [this](const Stream& stream) { return IsIdle(stream.get()); });
}

bool EdgePath::EndAll() {
  if (launched_ == 0) return true;
  StoreWord(control_->command, static_cast<uint32_t>(EdgeCommand::kHalt));
  // Who holds the token says so; or all are lost, and what they launched has
  // ended.
  const bool halted = Await([&] {
    return (LoadWord(report_->halted) != 0 && AllTakenHaveEnded()) ||
           AllHaveLeft();
  });
  if (!halted) return false;
  StoreWord(control_->command, static_cast<uint32_t>(EdgeCommand::kLeave));
  if (!Await([&] { return AllHaveLeft(); })) return false;
  launched_ = 0;
  if (FetchHeads().ok()) return true;
  if (!gpu().Faulted()) gpu().StopEverything();
  return false;
}

absl::Status EdgePath::FetchHeads() {
  const Driver& driver = gpu().driver();
  std::vector<simt::EventTotals> totals(kEdgeMaxEntries);
  std::vector<EdgeHead> heads(size_t{kEdgeMaxEntries} * kEdgeMaxEventWarps);
  absl::Status status = Fetch(driver, totals_, totals.data(), totals.size());
  status.Update(Fetch(driver, heads_, heads.data(), heads.size()));
  if (!status.ok()) return status;
  for (const ResidentEventPtr& resident : residents()) {
    auto& row = static_cast<Row&>(*resident);
    row.totals = totals[row.index];
    for (uint32_t warp = 0; warp < options_.event_warps; ++warp) {
      row.heads[warp] = heads[HeadOf(row, warp)];
    }
  }
  return absl::OkStatus();
}

void EdgePath::ShowTracing() {
  StoreWord(control_->clock_offset_ns, gpu().clock_offset_ns());
  StoreWord(control_->tracing, static_cast<uint32_t>(tracing()));
}

std::vector<PathCounter> EdgePath::counters() const {
  const EdgeFigures now = dispatch_figures();
  return {{"inlined", now.inlined}, {"graph launches", now.launched},
          {"graph busy", now.busy}, {"launch errors", now.launch_errors},
          {"relays", now.relays},   {"restarts", restarts()}};
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

// --- Watching.

void EdgePath::LookAtShared() {
  if (const std::string why = WhyLost(); !why.empty()) BeginAgain(why);
}

std::string EdgePath::WhyLost() {
  if (!begun_.ok()) return std::string(begun_.message());
  const bool any = std::ranges::any_of(
      report_->dispatchers, [](const EdgeDispatcherReport& dispatcher) {
        return LoadWord(dispatcher.state) ==
               static_cast<uint32_t>(EdgeState::kLost);
      });
  if (any) {
    return fmt::format(
        "the GPU refused to launch a dispatcher again (CUDA error {})",
        LoadWord(report_->figures.last_error));
  }
  return AllHaveLeft() ? "the dispatchers ended by themselves" : "";
}

bool EdgePath::LookAt(ResidentEvent& resident, Nanoseconds now) {
  const EventKernel& event = *resident.event;
  WakeForCompletion(event);
  const simt::EventTotals& totals = report_->totals[resident.index];
  const uint64_t ended = LoadWord(totals.done) + LoadWord(totals.failed);
  // The doorbell after what has ended by it: it can only be behind by having
  // gone back.
  const auto ahead =
      static_cast<int64_t>(event.gpu_ledger().RungOf(ended) - ended);
  if (!resident.violation_seen &&
      (ahead < 0 || LoadWord(report_->violations[resident.index]) != 0)) {
    NoteViolation(resident);
  }
  NoteProgress(resident, ended, ahead > 0, now);
  return Sleeps(event.memory()) &&
         event.waiting_rings() + event.in_flight() != 0;
}

uint64_t EdgePath::OldestWaiting(ResidentEvent& resident) {
  const EventKernel& event = *resident.event;
  const uint64_t rung = event.gpu_ledger().RungOf(resident.ended_before);
  const uint64_t entries = event.ring().layout().entries;
  if (rung <= resident.ended_before) return 0;
  for (uint64_t s = rung > entries ? rung - entries + 1 : 1; s <= rung; ++s) {
    if (!IsCompleted(event, s)) return s;
  }
  return 0;
}

// --- A lost context.

void EdgePath::AbandonShared() {
  launched_ = 0;
  control_.Abandon();
  report_.Abandon();
  for (DeviceBytes* bytes : {&table_, &entries_, &heads_, &totals_}) {
    bytes->Abandon();
  }
  for (auto& exec : dispatchers_) exec.Abandon();
  for (auto& stream : streams_) stream.Abandon();
}

void EdgePath::AbandonOwn(ResidentEvent& resident) {
  auto& row = static_cast<Row&>(resident);
  row.ended.Abandon();
  row.execs.Abandon();
  for (GraphExec& graph : row.graphs) graph.Abandon();
  row.graphs.clear();
}

// How many have failed is known as of the dispatchers' last report.
void EdgePath::CountEnded(ResidentEvent& resident) {
  simt::EventTotals& totals = resident.totals;
  const simt::EventTotals& reported = report_->totals[resident.index];
  totals.failed = std::max(totals.failed, LoadWord(reported.failed));
  totals.refused = std::max(totals.refused, LoadWord(reported.refused));
}

void EdgePath::ContinueAfter(ResidentEvent& resident, uint64_t rung) {
  StartHeads(static_cast<Row&>(resident), rung + 1);
}

}  // namespace carillon::gpud::cuda
