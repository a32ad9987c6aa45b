#include "gpu_daemon/backends/cuda/sim_driver/persistent_world.h"

#include <atomic>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <type_traits>
#include <utility>

#include "fmt/format.h"

namespace carillon::gpud::cuda {
namespace {

template <class T>
T Load(T& word) {
  return std::atomic_ref<T>(word).load(std::memory_order_acquire);
}
template <class T>
void Store(T& word, std::type_identity_t<T> value) {
  std::atomic_ref<T>(word).store(value, std::memory_order_release);
}

}  // namespace

PersistentWorldConfig PersistentConfigOf(uint64_t seed, bool echoes) {
  constexpr uint32_t kThreads[] = {8, 20, 32, 40, 64};
  sim::SeededRandom random(seed * 0x9e3779b97f4a7c15 + 2);
  PersistentWorldConfig config{.seed = seed, .echoes = echoes};
  config.grid = 1 + static_cast<uint32_t>(random.Below(4));
  config.blocks = 1 + static_cast<uint32_t>(random.Below(config.grid));
  config.threads = kThreads[random.Below(std::size(kThreads))];
  config.entries = 1u << random.Below(4);
  config.events = 12 + static_cast<uint32_t>(random.Below(20));
  config.restarts = static_cast<uint32_t>(random.Below(3));
  const uint64_t tracing = random.Below(4);
  if (tracing < 3) config.tracing = static_cast<EdgeTracing>(tracing);
  config.jumps = random.OneIn(4);
  return config;
}

PersistentWorld::PersistentWorld(WorldCode* code,
                                 const PersistentWorldConfig& config)
    : code_(code),
      config_(config),
      random_(config.seed),
      memory_(code),
      device_("test", uint64_t{1} << 16),
      gpu_(&code->memory(),
           {.seed = config.seed,
            .longest_turn = 64,
            .weak_memory = true,
            .nanoseconds = [this] { return gpu_.clock() * 32; },
            .executed = config.executed}) {
  memory_.Map(device_);
  // An earlier ring's rings; 32 bits wrap early.
  const uint32_t rings = random_.OneIn(2) ? 0u - 5 : 7;
  Store(device_.memory->submission().doorbells()[0], rings);
  ring_.emplace(WorldRing::Spec{.seed = config_.seed,
                                .kernel = config_.echoes ? WorldKernel::kEcho
                                                         : WorldKernel::kFailIf,
                                .entries = config_.entries,
                                .grid = {config_.grid, 1, 1},
                                .block = {config_.threads, 1, 1},
                                .skipped = 1,
                                .bad_headers = true},
                device_);
  control_ = memory_.TakeZeros<PersistentControl>(1);
  report_ = memory_.TakeZeros<PersistentReport>(1);
  entry_ = memory_.Take<PersistentEntry>(1);
  copy_ = memory_.Take<std::byte>(sizeof(shm::EsqEntryHeader) +
                                  shm::kMaxParameterBytes);
  edge_entry_ = ring_->MakeEntry(memory_, 1);
  control_->clock_offset_ns = kWorldClockOffset;
  tracing_ = PersistentTracing(config_.tracing.value_or(EdgeTracing::kOn));
}

void PersistentWorld::Fail(std::string what) {
  if (failed_.ok()) {
    failed_ = absl::InternalError(
        fmt::format("seed {}: {}", config_.seed, std::move(what)));
  }
}

// --- The host.

void PersistentWorld::Start() {
  const EventKernel& event = *ring_->event.kernel;
  PersistentEntry entry{};
  entry.entry = edge_entry_;
  entry.doorbell = device_.memory->submission().doorbells();
  entry.control = control_;
  entry.report = report_;
  entry.copy = copy_;
  entry.first = Ended() + 1;
  entry.ring = event.cursor().first_ring() + static_cast<uint32_t>(entry.first);
  entry.blocks = config_.blocks;
  entry.grid[0] = config_.grid;
  entry.grid[1] = entry.grid[2] = 1;
  entry.totals = totals_;
  *entry_ = entry;
  ending_ = false;
  Store(control_->command, tracing_);
  const auto* const bytes = reinterpret_cast<const std::byte*>(&entry_);
  const sim::Launch launch{
      .program = &code_->program(),
      .kernel = code_->program().FindEntry(
          fmt::format("carillon_persistent_{}", event.kmd().kernel->name)),
      .grid = {config_.blocks, 1, 1},
      .block = {config_.threads, 1, 1},
      .parameters = {bytes, bytes + sizeof(entry_)}};
  running_ = true;
  const auto begun = gpu_.Begin(launch, 0, [this](absl::Status status) {
    running_ = false;
    if (!status.ok()) Fail(std::string(status.message()));
  });
  if (!begun.ok()) Fail(std::string(begun.status().message()));
}

uint64_t PersistentWorld::Ended() const {
  const shm::DeviceRing& device = ring_->device();
  shm::Sequence ended = device.last_consumed();
  while (ended < device.last_rung() && device.EndOf(ended + 1)) ++ended;
  return ended.value();
}

void PersistentWorld::CheckReport() {
  const uint64_t ended = Ended();
  const uint64_t counted =
      Load(report_->totals.done) + Load(report_->totals.failed);
  if (counted > ended || counted + 1 < ended) {
    Fail(fmt::format("{} events have completed, the report counts {}", ended,
                     counted));
  }
}

void PersistentWorld::CheckEnd() {
  const uint64_t ended = Ended();
  totals_ = entry_->totals;
  const simt::EventTotals& shown = report_->totals;
  if (!ending_) Fail("the blocks have left by themselves");
  if (totals_.done + totals_.failed != ended || totals_.done != shown.done ||
      totals_.failed != shown.failed || totals_.refused != shown.refused) {
    Fail(fmt::format(
        "{} events have ended: {} done, {} failed, {} refused; the report says "
        "{}, {} and {}",
        ended, totals_.done, totals_.failed, totals_.refused, shown.done,
        shown.failed, shown.refused));
  }
  if (report_->taken != ended) {
    Fail(fmt::format("event {} was taken, and {} have ended", report_->taken,
                     ended));
  }
}

void PersistentWorld::HostStep() {
  CheckReport();
  const bool all = ring_->device().last_consumed().value() == config_.events;
  if (!running_) {
    CheckEnd();
    over_ = all || jump_stays_;
    if (over_) return;
    ++restarts_;
    return Start();
  }
  if (ending_) return;
  if (!config_.tracing && random_.OneIn(512)) {
    tracing_ = PersistentTracing(static_cast<EdgeTracing>(random_.Below(3)));
    Store(control_->command, tracing_);
  }
  if (all || (jump_stays_ && random_.OneIn(500)) ||
      (restarts_ < config_.restarts && random_.OneIn(2000))) {
    ending_ = true;
    Store(control_->command, tracing_ | kPersistentEnd);
  }
}

// --- The device.

void PersistentWorld::DeviceStep() {
  shm::DeviceRing& device = ring_->device();
  Consume();
  if (jump_ != 0) {
    if (jump_stays_ || !random_.OneIn(64)) return;
    device.RingWith(0u - jump_);
    jump_ = 0;
  }
  if (config_.jumps && random_.OneIn(200)) {
    const auto committed =
        static_cast<uint32_t>(device.last_committed() - device.last_consumed());
    const auto far = static_cast<uint32_t>(random_.Below(1000));
    jump_ = random_.OneIn(2) ? config_.entries + 1 + far
                             : 0u - (committed + 1 + far);
    jump_stays_ = random_.OneIn(4);
    return device.RingWith(jump_);
  }
  if (device.last_committed().value() < config_.events &&
      device.free_slots() > 0 && random_.OneIn(3)) {
    ring_->Commit();
  }
  if (random_.OneIn(2)) device.RingDoorbell();
}

bool PersistentWorld::Consume() {
  shm::DeviceRing& device = ring_->device();
  const auto completion = device.Poll();
  if (!completion) return false;
  std::string wrong = ring_->Check(*completion);
  if (wrong.empty() && config_.tracing) {
    wrong = ring_->CheckLife(*config_.tracing == EdgeTracing::kOn);
  }
  if (!wrong.empty()) Fail(std::move(wrong));
  device.Consume();
  return true;
}

absl::Status PersistentWorld::Run() {
  Start();
  shm::Sequence seen;
  for (uint64_t turns = 0; failed_.ok() && !over_; ++turns) {
    gpu_.Step();
    if (random_.OneIn(4)) HostStep();
    if (random_.OneIn(4)) DeviceStep();
    const shm::Sequence consumed = ring_->device().last_consumed();
    if (consumed != seen) turns = 0;
    seen = consumed;
    if (turns > config_.patience) {
      return absl::AbortedError(fmt::format(
          "seed {}: nothing happens any more: {} of {} events have ended",
          config_.seed, consumed.value(), config_.events));
    }
  }
  while (failed_.ok() && Consume()) {
  }
  if (failed_.ok() &&
      (totals_.refused != ring_->refused || totals_.failed != ring_->failed)) {
    Fail(fmt::format(
        "{} events failed, {} of them refused; {} and {} are "
        "counted",
        ring_->failed, ring_->refused, totals_.failed, totals_.refused));
  }
  return failed_;
}

}  // namespace carillon::gpud::cuda
