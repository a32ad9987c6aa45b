#include "gpu_daemon/backends/cuda/sim_driver/stage_world.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <deque>
#include <iterator>
#include <type_traits>
#include <utility>

#include "fmt/format.h"
#include "gpu_daemon/backends/cuda/edge/stage_entry.h"

namespace carillon::gpud::cuda {
namespace {

using shm::EventStatus;
using shm::Sequence;

constexpr uint32_t kSms = 4;
constexpr uint32_t kDoorbellMove = 1u << 30;

template <class T>
T Load(T& word) {
  return std::atomic_ref<T>(word).load(std::memory_order_acquire);
}
template <class T>
void Store(T& word, std::type_identity_t<T> value) {
  std::atomic_ref<T>(word).store(value, std::memory_order_release);
}

int32_t Beyond(uint32_t doorbell, uint32_t awaited) {
  return static_cast<int32_t>(doorbell - awaited);
}

bool IsRefusal(uint32_t status) {
  switch (static_cast<EventStatus>(status)) {
    case EventStatus::kStaleGeneration:
    case EventStatus::kBadSequence:
    case EventStatus::kBadBufferRef:
    case EventStatus::kBadFlags:
      return true;
    default:
      return false;
  }
}

}  // namespace

StageWorldConfig StageConfigOf(uint64_t seed) {
  constexpr uint32_t kThreads[] = {8, 20, 32, 40, 64};
  sim::SeededRandom random(seed * 0x9e3779b97f4a7c15 + 3);
  StageWorldConfig config{.seed = seed};
  config.rings = 1 + static_cast<uint32_t>(random.Below(3));
  config.blocks = 1 + static_cast<uint32_t>(random.Below(3));
  config.threads = kThreads[random.Below(std::size(kThreads))];
  config.entries = 1u << random.Below(4);
  config.events = 12 + static_cast<uint32_t>(random.Below(12));
  config.restarts = static_cast<uint32_t>(random.Below(3));
  const uint64_t tracing = random.Below(4);
  if (tracing < 3) config.tracing = static_cast<EdgeTracing>(tracing);
  config.eager = random.OneIn(2);
  config.torn = random.OneIn(3);
  config.violator = random.OneIn(4);
  return config;
}

// What one event's calls of the driver are. The note behind the wait, which only
// the host reads, is left out.
enum class Step { kWait, kStage, kKernel };

struct StageWorld::Stream : WorldRing {
  using WorldRing::WorldRing;

  struct Work {
    Step step = Step::kWait;
    uint64_t sequence = 0;
  };
  // A word of an entry that is still to be written.
  struct Piece {
    std::byte* to = nullptr;
    uint64_t value = 0;
  };

  uint32_t RingOf(uint64_t sequence) const {
    return event.kernel->cursor().first_ring() +
           static_cast<uint32_t>(sequence);
  }
  uint32_t& doorbell() const {
    return event.kernel->memory()
        .submission()
        .doorbells()[event.kernel->event_id()];
  }
  shm::EcqEntry& ecq(uint64_t sequence) const {
    return *event.kernel->ring().completion_slot(Sequence(sequence));
  }
  // The last event that has completed, all before it having done so.
  uint64_t Ended() const {
    Sequence ended = device().last_consumed();
    while (device().EndOf(ended + 1)) ++ended;
    return ended.value();
  }
  bool idle() const { return work.empty() && !runs; }

  // The GPU's.
  EdgeEntry* entry = nullptr;
  StageGate* gate = nullptr;
  std::deque<Work> work;
  bool runs = false;  // the kernel at its head
  // When the wait at its head began; nothing later is ordered by it.
  std::optional<sim::WeakMemory::Time> since;

  // The host's, as in StreamWaitEngine.
  uint64_t through = 0;
  Step step = Step::kWait;
  uint32_t moved = 0;
  bool violation_seen = false;

