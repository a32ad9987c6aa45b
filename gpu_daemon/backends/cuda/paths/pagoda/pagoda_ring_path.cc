#include "gpu_daemon/backends/cuda/paths/pagoda/pagoda_ring_path.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/status.h"
#include "fmt/format.h"
#include "gpu_daemon/backends/cuda/driver/owned.h"
#include "gpu_daemon/backends/cuda/pagoda/pagoda_ring.h"
#include "gpu_daemon/backends/cuda/paths/gpu_rings.h"
#include "gpu_daemon/backends/cuda/paths/host_words.h"
#include "gpu_daemon/backends/cuda/paths/pagoda/mtbs.h"
#include "gpu_daemon/backends/cuda/paths/resident_path.h"

namespace carillon::gpud::cuda {
namespace {

constexpr char kMasterKernel[] = "carillon_pagoda_ring";

struct Ring : ResidentEvent {
  DeviceBytes ended;  // a sequence a slot
  uint64_t kernel = 0;
  uint64_t next = 0;                         // where the MTBs go on
  std::shared_ptr<ResidentRoom::Held> room;  // all rings'
  // Reports when it began to stand still, as `reported_since` says.
  uint64_t reports = 0;
  Nanoseconds reported_since = 0;
};

class PagodaRingEngine final : public ResidentEngine {
 public:
  explicit PagodaRingEngine(ResidentHost* host) : host_(*host) {
    gpu().AddTrap(&words_->control.trap);
  }
  ~PagodaRingEngine() override { gpu().RemoveTrap(&words_->control.trap); }

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
  void Abandon(ResidentEvent& resident) override {
    Of(resident).ended.Abandon();
  }
  void CountEnded(ResidentEvent& resident) override;
  void ContinueAfter(ResidentEvent& resident, uint64_t rung) override {
    Of(resident).next = rung + 1;
  }
  bool TakesModifyable() const override { return true; }
  absl::Status CheckKernel(const EventKernel& event) const override;
  std::vector<PathCounter> counters() const override;

 private:
  // Mapped for the GPU in every context; the host's words stay.
  struct Words {
    PagodaControl control;
    PagodaReport report;
  };

  static Ring& Of(ResidentEvent& resident) {
    return static_cast<Ring&>(resident);
  }
  Gpu& gpu() const { return host_.gpu(); }
  PagodaRingReport& ReportOf(const ResidentEvent& resident) const {
    return words_->report.rings[resident.index];
  }
  uint64_t TableRows() const {
    return uint64_t{master_.most_mtbs()} * kTaskMaxRows;
  }

  // As many as the rings' events fill, and there is room for.
  uint32_t WantedColumns() const;
  PagodaRing FilledIn(const Ring& ring) const;
  absl::Status Begin();
  absl::Status Fetch();

  ResidentHost& host_;
  HostWords<Words> words_;

  // In the context.
  MasterKernel master_;
  Stream stream_;
  DeviceBytes tasks_;
  DeviceBytes records_;
  DeviceBytes rings_;
  DeviceBytes shared_words_;

