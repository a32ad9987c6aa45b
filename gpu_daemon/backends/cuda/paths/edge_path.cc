#include "gpu_daemon/backends/cuda/paths/edge_path.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/status.h"
#include "fmt/format.h"
#include "gpu_daemon/backends/cuda/driver/launch_sequence.h"
#include "gpu_daemon/backends/cuda/driver/owned.h"
#include "gpu_daemon/backends/cuda/paths/device_graphs.h"
#include "gpu_daemon/backends/cuda/paths/gpu_rings.h"
#include "gpu_daemon/backends/cuda/paths/host_words.h"
#include "gpu_daemon/backends/cuda/paths/resident_path.h"

namespace carillon::gpud::cuda {
namespace {

template <class T>
absl::Status Put(const Driver& driver, const DeviceBytes& to, const T* from,
                 size_t count) {
  return ToStatus(driver, to.Write(driver, from, count * sizeof(T)),
                  "write the dispatchers' tables");
}

template <class T>
absl::Status Fetch(const Driver& driver, const DeviceBytes& from, T* to,
                   size_t count) {
  return ToStatus(driver,
                  driver.cuMemcpyDtoH(to, from.address(), count * sizeof(T)),
                  "read the dispatchers' tables");
}

// A dispatcher that runs says so every few milliseconds.
constexpr Nanoseconds kSilenceNs = 1'000'000'000;

// EDGE IV-C, and what a resident warp can run besides its own work.
bool RunsInline(const KernelMetadata& kmd) {
  return kmd.single_warp() && kmd.kernel->runs_inline() &&
         kmd.kernel->args_size <= kEdgeMaxInlineArgs;
}

// A user's arguments are in its graph, so that each slot whose arguments are its
// own needs graphs of its own.
uint32_t LaunchSlots(const EventKernel& event) {
  const uint32_t entries = event.ring().layout().entries;
  const bool own_arguments = event.kmd().kernel->is_users() &&
                             event.arguments().steps().stepped_count != 0;
  return own_arguments ? entries : std::min(entries, kEdgeMaxLaunchSlots);
}

// The first of the doorbells that lie in a line with the event kernel's.
uint32_t FirstDoorbell(const EventKernel& event) {
  return event.event_id() / shm::kDoorbellsPerLine * shm::kDoorbellsPerLine;
}

// One event kernel, and what only edge has of it on the GPU. Its index is 32 *
// line + doorbell's place in it.
struct Row : ResidentEvent {
  std::shared_ptr<ResidentRoom::Held> room;  // the dispatchers'
  bool inlined = false;
  DeviceBytes ended;  // a sequence a slot
  // Where it is launched: handles, two a launch slot.
  DeviceBytes execs;
  std::vector<GraphExec> graphs;
  uint32_t launch_slots = 0;
  uint64_t inline_kernel = 0;
  // mirrors_ when it began to stand still, as `mirrored_since` says.
  uint64_t mirrors = 0;
  Nanoseconds mirrored_since = 0;
  // While the dispatchers are stopped: where they go on.
  std::array<EdgeHead, kEdgeMaxEventWarps> heads{};
};

class EdgeEngine final : public ResidentEngine {
 public:
  EdgeEngine(ResidentHost* host, EdgeOptions options)
      : host_(*host), options_(options) {
    gpu().AddTrap(&control_->trap);
  }
  ~EdgeEngine() override { gpu().RemoveTrap(&control_->trap); }

  absl::Status Prepare() override;
  absl::StatusOr<ResidentEventPtr> NewEvent(const EventKernel& event) override;
  absl::Status Place(ResidentEvent& resident) override;
  void FreeShared() override;
  absl::Status BeginAll() override;
  bool EndAll() override;
  std::string WhyLost() override;
  bool LookAt(ResidentEvent& resident, Nanoseconds now) override;
  bool IsUnseen(ResidentEvent& resident) override;
  std::optional<TakenEvent> Overdue(ResidentEvent& resident,
                                    Nanoseconds since) override;
  void ShowTracing() override;
  void AbandonShared() override;
  void Abandon(ResidentEvent& resident) override;
  void CountEnded(ResidentEvent& resident) override;
  void ContinueAfter(ResidentEvent& resident, uint64_t rung) override;
  absl::Status CheckKernel(const EventKernel& event) const override;
  // The dispatchers' own.
  std::vector<PathCounter> counters() const override;

