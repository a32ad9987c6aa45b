#include "gpu_daemon/backends/cuda/paths/persistent_path.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/status.h"
#include "fmt/format.h"
#include "gpu_daemon/backends/cuda/driver/owned.h"
#include "gpu_daemon/backends/cuda/edge/persistent_block.h"
#include "gpu_daemon/backends/cuda/paths/gpu_rings.h"
#include "gpu_daemon/backends/cuda/paths/host_words.h"
#include "gpu_daemon/backends/cuda/paths/resident_path.h"
#include "gpu_daemon/backends/cuda/paths/served_rings.h"
#include "gpu_daemon/event/gpu_model.h"
#include "gpu_daemon/event/user_kernel.h"

namespace carillon::gpud::cuda {
namespace {

// What the path may give out of each SM.
GpuModel HalfOf(const GpuModel& gpu) {
  return {.sms = gpu.sms,
          .blocks_per_sm = gpu.blocks_per_sm / 2,
          .threads_per_sm = gpu.threads_per_sm / 2,
          .registers_per_sm = gpu.registers_per_sm / 2,
          .shared_bytes_per_sm = gpu.shared_bytes_per_sm / 2};
}

// Of shared memory, beside what a kernel asks for: the block's own word, and
// what CUDA takes.
constexpr uint32_t kSharedBytesBeside = 2048;
// Registers are given out so many a thread at a time.
constexpr uint32_t kRegisterUnit = 8;

struct Blocks : ServedRing {
  explicit Blocks(SmOccupancy* of) : occupancy(of) {}
  ~Blocks() override {
    for (const uint32_t sm : sms) occupancy->Release(sm, cost);
  }

  SmOccupancy* const occupancy;
  BlockCost cost;
  std::vector<uint32_t> sms;  // of each resident block, as it is reckoned
  std::unique_ptr<ResidentRoom::Held> room;  // the same, beside other paths'
  DeviceBytes entry;                         // PersistentEntry
  DeviceBytes copy;                          // of an ESQ entry
  // The lead's looks when the ring began to stand still, as `looks_since` says.
  uint64_t looks = 0;
  Nanoseconds looks_since = 0;
  CUfunction kernel = nullptr;
};

class PersistentEngine final : public ResidentEngine {
 public:
  explicit PersistentEngine(ResidentHost* host)
      : host_(*host), rings_(host), occupancy_(HalfOf(host->gpu().model())) {}

  absl::Status Prepare() override { return words_.Register(gpu().driver()); }
  absl::StatusOr<ResidentEventPtr> NewEvent(const EventKernel& event) override;
  absl::Status Place(ResidentEvent& resident) override;
  void FreeShared() override { words_.Unregister(); }
  absl::Status BeginAll() override;
  bool EndAll() override;
  bool LookAt(ResidentEvent& resident, Nanoseconds now) override;
  bool IsUnseen(ResidentEvent& resident) override;
  std::optional<TakenEvent> Overdue(ResidentEvent& resident,
                                    Nanoseconds since) override;
  void ShowTracing() override;
  void AbandonShared() override { words_.Abandon(); }
  void Abandon(ResidentEvent& resident) override;
  void CountEnded(ResidentEvent& resident) override;
  void ContinueAfter(ResidentEvent& resident, uint64_t rung) override;
  absl::Status CheckKernel(const EventKernel& event) const override;
  // Polls are the GPU's, some hundred at a time.
  std::vector<PathCounter> counters() const override;

 private:
  struct Words {
    PersistentControl control;
    PersistentReport reports[ServedRings::kMaxRings];
  };

  static Blocks& Of(ResidentEvent& resident) {
    return static_cast<Blocks&>(resident);
  }
  Gpu& gpu() const { return host_.gpu(); }

  absl::Status TakeRoom(Blocks& blocks);
  absl::Status Begin(Blocks& blocks);
  void NoteLooks(Blocks& blocks);
  // Whether the GPU has seen that event ended + 1 has rung, if it has, and the
  // ring has stood still for the longest time.
  enum class Seen { kNo, kUnknown, kYes };
  Seen HasSeen(const Blocks& blocks) const;

