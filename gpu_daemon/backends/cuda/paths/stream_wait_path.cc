#include "gpu_daemon/backends/cuda/paths/stream_wait_path.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/status.h"
#include "fmt/format.h"
#include "gpu_daemon/backends/cuda/driver/launch_sequence.h"
#include "gpu_daemon/backends/cuda/driver/owned.h"
#include "gpu_daemon/backends/cuda/edge/stage_entry.h"
#include "gpu_daemon/backends/cuda/paths/device_graphs.h"
#include "gpu_daemon/backends/cuda/paths/gpu_rings.h"
#include "gpu_daemon/backends/cuda/paths/host_words.h"
#include "gpu_daemon/backends/cuda/paths/resident_path.h"
#include "gpu_daemon/backends/cuda/paths/served_rings.h"

namespace carillon::gpud::cuda {
namespace {

constexpr uint32_t kDoorbellMove = 1u << 30;

uint32_t& DoorbellWordOf(const EventKernel& event) {
  return event.memory().submission().doorbells()[event.event_id()];
}
std::atomic_ref<uint32_t> DoorbellOf(const EventKernel& event) {
  return std::atomic_ref(DoorbellWordOf(event));
}

// How far the doorbell is beyond what the last wait in the stream waits for;
// below 0: it is not there yet.
int32_t Beyond(uint32_t doorbell, uint32_t awaited) {
  return static_cast<int32_t>(doorbell - awaited);
}

// What of an event's four calls comes next.
enum class Step { kWait, kNote, kStage, kKernel };

struct Armed : ServedRing {
  DeviceBytes entry;  // EdgeEntry
  CUfunction stage = nullptr;
  CUfunction kernel = nullptr;  // nullptr: a user's, which `launchers` launch
  // A slot's graph of carillon_launch_staged, and what that launches.
  std::vector<GraphExec> launchers;
  std::vector<GraphExec> launched;
  uint64_t through = 0;     // the last sequence armed
  Step step = Step::kWait;  // of event through + 1
  uint64_t noted = 0;       // the last sequence with a note in the stream
  // What was added to the doorbell; 0: it is the device's own.
  uint32_t moved = 0;
  // Since it was asked to go: the last wait that had ended, since when the
  // stream has stood at the next one (0: it does not, so far as is known), and
  // whether the GPU has moved the word.
  uint64_t passed = 0;
  Nanoseconds stands_since = 0;
  bool moved_by_gpu = false;
};

class StreamWaitEngine final : public ResidentEngine {
 public:
  explicit StreamWaitEngine(ResidentHost* host) : host_(*host), rings_(host) {}

  absl::Status Prepare() override;
  absl::StatusOr<ResidentEventPtr> NewEvent(const EventKernel& event) override;
  absl::Status Place(ResidentEvent& resident) override;
  void FreeShared() override { gates_.Unregister(); }
  absl::Status BeginAll() override;
  bool EndAll() override;
  bool LookAt(ResidentEvent& resident, Nanoseconds now) override;
  bool IsUnseen(ResidentEvent& resident) override;
  std::optional<TakenEvent> Overdue(ResidentEvent& resident,
                                    Nanoseconds since) override;
  void ShowTracing() override;
  void AbandonShared() override { gates_.Abandon(); }
  void Abandon(ResidentEvent& resident) override;
  void CountEnded(ResidentEvent& resident) override;
  void ContinueAfter(ResidentEvent& resident, uint64_t rung) override;
  absl::Status CheckKernel(const EventKernel& event) const override;

 private:
  // Host memory.
  struct Gates {
    StageGate of[ServedRings::kMaxRings];
  };

  static Armed& Of(ResidentEvent& resident) {
    return static_cast<Armed&>(resident);
  }
  Gpu& gpu() const { return host_.gpu(); }

  absl::Status MakeGraphs(Armed& ring);
  static simt::EventFrame* FrameOf(const Armed& ring, uint64_t slot);
  void Begin(Armed& ring);
  // Every now and then while it is served, `ended` being up to date.
  void Arm(Armed& ring);
  // False: the driver refused; again later.
  bool ArmNext(Armed& ring);
  CUresult Enqueue(Armed& ring, uint64_t sequence);
  // Whether the GPU has seen that event ended + 1 has rung, if it has, and the
  // ring has stood still for the longest time.
  enum class Seen { kNo, kUnknown, kYes };
  Seen HasSeen(const Armed& ring) const;
  // The last sequence whose wait has ended, as far as the stream has noted it.
  uint64_t PassedOf(const Armed& ring) const;
  void AskToEnd(Armed& ring);
  void KeepAsking(Armed& ring);
  void MoveDoorbell(Armed& ring);
  void NoteWhetherItStands(Armed& ring);
  void MoveDoorbellOfGpu(Armed& ring);
  static void MoveDoorbellBack(Armed& ring);