 private:
  static Row& Of(ResidentEvent& resident) {
    return static_cast<Row&>(resident);
  }
  Gpu& gpu() const { return host_.gpu(); }

  // Of a graph's kernel; nullopt: this driver takes none.
  std::optional<uint32_t> Priority(uint32_t priority) const {
    return priorities_ ? std::optional(priority) : std::nullopt;
  }
  bool inline_only() const { return !no_graphs_.empty(); }
  uint32_t dispatchers() const {
    return inline_only() ? 1 : options_.dispatchers;
  }
  // Whether a dispatcher's graph could not be made for what this GPU lacks, and it
  // is not too late to do without.
  bool IsRefusal(const absl::Status& status);
  // Room for the dispatchers, held as long as there are rows. Errors:
  // ResourceExhausted.
  absl::StatusOr<std::shared_ptr<ResidentRoom::Held>> TakeRoom();
  // Before anything is registered: what the refusal of a dispatcher's graph
  // means.
  absl::Status DoWithoutGraphs(const absl::Status& refusal);
  absl::Status StartDispatchers();
  CUresult LaunchDispatcher(uint32_t dispatcher);
  absl::Status MakeGraphs(Row& row);
  absl::Status MakeInline(Row& row);
  void StartHeads(Row& row, uint64_t first);
  void FillIn(const Row& row, EdgeEntry& entry) const;
  void FillIn(EdgeTable& table) const;
  // The event kernel whose device has this line's doorbells; nullptr: it is
  // free.
  const EventKernel* OwnerOf(uint32_t line) const;
  std::optional<uint32_t> FreeIndex(const EventKernel& event) const;
  bool AllTakenHaveEnded() const;
  // Sequences that have rung and not ended.
  std::vector<uint64_t> Waiting(const ResidentEvent& resident) const;
  // Their streams alone would not tell: that of a graph which launches itself
  // again may say that it is done.
  bool AllHaveLeft();
  // Looks at it; true: it has said that it ends, or nothing for a while.
  bool IsSilent(uint32_t dispatcher);
  // Notes since when each event warp has run what it runs.
  void NoteRuns();
  // What the dispatchers say of themselves; a copy of some milliseconds ago.
  EdgeFigures dispatch_figures() const;
  absl::Status FetchHeads();
  // Where the head of an event warp lies in the dispatchers' heads.
  size_t HeadOf(const Row& row, uint32_t warp) const;

  uint32_t dispatcher_threads() const {
    return kEdgeLanes * (options_.pollers + options_.event_warps);
  }

  ResidentHost& host_;
  const EdgeOptions options_;
  std::weak_ptr<ResidentRoom::Held> room_;
  // Mapped for the GPU in every epoch; the host's words stay.
  HostWords<EdgeControl> control_;
  HostWords<EdgeReport> report_;

  // In the context.
  DeviceBytes table_;
  DeviceBytes entries_;
  DeviceBytes heads_;
  DeviceBytes totals_;
  std::array<Stream, kEdgeMaxDispatchers> streams_;
  std::array<GraphExec, kEdgeMaxDispatchers> dispatchers_;

  // Whether graphs are given a priority. Written by Prepare() alone, before it has begun.
  bool priorities_ = true;
  // Why it is inline only; empty: it is not. Written by Prepare() alone, before it has begun.
  std::string no_graphs_;
  bool has_begun_ = false;
  // Dispatchers that were launched since the last EndAll().
  uint32_t launched_ = 0;
  absl::Status begun_;  // what became of the last BeginAll()

  // What each event warp runs itself, by its last report, and since when.
  struct Run {
    uint32_t entry = 0;  // as EdgeRun's
    uint32_t sequence = 0;
    Nanoseconds since = 0;
  };
  std::array<Run, kEdgeMaxEventWarps> runs_{};

