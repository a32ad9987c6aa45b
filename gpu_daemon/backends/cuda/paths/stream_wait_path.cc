#include "gpu_daemon/backends/cuda/paths/stream_wait_path.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/status/status.h"
#include "base/status.h"

namespace carillon::gpud::cuda {
namespace {

constexpr uint32_t kDoorbellMove = 1u << 30;

std::atomic_ref<uint32_t> DoorbellOf(const EventKernel& event) {
  return std::atomic_ref(
      event.memory().submission().doorbells()[event.event_id()]);
}

// How far the doorbell is beyond what the last wait in the stream waits for;
// below 0: it is not there yet.
int32_t Beyond(uint32_t doorbell, uint32_t awaited) {
  return static_cast<int32_t>(doorbell - awaited);
}

}  // namespace

absl::StatusOr<std::unique_ptr<StreamWaitPath>> StreamWaitPath::Create(
    Gpu* gpu, Options options) {
  std::unique_ptr<StreamWaitPath> path(
      new StreamWaitPath(gpu, std::move(options)));
  RETURN_IF_ERROR(path->Open());
  return path;
}

StreamWaitPath::StreamWaitPath(Gpu* gpu, Options options)
    : RingPath(gpu, "stream_wait", "gpud-strm-watch", std::move(options)) {}

StreamWaitPath::~StreamWaitPath() { Close(); }

absl::Status StreamWaitPath::CheckKernel(const EventKernel&) const {
  return absl::OkStatus();
}

std::unique_ptr<RingPath::Ring> StreamWaitPath::NewRing() {
  return std::make_unique<Armed>();
}

absl::Status StreamWaitPath::Prepare() {
  const Driver& driver = gpu().driver();
  RETURN_IF_ERROR(gates_.Register(driver));
  // A trial: only the call itself tells whether streams can wait.
  ASSIGN_OR_RETURN(auto stream, MakeStream(driver));
  const CUresult result = driver.cuStreamWaitValue32(
      stream.get(), reinterpret_cast<CUdeviceptr>(gates_.get()), 0,
      CU_STREAM_WAIT_VALUE_GEQ);
  if (result == CUDA_ERROR_NOT_SUPPORTED) {
    return absl::UnimplementedError(
        "this driver's streams cannot wait for memory (cuStreamWaitValue32): "
        "launch path stream_wait needs that; use another launch path");
  }
  gpu().Check(result);
  return ToStatus(driver, result, "have a stream wait for memory");
}

absl::Status StreamWaitPath::PlaceRing(Ring& of) {
  auto& ring = static_cast<Armed&>(of);
  const Driver& driver = gpu().driver();
  ASSIGN_OR_RETURN(ring.stage, gpu().Function("carillon_stage_entry"));
  ASSIGN_OR_RETURN(ring.kernel,
                   gpu().FunctionFor("carillon_event_", ring.event->kmd()));
  RETURN_IF_ERROR(MakeBytes(sizeof(EdgeEntry), ring.entry));
  const EdgeEntry entry = EntryOf(ring);
  return ToStatus(
      driver, driver.cuMemcpyHtoD(ring.entry.address(), &entry, sizeof(entry)),
      "write an event kernel's entry");
}

absl::Status StreamWaitPath::Begin(Ring& of) {
  auto& ring = static_cast<Armed&>(of);
  ring.through = ring.ended;
  ring.step = Step::kWait;
  StoreWord(gates_->of[ring.index].closed, 0u);
  // What the driver refuses now is tried again.
  Tend(ring);
  return absl::OkStatus();
}

void StreamWaitPath::Tend(Ring& of) {
  auto& ring = static_cast<Armed&>(of);
  if (ring.ended == 0 &&
      ring.event->ring().LoadDoorbell() == ring.event->cursor().first_ring()) {
    return;  // its device may still have to read it
  }
  const uint32_t ahead =
      std::min(ring.event->ring().layout().entries, kArmedAhead);
  while (ring.through < ring.ended + ahead) {
    if (!ArmNext(ring)) return;
  }
}

bool StreamWaitPath::ArmNext(Armed& ring) {
  const uint64_t sequence = ring.through + 1;
  for (const Step after : {Step::kStage, Step::kKernel, Step::kWait}) {
    // Where an earlier attempt has come to.
    if (after == Step::kStage && ring.step != Step::kWait) continue;
    if (after == Step::kKernel && ring.step != Step::kStage) continue;
    if (!gpu().Check(Enqueue(ring, sequence))) return false;
    ring.step = after;
  }
  ring.through = sequence;
  return true;
}

CUresult StreamWaitPath::Enqueue(Armed& ring, uint64_t sequence) {
  const Driver& driver = gpu().driver();
  const KernelMetadata& kmd = ring.event->kmd();
  switch (ring.step) {
    case Step::kWait:
      return driver.cuStreamWaitValue32(
          ring.stream.get(),
          reinterpret_cast<CUdeviceptr>(
              &ring.event->memory()
                   .submission()
                   .doorbells()[ring.event->event_id()]),
          ring.RingOf(sequence), CU_STREAM_WAIT_VALUE_GEQ);
    case Step::kStage: {
      auto* entry = ring.entry.as<EdgeEntry>();
      const uint32_t* closed = &gates_->of[ring.index].closed;
      void* parameters[] = {&entry, &closed, &sequence};
      return driver.cuLaunchKernel(ring.stage, 1, 1, 1, kEdgeLanes, 1, 1, 0,
                                   ring.stream.get(), parameters, nullptr);
    }
    case Step::kKernel:
      break;
  }
  const uint64_t slot =
      ring.event->ring().layout().SlotOf(shm::Sequence(sequence));
  auto* frame = ring.frames.as<simt::EventFrame>(
      slot * 2 * simt::EventFrameBytes(kmd.kernel->args_size));
  void* parameters[] = {&frame};
  return driver.cuLaunchKernel(
      ring.kernel, kmd.grid.x, kmd.grid.y, kmd.grid.z, kmd.block.x, kmd.block.y,
      kmd.block.z, kmd.total_shared(), ring.stream.get(), parameters, nullptr);
}

// --- Letting the stream go.

void StreamWaitPath::AskToEnd(Ring& of) {
  auto& ring = static_cast<Armed&>(of);
  StoreWord(gates_->of[ring.index].closed, 1u);
  // An event that was not armed to its end waits, too, but does nothing more.
  if (ring.step != Step::kWait) ++ring.through;
  ring.step = Step::kWait;
  if (ring.through != ring.ended) MoveDoorbell(ring);
}

void StreamWaitPath::KeepAsking(Ring& of) {
  auto& ring = static_cast<Armed&>(of);
  if (ring.moved != 0 &&
      Beyond(DoorbellOf(*ring.event).load(), ring.RingOf(ring.through)) < 0) {
    MoveDoorbell(ring);  // the device has written over it
  }
}

void StreamWaitPath::MoveDoorbell(Armed& ring) {
  const auto doorbell = DoorbellOf(*ring.event);
  const uint32_t awaited = ring.RingOf(ring.through);
  uint32_t shown = doorbell.load();
  do {
    ring.moved = kDoorbellMove;
    // Once is enough, but for a device that breaks the protocol.
    while (Beyond(shown + ring.moved, awaited) < 0) ring.moved += kDoorbellMove;
    // Writers: the device, and gpud here. seq_cst, as the device's; the gate was
    // closed before.
  } while (!doorbell.compare_exchange_weak(shown, shown + ring.moved));
}

void StreamWaitPath::MoveDoorbellBack(Armed& ring) {
  const auto doorbell = DoorbellOf(*ring.event);
  const uint32_t awaited = ring.RingOf(ring.through);
  uint32_t shown = doorbell.load();
  // Nearer than half a move: the device has written its own count over it.
  while (ring.moved != 0 &&
         Beyond(shown, awaited) >= static_cast<int32_t>(kDoorbellMove / 2)) {
    if (doorbell.compare_exchange_weak(shown, shown - ring.moved)) {
      ring.moved = 0;
    }
  }
  ring.moved = 0;
}

void StreamWaitPath::Ended(Ring& of) {
  MoveDoorbellBack(static_cast<Armed&>(of));
}

void StreamWaitPath::ShowTracing() {
  for (StageGate& gate : gates_->of) {
    StoreWord(gate.clock_offset_ns, gpu().clock_offset_ns());
    StoreWord(gate.tracing, static_cast<uint32_t>(tracing()));
  }
}

void StreamWaitPath::FreeShared() { gates_.Unregister(); }

void StreamWaitPath::AbandonShared() { gates_.Abandon(); }

void StreamWaitPath::AbandonRing(Ring& of) {
  auto& ring = static_cast<Armed&>(of);
  ring.entry.Abandon();
  ring.stage = nullptr;
  ring.kernel = nullptr;
}

}  // namespace carillon::gpud::cuda