  ResidentHost& host_;
  ServedRings rings_;
  HostWords<Gates> gates_;
};

absl::Status StreamWaitEngine::Prepare() {
  const Driver& driver = gpu().driver();
  RETURN_IF_ERROR(gates_.Register(driver));
  // A trial: only the call itself tells whether streams can wait.
  ASSIGN_OR_RETURN(auto stream, gpu().MakeStream(SmSet::kRest, 0));
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

absl::StatusOr<ResidentEventPtr> StreamWaitEngine::NewEvent(
    const EventKernel& event) {
  auto ring = std::make_unique<Armed>();
  RETURN_IF_ERROR(rings_.Enter(event, *ring));
  StageGate& gate = gates_->of[ring->index];
  StoreWord(gate.staged, ring->ended);
  ring->taken = &gate.staged;
  return ring;
}

absl::Status StreamWaitEngine::Place(ResidentEvent& resident) {
  Armed& ring = Of(resident);
  const Driver& driver = gpu().driver();
  RETURN_IF_ERROR(rings_.Place(ring));
  ASSIGN_OR_RETURN(ring.stage, gpu().Function("carillon_stage_entry"));
  if (ring.event->kmd().kernel->is_users()) {
    RETURN_IF_ERROR(MakeGraphs(ring));
  } else {
    ASSIGN_OR_RETURN(ring.kernel,
                     gpu().FunctionFor("carillon_event_", ring.event->kmd()));
  }
  RETURN_IF_ERROR(host_.MakeBytes(sizeof(EdgeEntry), ring.entry));
  const EdgeEntry entry = EntryOf(ring);
  return ToStatus(driver, ring.entry.Write(driver, &entry, sizeof(entry)),
                  "write an event kernel's entry");
}

// A kernel of gpud's own looks into its frame first, which says whether there is
// anything to run. For a user's, carillon_launch_staged does.
absl::Status StreamWaitEngine::MakeGraphs(Armed& ring) {
  const Driver& driver = gpu().driver();
  ASSIGN_OR_RETURN(const auto launch, gpu().Function("carillon_launch_staged"));
  CUstream stream = ring.stream.get();
  ring.launchers.clear();
  ring.launched.clear();
  for (uint32_t slot = 0; slot < ring.event->ring().layout().entries; ++slot) {
    auto* frame = FrameOf(ring, slot);
    auto made = MakeUserGraph(gpu(), *ring.event, slot, frame,
                              ring.event->priority(), stream);
    if (absl::IsUnimplemented(made.status())) {
      return absl::FailedPreconditionError(fmt::format(
          "kernel '{}' of {} is a user's own, which the GPU itself launches on "
          "launch path stream_wait, and this GPU launches no graphs ({}); use "
          "launch path graph, baseline or baseline_flag",
          ring.event->kmd().kernel->name, ring.event->kmd().kernel->file,
          made.status().message()));
    }
    RETURN_IF_ERROR(made.status());
    auto exec = reinterpret_cast<uint64_t>(made->get());
    ring.launched.push_back(*std::move(made));
    void* parameters[] = {&frame, &exec};
    const auto node =
        NodeParams(launch, {1, 1, 1}, {kEdgeLanes, 1, 1}, 0, parameters);
    ASSIGN_OR_RETURN(
        const auto graph,
        MakeKernelGraph(driver, {&node, 1},
                        gpu().reserved_sms() != 0 ? stream : nullptr));
    ASSIGN_OR_RETURN(auto launcher, Instantiate(driver, graph.graph.get(), 0));
    ring.launchers.push_back(std::move(launcher));
  }
  return ToStatus(driver, driver.cuStreamSynchronize(stream),
                  "upload an event kernel's graphs");
}

absl::Status StreamWaitEngine::CheckKernel(const EventKernel& event) const {
  return CheckFixedArguments(event, "stream_wait");
}

// --- Arming.

absl::Status StreamWaitEngine::BeginAll() {
  for (const ResidentEventPtr& resident : host_.residents()) {
    Begin(Of(*resident));
  }
  return absl::OkStatus();
}

void StreamWaitEngine::Begin(Armed& ring) {
  ring.through = ring.ended;
  ring.step = Step::kWait;
  ring.noted = ring.ended;
  ring.moved_by_gpu = false;
  ring.most_taken = ServedRing::kAny;
  StoreWord(gates_->of[ring.index].staged, ring.ended);
  StoreWord(gates_->of[ring.index].passed, static_cast<uint32_t>(ring.ended));
  StoreWord(gates_->of[ring.index].closed, 0u);
  // What the driver refuses now is tried again.
  if (!ring.violation_seen) Arm(ring);
}

void StreamWaitEngine::Arm(Armed& ring) {
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

bool StreamWaitEngine::ArmNext(Armed& ring) {
  const uint64_t sequence = ring.through + 1;
  do {  // from where an earlier attempt has come to
    if (!gpu().Check(Enqueue(ring, sequence))) return false;
    if (ring.step == Step::kNote) ring.noted = sequence;
    ring.step = ring.step == Step::kKernel
                    ? Step::kWait
                    : static_cast<Step>(static_cast<int>(ring.step) + 1);
  } while (ring.step != Step::kWait);
  ring.through = sequence;
  return true;
}

CUresult StreamWaitEngine::Enqueue(Armed& ring, uint64_t sequence) {
  const Driver& driver = gpu().driver();
  const KernelMetadata& kmd = ring.event->kmd();
  switch (ring.step) {
    case Step::kWait:
      return driver.cuStreamWaitValue32(
          ring.stream.get(),
          reinterpret_cast<CUdeviceptr>(&DoorbellWordOf(*ring.event)),
          ring.RingOf(sequence), CU_STREAM_WAIT_VALUE_GEQ);
    case Step::kNote:
      return driver.cuStreamWriteValue32(
          ring.stream.get(),
          reinterpret_cast<CUdeviceptr>(&gates_->of[ring.index].passed),
          static_cast<uint32_t>(sequence), CU_STREAM_WRITE_VALUE_DEFAULT);
    case Step::kStage: {
      auto* entry = ring.entry.as<EdgeEntry>();
      StageGate* gate = &gates_->of[ring.index];
      void* parameters[] = {&entry, &gate, &sequence};
      return driver.cuLaunchKernel(ring.stage, 1, 1, 1, kEdgeLanes, 1, 1, 0,
                                   ring.stream.get(), parameters, nullptr);
    }
    case Step::kKernel:
      break;
  }
  const uint64_t slot =
      ring.event->ring().layout().SlotOf(shm::Sequence(sequence));
  if (ring.kernel == nullptr) {
    return driver.cuGraphLaunch(ring.launchers[slot].get(), ring.stream.get());
  }
  auto* frame = FrameOf(ring, slot);
  void* parameters[] = {&frame};
  return driver.cuLaunchKernel(
      ring.kernel, kmd.grid.x, kmd.grid.y, kmd.grid.z, kmd.block.x, kmd.block.y,
      kmd.block.z, kmd.total_shared(), ring.stream.get(), parameters, nullptr);
}

simt::EventFrame* StreamWaitEngine::FrameOf(const Armed& ring, uint64_t slot) {
  return ring.frames.as<simt::EventFrame>(
      slot * 2 * simt::EventFrameBytes(ring.event->kmd().kernel->args_size));
}

uint64_t StreamWaitEngine::PassedOf(const Armed& ring) const {
  const uint32_t passed = LoadWord(gates_->of[ring.index].passed);
  return ring.noted - (static_cast<uint32_t>(ring.noted) - passed);
}

bool StreamWaitEngine::LookAt(ResidentEvent& resident, Nanoseconds now) {
  Armed& ring = Of(resident);
  const bool goes_on =
      rings_.LookAt(ring, now, [this](ServedRing& served) { Arm(Of(served)); });
  // It waits for room on the GPU, and its kernel's time has not begun.
  if (HasSeen(ring) == Seen::kUnknown) ring.stands_still_since = now;
  return goes_on;
}

std::optional<TakenEvent> StreamWaitEngine::Overdue(ResidentEvent& resident,
                                                    Nanoseconds since) {
  const auto waits = rings_.Overdue(Of(resident), since);
  return HasSeen(Of(resident)) == Seen::kYes ? waits : std::nullopt;
}

bool StreamWaitEngine::IsUnseen(ResidentEvent& resident) {
  return HasSeen(Of(resident)) == Seen::kNo;
}

// --- Letting the stream go.

bool StreamWaitEngine::EndAll() {
  for (const ResidentEventPtr& resident : host_.residents()) {
    AskToEnd(Of(*resident));
  }
  return rings_.AwaitIdle([this](ServedRing& ring) { KeepAsking(Of(ring)); },
                          [](ServedRing& ring) { MoveDoorbellBack(Of(ring)); });
}

void StreamWaitEngine::AskToEnd(Armed& ring) {
  // What is armed passes now, rung or not.
  ring.most_taken = ring.event->gpu_ledger().RungOf(ring.ended);
  StoreWord(gates_->of[ring.index].closed, 1u);
  // An event that was not armed to its end waits, too, but does nothing more.
  if (ring.step != Step::kWait) ++ring.through;
  ring.step = Step::kWait;
  if (ring.through != ring.ended) MoveDoorbell(ring);
  ring.stands_since = 0;
  NoteWhetherItStands(ring);
}

void StreamWaitEngine::NoteWhetherItStands(Armed& ring) {
  const uint64_t passed = PassedOf(ring);
  const bool stands =
      ring.moved != 0 && passed < ring.noted &&
      (passed <= ring.ended || IsCompleted(*ring.event, passed));
  if (stands && ring.stands_since != 0 && passed == ring.passed) return;
  ring.passed = passed;
  ring.stands_since = stands ? NowNs() : 0;
}

void StreamWaitEngine::KeepAsking(Armed& ring) {
  if (ring.moved != 0 &&
      Beyond(DoorbellOf(*ring.event).load(), ring.RingOf(ring.through)) < 0) {
    MoveDoorbell(ring);  // the device has written over it
  }
  NoteWhetherItStands(ring);
  if (!ring.moved_by_gpu && ring.stands_since != 0 &&
      NowNs() - ring.stands_since > host_.longest_kernel_ns() / 4) {
    MoveDoorbellOfGpu(ring);
  }
}

// In the default stream, for which the others do not wait. To a word that the
// CPU does not show: where it shows it afterwards, the two share the page.
void StreamWaitEngine::MoveDoorbellOfGpu(Armed& ring) {
  const auto doorbell = DoorbellOf(*ring.event);
  const uint32_t shown = doorbell.load();
  const uint32_t mark = shown + kDoorbellMove / 2;
  const CUresult result = gpu().driver().cuStreamWriteValue32(
      nullptr, reinterpret_cast<CUdeviceptr>(&DoorbellWordOf(*ring.event)),
      mark, CU_STREAM_WRITE_VALUE_DEFAULT);
  if (!gpu().Check(result)) return;
  uint32_t last = shown;  // but for the mark
  const bool written = host_.Await([&] {
    const uint32_t now = doorbell.load();
    if (now != mark) last = now;
    return host_.IsIdle(nullptr);
  });
  if (!written) return;
  ring.stands_since = NowNs();
  // Puts back what was there, a ring made meanwhile included.
  uint32_t now = mark;
  if (doorbell.compare_exchange_strong(now, last)) return;
  // The device has written meanwhile: nobody knows whose word it was.
  if (now != shown) return;
  ring.moved_by_gpu = true;
  if (!ring.violation_seen) host_.NoteViolation(ring, UnseenViolation(ring));
}

// What is not armed will not be, or it would be by now: that is no device's fault.
// Nor is it where the wait has ended and its kernel has no room on the GPU.
StreamWaitEngine::Seen StreamWaitEngine::HasSeen(const Armed& ring) const {
  if (ring.through <= ring.ended ||
      LoadWord(gates_->of[ring.index].staged) > ring.ended) {
    return Seen::kYes;
  }
  return PassedOf(ring) > ring.ended ? Seen::kUnknown : Seen::kNo;
}

void StreamWaitEngine::MoveDoorbell(Armed& ring) {
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

void StreamWaitEngine::MoveDoorbellBack(Armed& ring) {
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

void StreamWaitEngine::ShowTracing() {
  for (StageGate& gate : gates_->of) {
    StoreWord(gate.clock_offset_ns, gpu().clock_offset_ns());
    StoreWord(gate.tracing, static_cast<uint32_t>(host_.tracing()));
  }
}

// --- A lost context.

void StreamWaitEngine::Abandon(ResidentEvent& resident) {
  Armed& ring = Of(resident);
  ring.stream.Abandon();
  ring.entry.Abandon();
  for (auto& exec : ring.launchers) exec.Abandon();
  for (auto& exec : ring.launched) exec.Abandon();
  ring.stage = nullptr;
  ring.kernel = nullptr;
}

void StreamWaitEngine::CountEnded(ResidentEvent& resident) {
  MoveDoorbellBack(Of(resident));
  rings_.CountEnded(Of(resident));
}

void StreamWaitEngine::ContinueAfter(ResidentEvent& resident, uint64_t rung) {
  Of(resident).ended = rung;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LaunchPath>> MakeStreamWaitPath(
    Gpu* gpu, ResidentOptions options) {
  return ResidentPath::Create(
      gpu, {.path = "stream_wait", .thread = "gpud-strm-watch"},
      std::move(options), [](ResidentHost* host) {
        return std::make_unique<StreamWaitEngine>(host);
      });
}

}  // namespace carillon::gpud::cuda