  ResidentHost& host_;
  ServedRings rings_;
  HostWords<Words> words_;
  SmOccupancy occupancy_;
};

absl::Status PersistentEngine::CheckKernel(const EventKernel& event) const {
  const simt::KernelInfo& kernel = *event.kmd().kernel;
  RETURN_IF_ERROR(CheckCompletesItself(
      kernel,
      "launch path persistent runs kernels as functions inside its resident "
      "blocks, and CUDA calls no kernel, and no function of another module"));
  if (kernel.unbounded) {
    return absl::InvalidArgumentError(fmt::format(
        "kernel '{}' runs for as long as its arguments say: nothing could stop "
        "it in a resident block; use another launch path",
        kernel.name));
  }
  if (kernel.uses_barriers && !kernel.leaves_together) {
    return absl::InvalidArgumentError(fmt::format(
        "kernel '{}' has barriers and is not marked as one whose threads leave "
        "together: a resident block cannot run it twice; use another launch "
        "path, or see simt.h",
        kernel.name));
  }
  return absl::OkStatus();
}

absl::StatusOr<ResidentEventPtr> PersistentEngine::NewEvent(
    const EventKernel& event) {
  auto blocks = std::make_unique<Blocks>(&occupancy_);
  RETURN_IF_ERROR(rings_.Enter(event, *blocks));
  PersistentReport& report = words_->reports[blocks->index];
  StoreWord(report.taken, blocks->ended);
  blocks->taken = &report.taken;
  blocks->reported = &report.totals;
  return blocks;
}

absl::Status PersistentEngine::Place(ResidentEvent& resident) {
  Blocks& blocks = Of(resident);
  RETURN_IF_ERROR(rings_.Place(blocks));
  ASSIGN_OR_RETURN(blocks.kernel, gpu().FunctionFor("carillon_persistent_",
                                                    blocks.event->kmd()));
  absl::Status status = host_.MakeBytes(sizeof(PersistentEntry), blocks.entry);
  status.Update(host_.MakeBytes(
      sizeof(shm::EsqEntryHeader) + shm::kMaxParameterBytes, blocks.copy));
  if (!status.ok()) return status;
  Publish(blocks.totals, words_->reports[blocks.index].totals);
  // In a new context the room is still taken.
  return blocks.sms.empty() ? TakeRoom(blocks) : absl::OkStatus();
}

absl::Status PersistentEngine::TakeRoom(Blocks& blocks) {
  const Driver& driver = gpu().driver();
  const KernelMetadata& kmd = blocks.event->kmd();
  int registers = 0;
  RETURN_IF_ERROR(
      ToStatus(driver,
               driver.cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS,
                                         blocks.kernel),
               "ask for a kernel's registers"));
  const auto rounded = static_cast<uint32_t>(registers + kRegisterUnit - 1) /
                       kRegisterUnit * kRegisterUnit;
  blocks.cost =
      CostOf(kmd.threads(), rounded, kmd.total_shared() + kSharedBytesBeside);
  const uint64_t wanted = std::min<uint64_t>(kmd.blocks(), gpu().model().sms);
  while (blocks.sms.size() < wanted) {
    const auto sm = occupancy_.Place(blocks.cost);
    if (!sm) break;
    blocks.sms.push_back(*sm);
  }
  if (blocks.sms.empty()) {
    return absl::ResourceExhaustedError(fmt::format(
        "a block of kernel '{}' ({} threads of {} registers, {} bytes of "
        "shared memory) finds no room to stay in: launch path persistent gives "
        "out half of each SM, {} blocks are resident; use another launch path",
        kmd.kernel->name, kmd.threads(), registers, kmd.total_shared(),
        occupancy_.resident_blocks()));
  }
  const auto most = static_cast<uint32_t>(blocks.sms.size());
  ASSIGN_OR_RETURN(blocks.room, gpu().TakeRoom(host_.name(), blocks.cost, 1,
                                               most, SmSet::kRest));
  while (blocks.sms.size() > blocks.room->blocks()) {
    occupancy_.Release(blocks.sms.back(), blocks.cost);
    blocks.sms.pop_back();
  }
  return absl::OkStatus();
}

// --- Serving.

absl::Status PersistentEngine::BeginAll() {
  absl::Status status;
  for (const ResidentEventPtr& resident : host_.residents()) {
    status.Update(Begin(Of(*resident)));
  }
  return status;
}

absl::Status PersistentEngine::Begin(Blocks& blocks) {
  const Driver& driver = gpu().driver();
  const KernelMetadata& kmd = blocks.event->kmd();
  PersistentEntry entry{};
  entry.entry = EntryOf(blocks);
  entry.doorbell = &blocks.event->memory()
                        .submission()
                        .doorbells()[blocks.event->event_id()];
  entry.control = &words_->control;
  entry.report = &words_->reports[blocks.index];
  entry.copy = blocks.copy.as<std::byte>();
  entry.first = blocks.ended + 1;
  entry.ring = blocks.RingOf(entry.first);
  entry.totals = blocks.totals;
  Publish(blocks.totals, entry.report->totals);
  StoreWord(entry.report->taken, blocks.ended);
  StoreWord(entry.report->looks, 0u);
  blocks.looks_since = 0;
  entry.blocks = static_cast<uint32_t>(blocks.sms.size());
  entry.grid[0] = kmd.grid.x;
  entry.grid[1] = kmd.grid.y;
  entry.grid[2] = kmd.grid.z;
  CUresult result = blocks.entry.Write(driver, &entry, sizeof(entry));
  if (result == CUDA_SUCCESS) {
    StoreWord(words_->control.command, PersistentTracing(host_.tracing()));
    auto* address = blocks.entry.as<PersistentEntry>();
    void* parameters[] = {&address};
    result =
        driver.cuLaunchKernel(blocks.kernel, entry.blocks, 1, 1, kmd.block.x,
                              kmd.block.y, kmd.block.z, kmd.total_shared(),
                              blocks.stream.get(), parameters, nullptr);
  }
  gpu().Check(result);
  return ToStatus(driver, result, "launch resident blocks");
}

bool PersistentEngine::EndAll() {
  if (host_.residents().empty()) return true;
  StoreWord(words_->control.command, kPersistentEnd);
  const auto nothing = [](ServedRing&) {};
  return rings_.AwaitIdle(nothing, nothing);
}

bool PersistentEngine::LookAt(ResidentEvent& resident, Nanoseconds now) {
  return rings_.LookAt(Of(resident), now,
                       [this](ServedRing& ring) { NoteLooks(Of(ring)); });
}

std::optional<TakenEvent> PersistentEngine::Overdue(ResidentEvent& resident,
                                                    Nanoseconds since) {
  const auto waits = rings_.Overdue(Of(resident), since);
  return HasSeen(Of(resident)) == Seen::kYes ? waits : std::nullopt;
}

bool PersistentEngine::IsUnseen(ResidentEvent& resident) {
  return HasSeen(Of(resident)) == Seen::kNo;
}

void PersistentEngine::NoteLooks(Blocks& blocks) {
  if (blocks.looks_since == blocks.stands_still_since) return;
  blocks.looks_since = blocks.stands_still_since;
  blocks.looks = LoadWord(words_->reports[blocks.index].looks);
}

// While it runs an event, the lead does not look. Two of its reports: the doorbell
// may have rung within one.
PersistentEngine::Seen PersistentEngine::HasSeen(const Blocks& blocks) const {
  const PersistentReport& report = words_->reports[blocks.index];
  if (LoadWord(report.taken) > blocks.ended) return Seen::kYes;
  return LoadWord(report.looks) > blocks.looks + 2 * kPersistentLooksAReport
             ? Seen::kNo
             : Seen::kUnknown;
}

void PersistentEngine::ShowTracing() {
  PersistentControl& control = words_->control;
  StoreWord(control.clock_offset_ns, gpu().clock_offset_ns());
  StoreWord(control.command, (LoadWord(control.command) & kPersistentEnd) |
                                 PersistentTracing(host_.tracing()));
}

std::vector<PathCounter> PersistentEngine::counters() const {
  uint64_t looks = 0;
  for (const PersistentReport& report : words_->reports) {
    looks += LoadWord(report.looks);
  }
  return {{"polls", looks}};
}

// --- A lost context.

void PersistentEngine::Abandon(ResidentEvent& resident) {
  Blocks& blocks = Of(resident);
  blocks.stream.Abandon();
  blocks.entry.Abandon();
  blocks.copy.Abandon();
  blocks.kernel = nullptr;
}

void PersistentEngine::CountEnded(ResidentEvent& resident) {
  rings_.CountEnded(Of(resident));
}

void PersistentEngine::ContinueAfter(ResidentEvent& resident, uint64_t rung) {
  Of(resident).ended = rung;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LaunchPath>> MakePersistentPath(
    Gpu* gpu, ResidentOptions options) {
  return ResidentPath::Create(
      gpu, {.path = "persistent", .thread = "gpud-pers-watch"},
      std::move(options), [](ResidentHost* host) {
        return std::make_unique<PersistentEngine>(host);
      });
}

}  // namespace carillon::gpud::cuda