  // The device's.
  bool violates = false;
  std::vector<Piece> pieces;
  std::vector<uint64_t> torn;  // events whose entries were so
};

StageWorld::StageWorld(WorldCode* code, const StageWorldConfig& config)
    : code_(code),
      config_(config),
      random_(config.seed),
      memory_(code),
      device_("test", uint64_t{1} << 16),
      gpu_(&code->memory(),
           {.seed = config.seed,
            .longest_turn = 64,
            .weak_memory = true,
            .sms = kSms,
            .nanoseconds = [this] { return gpu_.clock() * 32; },
            .executed = config.executed}) {
  constexpr WorldKernel kKernels[] = {WorldKernel::kEcho, WorldKernel::kFailIf,
                                      WorldKernel::kMatmul};
  memory_.Map(device_);
  for (uint32_t i = 0; i < config_.rings; ++i) {
    // An earlier ring's rings; 32 bits wrap early.
    Store(device_.memory->submission().doorbells()[i],
          random_.OneIn(2) ? 0u - 5 : 7);
    const WorldKernel kernel =
        kKernels[(config_.seed + i) % std::size(kKernels)];
    streams_.push_back(std::make_unique<Stream>(
        WorldRing::Spec{.seed = config_.seed,
                        .id = i,
                        .kernel = kernel,
                        .entries = config_.entries,
                        .grid = {config_.blocks, 1, 1},
                        .block = kernel == WorldKernel::kMatmul
                                     ? simt::Dim3{16, 16, 1}
                                     : simt::Dim3{config_.threads, 1, 1},
                        .skipped = 1,
                        .longest = random_.OneIn(2) ? 3u : 48u,
                        .bad_headers = true},
        device_));
    Stream& stream = *streams_.back();
    stream.entry = memory_.Take<EdgeEntry>(1);
    *stream.entry = stream.MakeEntry(memory_, 2 * config_.entries);
    stream.gate = memory_.TakeZeros<StageGate>(1);
    stream.gate->clock_offset_ns = kWorldClockOffset;
    stream.gate->tracing =
        static_cast<uint32_t>(config_.tracing.value_or(EdgeTracing::kOn));
  }
}

StageWorld::~StageWorld() = default;

void StageWorld::Fail(std::string what) {
  if (failed_.ok()) {
    failed_ = absl::InternalError(
        fmt::format("seed {}: {}", config_.seed, std::move(what)));
  }
}

// --- The streams.

void StageWorld::Advance(Stream& stream) {
  if (stream.idle() || stream.runs) return;
  const auto [step, sequence] = stream.work.front();
  switch (step) {
    case Step::kWait:
      if (!stream.since) {
        // Nobody says that a wait orders what is behind it.
        const EdgeEntry& entry = *stream.entry;
        const std::byte* const slot =
            entry.esq + uint64_t{entry.SlotOf(sequence)} * entry.entry_bytes;
        (void)gpu_.ReadAhead(reinterpret_cast<uint64_t>(slot),
                             entry.entry_bytes);
        stream.since = *gpu_.ReadAhead(reinterpret_cast<uint64_t>(stream.gate),
                                       sizeof(StageGate));
      } else if (Beyond(Load(stream.doorbell()), stream.RingOf(sequence)) >=
                 0) {
        stream.work.pop_front();
      }
      return;
    case Step::kStage:
      return BeginStage(stream, sequence);
    case Step::kKernel:
      return BeginKernel(stream, sequence);
  }
}

void StageWorld::Begin(Stream& stream, sim::Launch launch,
                       std::optional<sim::WeakMemory::Time> since) {
  stream.runs = true;
  const auto begun = gpu_.Begin(
      launch, 0,
      [this, &stream](absl::Status status) {
        stream.runs = false;
        stream.work.pop_front();
        if (!status.ok()) Fail(std::string(status.message()));
      },
      {.count = kSms}, since);
  if (!begun.ok()) Fail(std::string(begun.status().message()));
}

void StageWorld::BeginStage(Stream& stream, uint64_t sequence) {
  const struct {
    const EdgeEntry* entry;
    StageGate* gate;
    uint64_t sequence;
  } parameters{stream.entry, stream.gate, sequence};
  const auto* const bytes = reinterpret_cast<const std::byte*>(&parameters);
  Begin(stream,
        {.program = &code_->program(),
         .kernel = code_->program().FindEntry("carillon_stage_entry"),
         .block = {kEdgeLanes, 1, 1},
         .parameters = {bytes, bytes + sizeof(parameters)}},
        std::exchange(stream.since, {}));
}

void StageWorld::BeginKernel(Stream& stream, uint64_t sequence) {
  const KernelMetadata& kmd = stream.event.kernel->kmd();
  const simt::EventFrame* const frame =
      stream.entry->Frame(stream.entry->SlotOf(sequence), 0);
  const auto* const bytes = reinterpret_cast<const std::byte*>(&frame);
  Begin(stream,
        {.program = &code_->program(),
         .kernel = code_->program().FindEntry(
             fmt::format("carillon_event_{}", kmd.kernel->name)),
         .grid = {kmd.grid.x, 1, 1},
         .block = {kmd.block.x, kmd.block.y, 1},
         .dynamic_shared_bytes = kmd.total_shared(),
         .parameters = {bytes, bytes + sizeof(frame)}},
        {});
}

// --- The host.

void StageWorld::BeginStream(Stream& stream) {
  stream.through = stream.Ended();
  stream.step = Step::kWait;
  stream.since.reset();
  Store(stream.gate->staged, stream.through);
  Store(stream.gate->closed, 0u);
}

void StageWorld::Arm(Stream& stream) {
  const uint64_t ended = stream.Ended();
  if (ended == 0 && Load(stream.doorbell()) == stream.RingOf(0)) return;
  while (stream.through < ended + config_.entries) {
    if (random_.OneIn(16)) return;  // the driver refuses
    stream.work.push_back({stream.step, stream.through + 1});
    if (stream.step == Step::kKernel) ++stream.through;
    stream.step = stream.step == Step::kKernel
                      ? Step::kWait
                      : static_cast<Step>(static_cast<int>(stream.step) + 1);
  }
}

void StageWorld::AskToEnd(Stream& stream) {
  Store(stream.gate->closed, 1u);
  // An event that was not armed to its end waits, too, but does nothing more.
  if (stream.step != Step::kWait) ++stream.through;
  stream.step = Step::kWait;
  if (stream.through != stream.Ended()) MoveDoorbell(stream);
}

void StageWorld::MoveDoorbell(Stream& stream) {
  const uint32_t shown = Load(stream.doorbell());
  const uint32_t awaited = stream.RingOf(stream.through);
  stream.moved = kDoorbellMove;
  while (Beyond(shown + stream.moved, awaited) < 0) {
    stream.moved += kDoorbellMove;
  }
  Store(stream.doorbell(), shown + stream.moved);
}

void StageWorld::MoveDoorbellBack(Stream& stream) {
  const uint32_t shown = Load(stream.doorbell());
  // Nearer than half a move: the device has written its own count over it.
  if (stream.moved != 0 && Beyond(shown, stream.RingOf(stream.through)) >=
                               static_cast<int32_t>(kDoorbellMove / 2)) {
    Store(stream.doorbell(), shown - stream.moved);
  }
  stream.moved = 0;
}

void StageWorld::LookAt(Stream& stream) {
  const uint64_t ended = stream.Ended();
  if (Load(stream.gate->staged) < ended) {
    Fail(fmt::format("ring {}: event {} has ended, {} is staged",
                     stream.spec.id, ended, stream.gate->staged));
  }
  if (ending_) {
    // The device may have written over it.
    if (!stream.idle() && stream.moved != 0 &&
        Beyond(Load(stream.doorbell()), stream.RingOf(stream.through)) < 0) {
      MoveDoorbell(stream);
    }
    return;
  }
  const auto ahead = Beyond(Load(stream.doorbell()), stream.RingOf(ended));
  stream.violation_seen |= ahead > static_cast<int32_t>(config_.entries);
  if (!stream.violation_seen) Arm(stream);
}

void StageWorld::CheckIdle(Stream& stream) {
  for (uint32_t i = 0; i < 2 * config_.entries; ++i) {
    const simt::EventScratch& scratch = stream.entry->scratch[i];
    if (scratch.fail_status == 0 && scratch.blocks_ended == 0) continue;
    Fail(fmt::format("ring {}: frame {}'s scratch is left with {} and {}",
                     stream.spec.id, i, scratch.fail_status,
                     scratch.blocks_ended));
  }
  if (!stream.violates && stream.violation_seen) {
    Fail(fmt::format("ring {} is blamed for nothing", stream.spec.id));
  }
  if (!stream.violates) return;
  // What its device has never written.
  for (uint64_t n = stream.device().last_committed().value() + 1;
       n <= stream.through; ++n) {
    const auto end = stream.device().EndOf(Sequence(n));
    if (!end || IsRefusal(end->status)) continue;
    Fail(fmt::format("ring {}: event {} was not written and ended with {}",
                     stream.spec.id, n, end->status));
  }
}

bool StageWorld::IsOver() const {
  return std::ranges::all_of(streams_, [this](const auto& stream) {
    return stream->violates
               ? stream->violation_seen
               : stream->device().last_consumed().value() == config_.events;
  });
}

void StageWorld::ShowTracing() {
  const auto tracing = static_cast<uint32_t>(random_.Below(3));
  for (const auto& stream : streams_) Store(stream->gate->tracing, tracing);
}

void StageWorld::HostStep() {
  for (const auto& stream : streams_) LookAt(*stream);
  if (!config_.tracing && random_.OneIn(512)) ShowTracing();
  if (!ending_) {
    ending_ = IsOver() || (restarts_ < config_.restarts && random_.OneIn(1000));
    if (!ending_) return;
    for (const auto& stream : streams_) AskToEnd(*stream);
    return;
  }
  if (!std::ranges::all_of(
          streams_, &Stream::idle,
          [](const auto& stream) -> Stream& { return *stream; })) {
    return;
  }
  for (const auto& stream : streams_) {
    MoveDoorbellBack(*stream);
    CheckIdle(*stream);
  }
  over_ = IsOver();
  if (over_) return;
  ++restarts_;
  ending_ = false;
  for (const auto& stream : streams_) BeginStream(*stream);
}

// --- The device.

void StageWorld::Commit(Stream& stream) {
  shm::DeviceRing& device = stream.device();
  const uint64_t next = device.last_committed().value() + 1;
  if (Load(stream.ecq(next).sequence) != 0) {
    Fail(fmt::format("ring {}: event {} has ended twice", stream.spec.id,
                     Load(stream.ecq(next).sequence)));
  }
  if (config_.torn && next % 11 == 8) return CommitTorn(stream);
  stream.Commit();
}

// The event rings, and then its entry is written, in any order.
void StageWorld::CommitTorn(Stream& stream) {
  shm::DeviceRing& device = stream.device();
  std::byte* const entry =
      device.parameters() - device.layout().parameter_offset;
  const uint32_t bytes = device.layout().entry_bytes;
  const std::vector<std::byte> before(entry, entry + bytes);
  stream.Commit();
  stream.torn.push_back(device.last_committed().value());
  for (uint32_t i = 0; i < bytes; i += sizeof(uint64_t)) {
    uint64_t value;
    std::memcpy(&value, entry + i, sizeof(value));
    if (std::memcmp(&value, before.data() + i, sizeof(value)) == 0) continue;
    std::memcpy(entry + i, before.data() + i, sizeof(value));
    stream.pieces.push_back({.to = entry + i, .value = value});
  }
  device.RingDoorbell();
}

void StageWorld::Consume(Stream& stream) {
  shm::DeviceRing& device = stream.device();
  const auto completion = device.Poll();
  if (!completion || stream.violates) return;
  const uint64_t n = completion->sequence.value();
  std::string wrong;
  if (std::ranges::find(stream.torn, n) != stream.torn.end()) {
    // Which of the pieces were there, nobody knows.
    const uint32_t status = completion->status;
    if (status != 0 && !IsRefusal(status) &&
        status < static_cast<uint32_t>(EventStatus::kKernelStatusBase)) {
      wrong = fmt::format("ring {}: event {} ended with status {}",
                          stream.spec.id, n, status);
    }
  } else {
    wrong = stream.Check(*completion);
    if (wrong.empty() && config_.tracing) {
      wrong = stream.CheckLife(*config_.tracing == EdgeTracing::kOn);
    }
  }
  if (!wrong.empty()) Fail(std::move(wrong));
  // So that a second end would show.
  Store(stream.ecq(n).sequence, 0);
  device.Consume();
  ++consumed_;
}

void StageWorld::DeviceStep(Stream& stream) {
  shm::DeviceRing& device = stream.device();
  if (stream.violates) return;
  Consume(stream);
  if (device.EndOf(device.last_rung() + 1)) {
    Fail(fmt::format("ring {}: event {} has ended and was not rung",
                     stream.spec.id, device.last_rung().value() + 1));
  }
  if (!stream.pieces.empty()) {
    const size_t which = random_.Below(stream.pieces.size());
    const auto [to, value] = stream.pieces[which];
    Store(*reinterpret_cast<uint64_t*>(to), value);
    stream.pieces.erase(stream.pieces.begin() + static_cast<ptrdiff_t>(which));
    return;
  }
  if (config_.violator && stream.spec.id == 0 &&
      device.last_committed().value() > 4) {
    stream.violates = true;
    return device.RingWith(3 * config_.entries + 1);
  }
  if (device.last_committed().value() < config_.events &&
      device.free_slots() > 0 && random_.OneIn(3)) {
    Commit(stream);
  }
  if (random_.OneIn(2)) device.RingDoorbell();
}

absl::Status StageWorld::Run() {
  for (const auto& stream : streams_) BeginStream(*stream);
  uint64_t seen = 0;
  for (uint64_t turns = 0; failed_.ok() && !over_; ++turns) {
    gpu_.Step();
    if (config_.eager) {
      for (const auto& stream : streams_) Consume(*stream);
    }
    if (random_.OneIn(4)) Advance(*streams_[random_.Below(streams_.size())]);
    if (random_.OneIn(4)) HostStep();
    if (random_.OneIn(4)) {
      DeviceStep(*streams_[random_.Below(streams_.size())]);
    }
    if (consumed_ != seen) turns = 0;
    seen = consumed_;
    if (turns > config_.patience) {
      return absl::AbortedError(
          fmt::format("seed {}: nothing happens any more: {} events have ended",
                      config_.seed, consumed_));
    }
  }
  return failed_;
}

}  // namespace carillon::gpud::cuda