  // Held as long as there are rings.
  std::weak_ptr<ResidentRoom::Held> room_;
  // Of the MasterKernel that was launched last. Writer: who holds the path's lock;
  // readers: any thread. Relaxed: a figure.
  std::atomic<uint32_t> columns_{0};
  bool launched_ = false;  // since the last EndAll()
  Nanoseconds launched_at_ = 0;
  absl::Status begun_;  // what became of the last BeginAll()
};

absl::Status PagodaRingEngine::Prepare() {
  const Driver& driver = gpu().driver();
  RETURN_IF_ERROR(words_.Register(driver));
  RETURN_IF_ERROR(master_.Load(gpu(), host_.name(), kMasterKernel));
  ASSIGN_OR_RETURN(stream_, gpu().MakeStream(SmSet::kRest, kPriorities - 1));
  absl::Status status =
      host_.MakeBytes(TableRows() * sizeof(TaskEntry), tasks_);
  status.Update(host_.MakeBytes(TableRows() * sizeof(RingTask), records_));
  status.Update(host_.MakeBytes(kPagodaMaxRings * sizeof(PagodaRing), rings_));
  status.Update(host_.MakeBytes(sizeof(PagodaWords), shared_words_));
  if (!status.ok()) return status;
  // All rows are free.
  const std::vector<TaskEntry> free(TableRows());
  return ToStatus(
      driver,
      tasks_.Write(driver, free.data(), free.size() * sizeof(TaskEntry)),
      "write the TaskTable");
}

void PagodaRingEngine::FreeShared() {
  stream_.Reset();
  for (DeviceBytes* bytes : {&tasks_, &records_, &rings_, &shared_words_}) {
    *bytes = DeviceBytes();
  }
  master_.Reset();
  words_.Unregister();
}

// --- Event kernels.

absl::Status PagodaRingEngine::CheckKernel(const EventKernel& event) const {
  const simt::KernelInfo& kernel = *event.kmd().kernel;
  RETURN_IF_ERROR(CheckTaskKernel(event, host_.name(), kTaskMaxArgs));
  const shm::RingLayout& layout = event.ring().layout();
  if (layout.parameter_offset + layout.parameter_bytes > kPagodaEntryBytes) {
    return TaskRefusal(kernel,
                       fmt::format("its entries bring {} bytes of "
                                   "parameters, and an MTB copies {}",
                                   layout.parameter_bytes, kTaskMaxArgs));
  }
  if (event.modifyable() && kernel.check_shape != nullptr) {
    return TaskRefusal(kernel,
                       "it is to be modifyable and has a check of its own for "
                       "dimensions, which only a CPU can make");
  }
  return absl::OkStatus();
}

absl::StatusOr<ResidentEventPtr> PagodaRingEngine::NewEvent(
    const EventKernel& event) {
  std::array<bool, kPagodaMaxRings> taken{};
  for (const ResidentEventPtr& other : host_.residents()) {
    taken[other->index] = true;
  }
  const auto free = std::ranges::find(taken, false);
  if (free == taken.end()) {
    return absl::ResourceExhaustedError(
        fmt::format("launch path {} serves {} event kernels already: that is "
                    "the limit, a lane of a scheduler warp each; use another "
                    "launch path",
                    host_.name(), kPagodaMaxRings));
  }
  auto ring = std::make_unique<Ring>();
  ring->room = room_.lock();
  if (ring->room == nullptr) {
    ASSIGN_OR_RETURN(ring->room, gpu().TakeRoom(host_.name(), master_.cost(), 1,
                                                1, SmSet::kRest));
    room_ = ring->room;
  }
  ring->index = static_cast<uint32_t>(free - taken.begin());
  ring->shown = &words_->report.rings[ring->index].totals;
  ring->next = event.ended_before() + 1;
  ring->kernel = TaskKernelNumber(*event.kmd().kernel);
  return ring;
}

absl::Status PagodaRingEngine::Place(ResidentEvent& resident) {
  Ring& ring = Of(resident);
  const uint32_t slots = ring.event->ring().layout().entries;
  RETURN_IF_ERROR(host_.MakeBytes(slots * sizeof(uint64_t), ring.ended));
  std::vector<uint64_t> ended(slots);
  for (uint32_t slot = 0; slot < slots; ++slot) {
    ended[slot] = FirstSlotEnded(ring.next, slot, slots);
  }
  return ToStatus(gpu().driver(),
                  ring.ended.Write(gpu().driver(), ended.data(),
                                   ended.size() * sizeof(uint64_t)),
                  "write a ring's slots");
}

PagodaRing PagodaRingEngine::FilledIn(const Ring& ring) const {
  const EventKernel& event = *ring.event;
  const KernelMetadata& kmd = event.kmd();
  PagodaRing filled{};
  filled.entry = EntryOf(ring);
  filled.entry.ended = ring.ended.as<uint64_t>();
  filled.doorbell = &event.memory().submission().doorbells()[event.event_id()];
  filled.kernel = ring.kernel;
  filled.ring_of_zero = event.cursor().first_ring();
  filled.static_shared_bytes = kmd.kernel->static_shared_bytes;
  filled.sync = kmd.kernel->uses_barriers ? 1 : 0;
  filled.modifyable = event.modifyable() ? 1 : 0;
  filled.grid = kmd.grid;
  filled.block = kmd.block;
  filled.shared_bytes = kmd.total_shared();
  filled.totals = ring.totals;
  filled.head = ring.next;
  return filled;
}

// --- Serving.

uint32_t PagodaRingEngine::WantedColumns() const {
  WantedMtbs wanted;
  for (const ResidentEventPtr& resident : host_.residents()) {
    const EventKernel& event = *resident->event;
    wanted.Add(event.kmd(), event.ring().layout().entries);
  }
  const uint32_t columns = wanted.AtMost(master_.most_mtbs());
  // Without rings it is tried, in a quiet of the Gpu's.
  const auto room = room_.lock();
  return room == nullptr ? columns : room->Resize(columns);
}

absl::Status PagodaRingEngine::BeginAll() {
  begun_ = Begin();
  return begun_;
}

absl::Status PagodaRingEngine::Begin() {
  const Driver& driver = gpu().driver();
  std::vector<PagodaRing> rings(kPagodaMaxRings);
  PagodaWords shared{};
  uint32_t ring_count = 0;
  for (const ResidentEventPtr& resident : host_.residents()) {
    const auto& ring = static_cast<const Ring&>(*resident);
    PagodaRing& filled = rings[ring.index] = FilledIn(ring);
    ring_count = std::max(ring_count, ring.index + 1);
    // As if nothing had rung that is not taken.
    const uint32_t seen =
        filled.ring_of_zero + static_cast<uint32_t>(filled.head - 1);
    shared.doorbells[ring.index] = seen;
    PagodaRingReport& report = ReportOf(ring);
    Publish(ring.totals, report.totals);
    StoreWord(report.doorbell, seen);
    StoreWord(report.violation, 0u);
  }
  // A lane without a ring looks at a word that never changes, and takes nothing.
  for (PagodaRing& ring : rings) {
    if (ring.doorbell == nullptr) ring.doorbell = &words_->control.padding[0];
  }
  shared.command = PagodaTracing(host_.tracing());
  shared.tasks = LoadWord(words_->report.tasks);
  CUresult result =
      rings_.Write(driver, rings.data(), rings.size() * sizeof(PagodaRing));
  if (result == CUDA_SUCCESS) {
    result = shared_words_.Write(driver, &shared, sizeof(shared));
  }
  if (result == CUDA_SUCCESS) {
    StoreWord(words_->report.up, 0u);
    StoreWord(words_->report.any, 0u);
    StoreWord(words_->report.reports, 0u);
    StoreWord(words_->control.trap, 0u);
    StoreWord(words_->control.command, shared.command);
    const uint32_t columns = WantedColumns();
    columns_.store(columns, std::memory_order_relaxed);
    PagodaRingTable table{.tasks = {.entries = tasks_.as<TaskEntry>(),
                                    .command = nullptr,
                                    .columns = columns,
                                    .rows = kTaskMaxRows,
                                    .executors = kTaskMaxExecutors},
                          .records = records_.as<RingTask>(),
                          .rings = rings_.as<PagodaRing>(),
                          .words = shared_words_.as<PagodaWords>(),
                          .control = &words_->control,
                          .report = &words_->report,
                          .ring_count = ring_count};
    void* parameters[] = {&table};
    result =
        driver.cuLaunchKernel(master_.function(), columns, 1, 1, kMtbThreads, 1,
                              1, 0, stream_.get(), parameters, nullptr);
    launched_at_ = NowNs();
    launched_ = result == CUDA_SUCCESS;
  }
  gpu().Check(result);
  return ToStatus(driver, result, "launch the MasterKernel");
}

bool PagodaRingEngine::EndAll() {
  if (!launched_) return true;
  StoreWord(words_->control.command,
            kPagodaLeave | PagodaTracing(host_.tracing()));
  if (!host_.Await([&] { return host_.IsIdle(stream_.get()); })) return false;
  launched_ = false;
  columns_.store(0, std::memory_order_relaxed);
  if (Fetch().ok()) return true;
  if (!gpu().Faulted()) gpu().StopEverything();
  return false;
}

absl::Status PagodaRingEngine::Fetch() {
  const Driver& driver = gpu().driver();
  std::vector<PagodaRing> rings(kPagodaMaxRings);
  RETURN_IF_ERROR(
      ToStatus(driver,
               driver.cuMemcpyDtoH(rings.data(), rings_.address(),
                                   rings.size() * sizeof(PagodaRing)),
               "read the rings"));
  PagodaWords shared{};
  RETURN_IF_ERROR(ToStatus(
      driver,
      driver.cuMemcpyDtoH(&shared, shared_words_.address(), sizeof(shared)),
      "read the MTBs' words"));
  StoreWord(words_->report.tasks, shared.tasks);
  for (const ResidentEventPtr& resident : host_.residents()) {
    Ring& ring = Of(*resident);
    const PagodaRing& last = rings[ring.index];
    ring.next = last.head;
    ring.totals = last.totals;
    ring.totals.launched = last.head - 1 - last.totals.refused;
    Publish(ring.totals, *ring.shown);
  }
  return absl::OkStatus();
}

void PagodaRingEngine::ShowTracing() {
  PagodaControl& control = words_->control;
  StoreWord(control.clock_offset_ns, gpu().clock_offset_ns());
  StoreWord(control.command, (LoadWord(control.command) & kPagodaLeave) |
                                 PagodaTracing(host_.tracing()));
}

std::vector<PathCounter> PagodaRingEngine::counters() const {
  return {{"tasks", LoadWord(words_->report.tasks)},
          {"MTBs", columns_.load(std::memory_order_relaxed)},
          {"restarts", host_.restarts()}};
}

// --- Watching.

std::string PagodaRingEngine::WhyLost() {
  if (!begun_.ok()) return std::string(begun_.message());
  if (LoadWord(words_->report.up) == 0 &&
      NowNs() - launched_at_ > host_.longest_kernel_ns()) {
    return fmt::format(
        "{} of its {} MTBs have found room on the GPU within {} ms",
        LoadWord(words_->report.any) == 0 ? "none" : "not all",
        columns_.load(std::memory_order_relaxed),
        host_.longest_kernel_ns() / 1'000'000);
  }
  return host_.IsIdle(stream_.get()) ? "the MTBs ended by themselves" : "";
}

bool PagodaRingEngine::LookAt(ResidentEvent& resident, Nanoseconds now) {
  const EventKernel& event = *resident.event;
  WakeForCompletion(event);
  const PagodaRingReport& report = ReportOf(resident);
  const uint64_t ended =
      LoadWord(report.totals.done) + LoadWord(report.totals.failed);
  const uint64_t taken = std::max(ended, LoadWord(report.totals.launched) +
                                             LoadWord(report.totals.refused));
  // The doorbell after what was taken by it: it can only be behind by having
  // gone back.
  const uint64_t rung = event.gpu_ledger().RungOf(taken);
  if (!resident.violation_seen && (static_cast<int64_t>(rung - taken) < 0 ||
                                   LoadWord(report.violation) != 0)) {
    host_.NoteViolation(resident, DoorbellViolation(event, taken));
  }
  NoteProgress(resident, ended, std::max(rung, taken), now);
  Ring& ring = Of(resident);
  if (ring.reported_since != ring.stands_still_since) {
    ring.reported_since = ring.stands_still_since;
    ring.reports = LoadWord(words_->report.reports);
  }
  return Sleeps(event.memory()) &&
         event.waiting_rings() + event.in_flight() != 0;
}

// Which of several that were taken does not end, nobody knows.
std::optional<TakenEvent> PagodaRingEngine::Overdue(ResidentEvent& resident,
                                                    Nanoseconds since) {
  const simt::EventTotals& totals = ReportOf(resident).totals;
  const uint64_t ended = LoadWord(totals.done) + LoadWord(totals.failed);
  const uint64_t taken = LoadWord(totals.launched) + LoadWord(totals.refused);
  const bool stands =
      since == kAnyTime ||
      (resident.stands_still_since != 0 && resident.stands_still_since < since);
  if (!stands || taken <= ended) return std::nullopt;
  const uint64_t entries = resident.event->ring().layout().entries;
  std::vector<uint64_t> waiting;
  for (uint64_t s = taken > entries ? taken - entries + 1 : 1; s <= taken;
       ++s) {
    if (!IsCompleted(*resident.event, s)) waiting.push_back(s);
  }
  if (waiting.empty()) return std::nullopt;
  return TakenEvent{waiting.size() == 1 ? waiting.front() : 0,
                    resident.stands_still_since};
}

// By what column 0 has reported since it stands still: twice, for words of one
// report may come in any order.
bool PagodaRingEngine::IsUnseen(ResidentEvent& resident) {
  const Ring& ring = Of(resident);
  if (LoadWord(words_->report.reports) - ring.reports < 2) return false;
  const uint32_t next =
      ring.event->cursor().first_ring() + static_cast<uint32_t>(ring.oldest);
  return static_cast<int32_t>(LoadWord(ReportOf(resident).doorbell) - next) < 0;
}

// --- A lost context.

void PagodaRingEngine::AbandonShared() {
  launched_ = false;
  columns_.store(0, std::memory_order_relaxed);
  words_.Abandon();
  master_.Abandon();
  stream_.Abandon();
  for (DeviceBytes* bytes : {&tasks_, &records_, &rings_, &shared_words_}) {
    bytes->Abandon();
  }
}

// How many have failed is known as of column 0's last report.
void PagodaRingEngine::CountEnded(ResidentEvent& resident) {
  simt::EventTotals& totals = resident.totals;
  const simt::EventTotals& reported = ReportOf(resident).totals;
  totals.failed = std::max(totals.failed, LoadWord(reported.failed));
  totals.refused = std::max(totals.refused, LoadWord(reported.refused));
}

}  // namespace

absl::StatusOr<std::unique_ptr<LaunchPath>> MakePagodaRingPath(
    Gpu* gpu, ResidentOptions options) {
  return ResidentPath::Create(
      gpu, {.path = "pagoda_ring", .thread = "gpud-mtb-watch"},
      std::move(options), [](ResidentHost* host) {
        return std::make_unique<PagodaRingEngine>(host);
      });
}

}  // namespace carillon::gpud::cuda