  // What each dispatcher said last, and since when.
  struct Sign {
    uint64_t heartbeat = 0;
    uint64_t executions = 0;
    EdgeState state = EdgeState::kNone;
    Nanoseconds since = 0;
  };
  std::array<Sign, kEdgeMaxDispatchers> signs_{};
};

absl::Status EdgeEngine::Prepare() {
  const Driver& driver = gpu().driver();
  absl::Status status = control_.Register(driver);
  status.Update(report_.Register(driver));
  status.Update(host_.MakeBytes(sizeof(EdgeTable), table_));
  status.Update(host_.MakeBytes(kEdgeMaxEntries * sizeof(EdgeEntry), entries_));
  status.Update(host_.MakeBytes(
      uint64_t{kEdgeMaxEntries} * kEdgeMaxEventWarps * sizeof(EdgeHead),
      heads_));
  status.Update(
      host_.MakeBytes(kEdgeMaxEntries * sizeof(simt::EventTotals), totals_));
  if (!status.ok()) return status;
  ASSIGN_OR_RETURN(auto function, gpu().Function("carillon_edge_dispatcher"));
  for (uint32_t i = 0; i < dispatchers(); ++i) {
    ASSIGN_OR_RETURN(streams_[i],
                     gpu().MakeStream(SmSet::kEdge, kPriorities - 1));
    if (inline_only()) return absl::OkStatus();
    auto* table = table_.as<EdgeTable>();
    void* parameters[] = {&table, &i};
    const auto make = [&] {
      const CUDA_KERNEL_NODE_PARAMS node = NodeParams(
          function, {1, 1, 1}, {dispatcher_threads(), 1, 1}, 0, parameters);
      return MakeDeviceGraph(gpu(), {&node, 1}, Priority(kPriorities - 1),
                             streams_[i].get());
    };
    auto exec = make();
    if (i == 0 && priorities_ && IsRefusal(exec.status())) {
      const std::string refusal(exec.status().message());
      priorities_ = false;
      exec = make();
      if (exec.ok()) {
        host_.SetNotice(fmt::format(
            "event kernels that the GPU launches have the lowest priority, as "
            "this driver takes none for graphs ({})",
            refusal));
      }
    }
    if (!exec.ok()) return DoWithoutGraphs(exec.status());
    dispatchers_[i] = *std::move(exec);
  }
  return absl::OkStatus();
}

bool EdgeEngine::IsRefusal(const absl::Status& status) {
  return !status.ok() && !has_begun_ && !absl::IsResourceExhausted(status) &&
         !gpu().Faulted();
}

absl::Status EdgeEngine::DoWithoutGraphs(const absl::Status& refusal) {
  if (!IsRefusal(refusal)) return refusal;
  for (auto& exec : dispatchers_) exec.Reset();
  no_graphs_ = std::string(refusal.message());
  host_.SetNotice(
      fmt::format("inline only, as this GPU launches no graphs: small kernels "
                  "of one warp without barriers ({})",
                  no_graphs_));
  return absl::OkStatus();
}

void EdgeEngine::FreeShared() {
  for (auto& exec : dispatchers_) exec.Reset();
  for (auto& stream : streams_) stream.Reset();
  for (DeviceBytes* bytes : {&table_, &entries_, &heads_, &totals_}) {
    *bytes = DeviceBytes();
  }
  control_.Unregister();
  report_.Unregister();
}

// --- Event kernels.

absl::Status EdgeEngine::CheckKernel(const EventKernel& event) const {
  const KernelMetadata& kmd = event.kmd();
  RETURN_IF_ERROR(CheckFixedArguments(event, host_.name()));
  if (!inline_only() || RunsInline(kmd)) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "kernel '{}' with {} blocks of {} threads needs a launch, and this GPU "
      "launches no graphs by itself ({}): launch path edge serves small "
      "kernels of one warp without barriers here; use another launch path",
      kmd.kernel->name, kmd.blocks(), kmd.threads(), no_graphs_));
}

absl::StatusOr<ResidentEventPtr> EdgeEngine::NewEvent(
    const EventKernel& event) {
  const auto index = FreeIndex(event);
  if (!index) {
    return absl::ResourceExhaustedError(fmt::format(
        "the dispatchers poll {} doorbell lines already: that is the limit; "
        "use another launch path",
        kEdgeMaxLines));
  }
  auto row = std::make_unique<Row>();
  ASSIGN_OR_RETURN(row->room, TakeRoom());
  row->index = *index;
  row->shown = &report_->totals[*index];
  row->inlined = RunsInline(event.kmd());
  if (!row->inlined) row->launch_slots = LaunchSlots(event);
  return row;
}

