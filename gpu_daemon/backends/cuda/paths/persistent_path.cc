#include "gpu_daemon/backends/cuda/paths/persistent_path.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "base/status.h"
#include "fmt/format.h"
#include "gpu_daemon/backends/cuda/paths/gpu_rings.h"

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

}  // namespace

absl::StatusOr<std::unique_ptr<PersistentPath>> PersistentPath::Create(
    Gpu* gpu, Options options) {
  std::unique_ptr<PersistentPath> path(
      new PersistentPath(gpu, std::move(options)));
  RETURN_IF_ERROR(path->Open());
  return path;
}

PersistentPath::PersistentPath(Gpu* gpu, Options options)
    : RingPath(gpu, "persistent", "gpud-pers-watch", std::move(options)),
      occupancy_(HalfOf(gpu->model())) {}

PersistentPath::~PersistentPath() { Close(); }

absl::Status PersistentPath::CheckKernel(const EventKernel& event) const {
  const simt::KernelInfo& kernel = *event.kmd().kernel;
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

std::unique_ptr<RingPath::Ring> PersistentPath::NewRing() {
  return std::make_unique<Blocks>(&occupancy_);
}

absl::Status PersistentPath::Prepare() {
  return words_.Register(gpu().driver());
}

absl::Status PersistentPath::PlaceRing(Ring& ring) {
  auto& blocks = static_cast<Blocks&>(ring);
  ASSIGN_OR_RETURN(blocks.kernel, gpu().FunctionFor("carillon_persistent_",
                                                    blocks.event->kmd()));
  absl::Status status = MakeBytes(sizeof(PersistentEntry), blocks.entry);
  status.Update(MakeBytes(sizeof(shm::EsqEntryHeader) + shm::kMaxParameterBytes,
                          blocks.copy));
  if (!status.ok()) return status;
  Publish(blocks.totals, words_->reports[blocks.index].totals);
  // In a new context the room is still taken.
  return blocks.sms.empty() ? TakeRoom(blocks) : absl::OkStatus();
}

absl::Status PersistentPath::TakeRoom(Blocks& blocks) {
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
  if (!blocks.sms.empty()) return absl::OkStatus();
  return absl::ResourceExhaustedError(fmt::format(
      "a block of kernel '{}' ({} threads of {} registers, {} bytes of shared "
      "memory) finds no room to stay in: launch path persistent gives out half "
      "of each SM, {} blocks are resident; use another launch path",
      kmd.kernel->name, kmd.threads(), registers, kmd.total_shared(),
      occupancy_.resident_blocks()));
}

absl::Status PersistentPath::Begin(Ring& ring) {
  auto& blocks = static_cast<Blocks&>(ring);
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
  entry.blocks = static_cast<uint32_t>(blocks.sms.size());
  entry.grid[0] = kmd.grid.x;
  entry.grid[1] = kmd.grid.y;
  entry.grid[2] = kmd.grid.z;
  CUresult result =
      driver.cuMemcpyHtoD(blocks.entry.address(), &entry, sizeof(entry));
  if (result == CUDA_SUCCESS) {
    StoreWord(words_->control.command, PersistentTracing(tracing()));
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

simt::EventTotals PersistentPath::Reported(const Ring& ring) {
  const simt::EventTotals& totals = words_->reports[ring.index].totals;
  simt::EventTotals now{};
  now.done = LoadWord(totals.done);
  now.failed = LoadWord(totals.failed);
  now.refused = LoadWord(totals.refused);
  return now;
}

void PersistentPath::AskToEnd(Ring&) {
  StoreWord(words_->control.command, kPersistentEnd);
}

void PersistentPath::ShowTracing() {
  PersistentControl& control = words_->control;
  StoreWord(control.clock_offset_ns, gpu().clock_offset_ns());
  StoreWord(control.command, (LoadWord(control.command) & kPersistentEnd) |
                                 PersistentTracing(tracing()));
}

std::vector<PathCounter> PersistentPath::counters() const {
  uint64_t looks = 0;
  for (const PersistentReport& report : words_->reports) {
    looks += LoadWord(report.looks);
  }
  return {{"polls", looks}};
}

void PersistentPath::FreeShared() { words_.Unregister(); }

void PersistentPath::AbandonShared() { words_.Abandon(); }

void PersistentPath::AbandonRing(Ring& ring) {
  auto& blocks = static_cast<Blocks&>(ring);
  blocks.entry.Abandon();
  blocks.copy.Abandon();
  blocks.kernel = nullptr;
}

}  // namespace carillon::gpud::cuda