absl::StatusOr<std::shared_ptr<ResidentRoom::Held>> EdgeEngine::TakeRoom() {
  std::shared_ptr<ResidentRoom::Held> room = room_.lock();
  if (room != nullptr) return room;
  const Driver& driver = gpu().driver();
  ASSIGN_OR_RETURN(auto function, gpu().Function("carillon_edge_dispatcher"));
  int registers = 0;
  int shared_bytes = 0;
  CUresult result = driver.cuFuncGetAttribute(
      &registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function);
  if (result == CUDA_SUCCESS) {
    result = driver.cuFuncGetAttribute(
        &shared_bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function);
  }
  RETURN_IF_ERROR(ToStatus(driver, result, "ask for a dispatcher's size"));
  const BlockCost cost =
      CostOf(dispatcher_threads(), static_cast<uint32_t>(registers),
             static_cast<uint32_t>(shared_bytes));
  ASSIGN_OR_RETURN(room, gpu().TakeRoom(host_.name(), cost, dispatchers(),
                                        dispatchers(), SmSet::kEdge));
  room_ = room;
  return room;
}

const EventKernel* EdgeEngine::OwnerOf(uint32_t line) const {
  const auto owner =
      std::ranges::find(host_.residents(), line,
                        [](const auto& r) { return r->index / kEdgeLanes; });
  return owner == host_.residents().end() ? nullptr : (*owner)->event.get();
}

// A device's doorbells keep their places in a line, which is its own.
std::optional<uint32_t> EdgeEngine::FreeIndex(const EventKernel& event) const {
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

void EdgeEngine::StartHeads(Row& row, uint64_t first) {
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
absl::Status EdgeEngine::Place(ResidentEvent& resident) {
  Row& row = Of(resident);
  const Driver& driver = gpu().driver();
  const uint64_t slots = row.event->ring().layout().entries;
  absl::Status status = host_.MakeBytes(slots * sizeof(uint64_t), row.ended);
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

absl::Status EdgeEngine::MakeInline(Row& row) {
  ASSIGN_OR_RETURN(row.inline_kernel,
                   gpu().DeviceWord(fmt::format(
                       "carillon_inline_{}", row.event->kmd().kernel->name)));
  return absl::OkStatus();
}

absl::Status EdgeEngine::MakeGraphs(Row& row) {
  const Driver& driver = gpu().driver();
  const KernelMetadata& kmd = row.event->kmd();
  CUfunction function = nullptr;  // nullptr: a user's
  if (!kmd.kernel->is_users()) {
    ASSIGN_OR_RETURN(function, gpu().FunctionFor("carillon_event_", kmd));
  }
  const uint64_t frame_bytes = simt::EventFrameBytes(kmd.kernel->args_size);
  RETURN_IF_ERROR(
      host_.MakeBytes(row.launch_slots * 2 * sizeof(uint64_t), row.execs));
  std::vector<uint64_t> handles;
  row.graphs.clear();
  for (uint32_t i = 0; i < row.launch_slots * 2; ++i) {
    auto* frame = row.frames.as<simt::EventFrame>(i * frame_bytes);
    void* parameters[] = {&frame};
    const auto node = NodeParams(function, kmd.grid, kmd.block,
                                 kmd.total_shared(), parameters);
    const auto priority = Priority(row.event->priority());
    CUstream stream = streams_[0].get();
    ASSIGN_OR_RETURN(
        auto exec,
        function == nullptr
            ? MakeUserGraph(gpu(), *row.event, i / 2, frame, priority, stream)
            : MakeDeviceGraph(gpu(), {&node, 1}, priority, stream));
    handles.push_back(reinterpret_cast<uint64_t>(exec.get()));
    row.graphs.push_back(std::move(exec));
  }
  // An upload is ordered in its own stream alone, and a dispatcher of any stream
  // may be the first to launch these.
  RETURN_IF_ERROR(ToStatus(driver,
                           driver.cuStreamSynchronize(streams_[0].get()),
                           "upload an event kernel's graphs"));
  return Put(driver, row.execs, handles.data(), handles.size());
}

// --- Dispatchers.

void EdgeEngine::FillIn(const Row& row, EdgeEntry& entry) const {
  entry = EntryOf(row);
  entry.ended = row.ended.as<uint64_t>();
  entry.execs = reinterpret_cast<uint64_t(*)[2]>(row.execs.as<uint64_t>());
  if (!row.inlined) entry.launch_slots = row.launch_slots;
  entry.inline_kernel = row.inline_kernel;
  entry.flags = row.inlined ? uint32_t{kEdgeInline} : 0;
  if (row.event->ring().layout().stamped()) entry.flags |= kEdgeStamped;
}

void EdgeEngine::FillIn(EdgeTable& table) const {
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
  table.report_every = 512;
  table.figures = dispatch_figures();
}

size_t EdgeEngine::HeadOf(const Row& row, uint32_t warp) const {
  return (size_t{row.index / kEdgeLanes} * options_.event_warps + warp) *
             kEdgeLanes +
         row.index % kEdgeLanes;
}

absl::Status EdgeEngine::BeginAll() {
  has_begun_ = true;
  begun_ = StartDispatchers();
  return begun_;
}

absl::Status EdgeEngine::StartDispatchers() {
  const Driver& driver = gpu().driver();
  std::vector<EdgeEntry> entries(kEdgeMaxEntries);
  std::vector<simt::EventTotals> totals(kEdgeMaxEntries);
  std::vector<EdgeHead> heads(size_t{kEdgeMaxEntries} * kEdgeMaxEventWarps);
  EdgeTable table{};
  FillIn(table);
  for (const ResidentEventPtr& resident : host_.residents()) {
    const auto& row = static_cast<const Row&>(*resident);
    FillIn(row, entries[row.index]);
    totals[row.index] = row.totals;
    report_->totals[row.index] = row.totals;
    report_->violations[row.index] = 0;
    report_->doorbells[row.index] = 0;
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
  for (EdgeRun& run : report_->runs) StoreWord(run.entry, 0u);
  runs_ = {};
  signs_ = {};
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

CUresult EdgeEngine::LaunchDispatcher(uint32_t dispatcher) {
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
  return driver.cuLaunchKernel(*function, 1, 1, 1, dispatcher_threads(), 1, 1,
                               0, stream, parameters, nullptr);
}

bool EdgeEngine::AllTakenHaveEnded() const {
  return std::ranges::all_of(
      host_.residents(), [&](const ResidentEventPtr& resident) {
        const simt::EventTotals& totals = report_->totals[resident->index];
        return LoadWord(totals.launched) + LoadWord(totals.refused) ==
               LoadWord(totals.done) + LoadWord(totals.failed);
      });
}

bool EdgeEngine::AllHaveLeft() {
  for (uint32_t i = 0; i < launched_; ++i) {
    if (!host_.IsIdle(streams_[i].get()) || !IsSilent(i)) return false;
  }
  return true;
}

bool EdgeEngine::IsSilent(uint32_t dispatcher) {
  const EdgeDispatcherReport& report = report_->dispatchers[dispatcher];
  const Sign now = {.heartbeat = LoadWord(report.heartbeat),
                    .executions = LoadWord(report.executions),
                    .state = static_cast<EdgeState>(LoadWord(report.state)),
                    .since = NowNs()};
  if (now.state == EdgeState::kLeft || now.state == EdgeState::kLost) {
    return true;
  }
  Sign& last = signs_[dispatcher];
  if (last.since == 0 || now.heartbeat != last.heartbeat ||
      now.executions != last.executions || now.state != last.state) {
    last = now;
  }
  return now.since - last.since > kSilenceNs;
}

bool EdgeEngine::EndAll() {
  if (launched_ == 0) return true;
  StoreWord(control_->command, static_cast<uint32_t>(EdgeCommand::kHalt));
  // Who holds the token says so; or all are lost, and what they launched has
  // ended.
  const bool halted = host_.Await([&] {
    return (LoadWord(report_->halted) != 0 && AllTakenHaveEnded()) ||
           AllHaveLeft();
  });
  if (!halted) return false;
  signs_ = {};  // who is to leave has time to say so
  StoreWord(control_->command, static_cast<uint32_t>(EdgeCommand::kLeave));
  if (!host_.Await([&] { return AllHaveLeft(); })) return false;
  absl::Status fetched;
  const bool ended = host_.Await([&] {
    fetched = FetchHeads();
    return !fetched.ok() ||
           std::ranges::all_of(
               host_.residents(), [](const ResidentEventPtr& of) {
                 return of->totals.launched + of->totals.refused ==
                        of->totals.done + of->totals.failed;
               });
  });
  if (!ended) return false;
  launched_ = 0;
  if (fetched.ok()) return true;
  if (!gpu().Faulted()) gpu().StopEverything();
  return false;
}

absl::Status EdgeEngine::FetchHeads() {
  const Driver& driver = gpu().driver();
  std::vector<simt::EventTotals> totals(kEdgeMaxEntries);
  std::vector<EdgeHead> heads(size_t{kEdgeMaxEntries} * kEdgeMaxEventWarps);
  absl::Status status = Fetch(driver, totals_, totals.data(), totals.size());
  status.Update(Fetch(driver, heads_, heads.data(), heads.size()));
  if (!status.ok()) return status;
  for (const ResidentEventPtr& resident : host_.residents()) {
    auto& row = static_cast<Row&>(*resident);
    row.totals = totals[row.index];
    for (uint32_t warp = 0; warp < options_.event_warps; ++warp) {
      row.heads[warp] = heads[HeadOf(row, warp)];
    }
  }
  return absl::OkStatus();
}

void EdgeEngine::ShowTracing() {
  StoreWord(control_->clock_offset_ns, gpu().clock_offset_ns());
  StoreWord(control_->tracing, static_cast<uint32_t>(host_.tracing()));
}

std::vector<PathCounter> EdgeEngine::counters() const {
  const EdgeFigures now = dispatch_figures();
  return {{"inlined", now.inlined}, {"graph launches", now.launched},
          {"graph busy", now.busy}, {"launch errors", now.launch_errors},
          {"relays", now.relays},   {"restarts", host_.restarts()}};
}

EdgeFigures EdgeEngine::dispatch_figures() const {
  const EdgeFigures& now = report_->figures;
  return {.launched = LoadWord(now.launched),
          .inlined = LoadWord(now.inlined),
          .busy = LoadWord(now.busy),
          .launch_errors = LoadWord(now.launch_errors),
          .relays = LoadWord(now.relays),
          .last_error = LoadWord(now.last_error),
          .mirrors = LoadWord(now.mirrors),
          .reserved = 0};
}

// --- Watching.

void EdgeEngine::NoteRuns() {
  for (uint32_t warp = 0; warp < options_.event_warps; ++warp) {
    const EdgeRun& reported = report_->runs[warp];
    const uint32_t entry = LoadWord(reported.entry);
    const uint32_t sequence = LoadWord(reported.sequence);
    Run& run = runs_[warp];
    if (run.entry == entry && run.sequence == sequence) continue;
    run = {.entry = entry, .sequence = sequence, .since = NowNs()};
  }
}

std::string EdgeEngine::WhyLost() {
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

bool EdgeEngine::LookAt(ResidentEvent& resident, Nanoseconds now) {
  const EventKernel& event = *resident.event;
  WakeForCompletion(event);
  const simt::EventTotals& totals = report_->totals[resident.index];
  const uint64_t ended = LoadWord(totals.done) + LoadWord(totals.failed);
  const uint64_t taken =
      std::max(ended, LoadWord(totals.launched) + LoadWord(totals.refused));
  // The doorbell after what was taken by it: it can only be behind by having
  // gone back.
  const uint64_t rung = event.gpu_ledger().RungOf(taken);
  if (!resident.violation_seen &&
      (static_cast<int64_t>(rung - taken) < 0 ||
       LoadWord(report_->violations[resident.index]) != 0)) {
    host_.NoteViolation(resident, DoorbellViolation(event, taken));
  }
  NoteProgress(resident, ended, std::max(rung, taken), now);
  Row& row = Of(resident);
  if (row.mirrored_since != row.stands_still_since) {
    row.mirrored_since = row.stands_still_since;
    row.mirrors = LoadWord(report_->figures.mirrors);
  }
  return Sleeps(event.memory()) &&
         event.waiting_rings() + event.in_flight() != 0;
}

std::vector<uint64_t> EdgeEngine::Waiting(const ResidentEvent& resident) const {
  const EventKernel& event = *resident.event;
  const uint64_t rung = event.gpu_ledger().RungOf(resident.ended_before);
  const uint64_t entries = event.ring().layout().entries;
  std::vector<uint64_t> waiting;
  for (uint64_t s = rung > entries ? rung - entries + 1 : 1; s <= rung; ++s) {
    if (!IsCompleted(event, s)) waiting.push_back(s);
  }
  return waiting;
}

std::optional<TakenEvent> EdgeEngine::Overdue(ResidentEvent& resident,
                                              Nanoseconds since) {
  if (Of(resident).inlined) {
    NoteRuns();
    std::optional<TakenEvent> oldest;
    for (const Run& run : runs_) {
      if (run.entry != resident.index + 1 || run.since >= since) continue;
      if (oldest && oldest->since <= run.since) continue;
      for (const uint64_t sequence : Waiting(resident)) {
        if (static_cast<uint32_t>(sequence) == run.sequence) {
          oldest = {sequence, run.since};
        }
      }
    }
    return oldest;
  }
  const simt::EventTotals& totals = report_->totals[resident.index];
  const bool stands =
      since == kAnyTime ||
      (resident.stands_still_since != 0 && resident.stands_still_since < since);
  if (!stands || LoadWord(totals.launched) + LoadWord(totals.refused) <=
                     LoadWord(totals.done) + LoadWord(totals.failed)) {
    return std::nullopt;
  }
  // Which of them were launched, nobody knows.
  const std::vector<uint64_t> waiting = Waiting(resident);
  if (waiting.empty()) return std::nullopt;
  return TakenEvent{waiting.size() == 1 ? waiting.front() : 0,
                    resident.stands_still_since};
}

// By what the dispatchers have reported since it stands still: twice, for words
// of one report may come in any order.
bool EdgeEngine::IsUnseen(ResidentEvent& resident) {
  const Row& row = Of(resident);
  if (LoadWord(report_->figures.mirrors) - row.mirrors < 2) return false;
  const uint32_t next =
      row.event->cursor().first_ring() + static_cast<uint32_t>(row.oldest);
  return static_cast<int32_t>(LoadWord(report_->doorbells[row.index]) - next) <
         0;
}

// --- A lost context.

void EdgeEngine::AbandonShared() {
  launched_ = 0;
  control_.Abandon();
  report_.Abandon();
  for (DeviceBytes* bytes : {&table_, &entries_, &heads_, &totals_}) {
    bytes->Abandon();
  }
  for (auto& exec : dispatchers_) exec.Abandon();
  for (auto& stream : streams_) stream.Abandon();
}

void EdgeEngine::Abandon(ResidentEvent& resident) {
  Row& row = Of(resident);
  row.ended.Abandon();
  row.execs.Abandon();
  for (GraphExec& graph : row.graphs) graph.Abandon();
  row.graphs.clear();
}

// How many have failed is known as of the dispatchers' last report.
void EdgeEngine::CountEnded(ResidentEvent& resident) {
  simt::EventTotals& totals = resident.totals;
  const simt::EventTotals& reported = report_->totals[resident.index];
  totals.failed = std::max(totals.failed, LoadWord(reported.failed));
  totals.refused = std::max(totals.refused, LoadWord(reported.refused));
}

void EdgeEngine::ContinueAfter(ResidentEvent& resident, uint64_t rung) {
  StartHeads(Of(resident), rung + 1);
}

}  // namespace

absl::StatusOr<std::unique_ptr<LaunchPath>> MakeEdgePath(
    Gpu* gpu, ResidentOptions options, EdgeOptions edge) {
  return ResidentPath::Create(
      gpu, {.path = std::string(kEdgePath), .thread = "gpud-edge-watch"},
      std::move(options), [edge](ResidentHost* host) {
        return std::make_unique<EdgeEngine>(host, edge);
      });
}

}  // namespace carillon::gpud::cuda
