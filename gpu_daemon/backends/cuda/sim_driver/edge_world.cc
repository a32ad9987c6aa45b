#include "gpu_daemon/backends/cuda/sim_driver/edge_world.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "fmt/format.h"

namespace carillon::gpud::cuda {
namespace {

using shm::Sequence;

constexpr uint64_t kTailLaunch = 0x0100000000000000;
constexpr uint32_t kSuccess = 0;
constexpr uint32_t kInvalidValue = 1;
constexpr uint32_t kOutOfResources = 701;

template <class T>
T Load(T& word) {
  return std::atomic_ref<T>(word).load(std::memory_order_acquire);
}
template <class T>
void Store(T& word, std::type_identity_t<T> value) {
  std::atomic_ref<T>(word).store(value, std::memory_order_release);
}

}  // namespace

WorldConfig ConfigOf(uint64_t seed) {
  sim::SeededRandom random(seed * 0x9e3779b97f4a7c15 + 1);
  WorldConfig config{.seed = seed};
  config.dispatchers = 1 + static_cast<uint32_t>(random.Below(3));
  config.pollers = 1 + static_cast<uint32_t>(random.Below(2));
  config.event_warps = 1 + static_cast<uint32_t>(random.Below(3));
  config.budget = 1 + static_cast<uint32_t>(random.Below(4));
  config.real_budget = config.budget - (config.budget > 1 && random.OneIn(4));
  // More than four lines are looked at in two goes.
  config.devices =
      1 + static_cast<uint32_t>(random.Below(random.OneIn(4) ? 6 : 2));
  config.rings = 1 + static_cast<uint32_t>(random.Below(4));
  config.entries = 1u << random.Below(4);
  config.events = 6 + static_cast<uint32_t>(random.Below(12));
  config.violator = random.OneIn(4);
  // Somebody is left to serve.
  config.failed_relaunches = config.dispatchers > 1 && random.OneIn(4) ? 1 : 0;
  config.restarts = static_cast<uint32_t>(random.Below(3));
  config.tracing = random.OneIn(2);
  config.launch_slots =
      std::min(config.entries, 1u << static_cast<uint32_t>(random.Below(4)));
  return config;
}

struct EdgeWorld::Ring : WorldRing {
  using WorldRing::WorldRing;

  uint32_t index = 0;  // in the table
  bool inlined = false;
  bool violates = false;
  uint64_t* ended = nullptr;
};

struct EdgeWorld::Dispatcher {
  bool up = false;        // an execution is under way or will be
  uint32_t launched = 0;  // by this execution
  uint32_t children = 0;  // of these, not retired
  bool tail = false;
  bool body = false;  // its kernel runs
};

EdgeWorld::EdgeWorld(WorldCode* code, const WorldConfig& config)
    : code_(code),
      config_(config),
      random_(config.seed),
      memory_(code),
      dispatchers_(config.dispatchers),
      gpu_(&code->memory(), GpuOptions()) {
  for (uint32_t d = 0; d < config.devices; ++d) {
    devices_.push_back(std::make_unique<TestDevice>("test" + std::to_string(d),
                                                    uint64_t{1} << 16));
    memory_.Map(*devices_.back());
    for (uint32_t kind = 0; kind < config.rings; ++kind) MakeRing(d, kind);
  }
  expected_ = rings_.size() * config.events;
  MakeTable();
}

sim::InterleavedGpu::Options EdgeWorld::GpuOptions() {
  sim::InterleavedGpu::Options options{
      .seed = config_.seed,
      .longest_turn = 64,
      .weak_memory = true,
      .nanoseconds = [this] { return gpu_.clock() * 32; },
      .launch_graph =
          [this](const sim::Warp& warp, uint64_t exec, uint64_t stream) {
            return LaunchGraph(warp, exec, stream);
          },
      .executed = config_.executed};
  if (config_.timed) {
    wire_.emplace(&code_->program(),
                  [this](uint64_t address) { return IsHost(address); });
    options.longest_turn = 1;
    options.weak_memory = false;
    options.due = [this](const sim::Warp& warp) { return wire_->Due(warp); };
    options.executed = [this](const sim::Warp& warp, const sim::Op& op,
                              sim::LaneMask lanes) {
      wire_->Executed(warp, op, lanes);
    };
  }
  return options;
}

EdgeWorld::~EdgeWorld() = default;

void EdgeWorld::Fail(std::string what) {
  if (failed_.ok()) {
    failed_ = absl::InternalError(
        fmt::format("seed {}: {}", config_.seed, std::move(what)));
  }
}

// --- Rings and table.

void EdgeWorld::MakeRing(uint32_t d, uint32_t kind) {
  TestDevice& device = *devices_[d];
  const uint32_t index = d * kEdgeLanes + device.next_doorbell;
  const bool inlined = kind % 2 == 0;
  auto ring = std::make_unique<Ring>(
      WorldRing::Spec{
          .seed = config_.seed,
          .id = static_cast<uint32_t>(rings_.size()),
          .kernel = kind < 2 ? WorldKernel::kEcho : WorldKernel::kFailIf,
          .entries = config_.entries,
          .grid = {inlined ? 1u : config_.launched_blocks, 1, 1}},
      device);
  ring->index = index;
  ring->inlined = inlined;
  rings_.push_back(std::move(ring));
}

void EdgeWorld::MakeTable() {
  control_ = memory_.Take<EdgeControl>(1);
  report_ = memory_.Take<EdgeReport>(1);
  table_ = memory_.Take<EdgeTable>(1);
  const uint32_t lines = config_.devices;
  *control_ = {};
  *report_ = {};
  *table_ = {};
  table_->control = control_;
  table_->report = report_;
  table_->entries = memory_.Take<EdgeEntry>(lines * kEdgeLanes);
  table_->heads =
      memory_.Take<EdgeHead>(lines * kEdgeLanes * config_.event_warps);
  table_->totals = memory_.Take<simt::EventTotals>(lines * kEdgeLanes);
  table_->dispatcher_count = config_.dispatchers;
  table_->pollers = config_.pollers;
  table_->event_warps = config_.event_warps;
  table_->budget = config_.budget;
  table_->report_every = config_.timed ? 512 : 4;
  table_->line_count = lines;
  std::fill_n(table_->entries, lines * kEdgeLanes, EdgeEntry{});
  std::fill_n(table_->heads, lines * kEdgeLanes * config_.event_warps,
              EdgeHead{});
  std::fill_n(table_->totals, lines * kEdgeLanes, simt::EventTotals{});
  for (uint32_t d = 0; d < lines; ++d) {
    table_->lines[d].doorbells = devices_[d]->memory->submission().doorbells();
  }
  for (const auto& ring : rings_) {
    const EventKernel& event = *ring->event.kernel;
    const uint32_t slots = config_.entries;
    EdgeEntry& entry = table_->entries[ring->index];
    entry = ring->MakeEntry(memory_, 2 * config_.launch_slots);
    entry.launch_slots = ring->inlined ? slots : config_.launch_slots;
    ring->ended = memory_.Take<uint64_t>(slots);
    entry.ended = ring->ended;
    entry.execs = reinterpret_cast<uint64_t(*)[2]>(
        memory_.Take<uint64_t>(2 * config_.launch_slots));
    entry.inline_kernel = code_->Word(
        fmt::format("carillon_inline_{}", event.kmd().kernel->name));
    if (ring->inlined) entry.flags |= kEdgeInline;
    for (uint32_t slot = 0; slot < slots; ++slot) {
      ring->ended[slot] = FirstSlotEnded(1, slot, slots);
    }
    for (uint32_t slot = 0; slot < config_.launch_slots; ++slot) {
      for (uint32_t copy = 0; copy < 2; ++copy) {
        execs_.push_back(
            {.ring = ring.get(), .frame = entry.Frame(slot, copy)});
        entry.execs[slot][copy] = config_.dispatchers + execs_.size();
      }
    }
    for (uint32_t warp = 0; warp < config_.event_warps; ++warp) {
      table_->HeadsOf(ring->index / kEdgeLanes,
                      warp)[ring->index % kEdgeLanes] =
          FirstHead(1, 0, warp, config_.event_warps, entry.flags);
    }
  }
}

// --- Graphs. Execs 1 to `dispatchers` are the dispatchers' own.

uint32_t EdgeWorld::LaunchGraph(const sim::Warp& warp, uint64_t exec,
                                uint64_t stream) {
  const uint64_t self = warp.launch().graph_exec;
  Dispatcher& dispatcher = dispatchers_[self - 1];
  if (stream == kTailLaunch) {
    if (failed_relaunches_ < config_.failed_relaunches) {
      ++failed_relaunches_;
      return kInvalidValue;
    }
    if (exec != self || dispatcher.tail) return kInvalidValue;
    dispatcher.tail = true;
    return kSuccess;
  }
  const size_t index = exec - config_.dispatchers - 1;
  if (exec <= config_.dispatchers || index >= execs_.size()) {
    Fail(fmt::format("exec {} is launched: there is none", exec));
    return kInvalidValue;
  }
  // NVIDIA does not say what a launch beyond the budget returns.
  if (dispatcher.launched >= config_.real_budget) {
    return random_.OneIn(2) ? kInvalidValue : kOutOfResources;
  }
  if (execs_[index].busy) return kInvalidValue;
  execs_[index].busy = true;
  execs_[index].dispatcher = static_cast<uint32_t>(self - 1);
  ++dispatcher.launched;
  ++dispatcher.children;
  execs_[index].launch = ++last_launch_;
  if (wire_) wire_->Launches(warp, last_launch_);
  pending_.push_back([this, index] { BeginExec(index); });
  return kSuccess;
}

void EdgeWorld::BeginExec(size_t index) {
  const uint64_t frame = reinterpret_cast<uint64_t>(execs_[index].frame);
  const auto* const bytes = reinterpret_cast<const std::byte*>(&frame);
  const KernelMetadata& kmd = execs_[index].ring->event.kernel->kmd();
  sim::Launch launch{.program = &code_->program(),
                     .kernel = code_->program().FindEntry(
                         fmt::format("carillon_event_{}", kmd.kernel->name)),
                     .grid = {kmd.grid.x, 1, 1},
                     .block = {kmd.block.x, 1, 1},
                     .parameters = {bytes, bytes + sizeof(frame)},
                     .id = execs_[index].launch,
                     .graph_exec = config_.dispatchers + 1 + index};
  const auto begun = gpu_.Begin(launch, 0, [this, index](absl::Status status) {
    if (!status.ok()) Fail(std::string(status.message()));
    pending_.push_back([this, index] {
      execs_[index].busy = false;
      --dispatchers_[execs_[index].dispatcher].children;
    });
  });
  if (!begun.ok()) Fail(std::string(begun.status().message()));
}

void EdgeWorld::BeginDispatcher(uint32_t index) {
  struct {
    EdgeTable* table;
    uint32_t dispatcher;
  } const params{table_, index};
  const auto* const bytes = reinterpret_cast<const std::byte*>(&params);
  sim::Launch launch{
      .program = &code_->program(),
      .kernel = code_->program().FindEntry("carillon_edge_dispatcher"),
      .block = {kEdgeLanes * (config_.pollers + config_.event_warps), 1, 1},
      .parameters = {bytes, bytes + offsetof(decltype(params), dispatcher) + 4},
      .id = ++last_launch_,
      .graph_exec = index + 1};
  Dispatcher& self = dispatchers_[index];
  self = {.up = true, .body = true};
  const auto begun = gpu_.Begin(launch, 1, [this, index](absl::Status status) {
    dispatchers_[index].body = false;
    trapped_ = config_.trap &&
               status.message().find(": trapped;") != absl::string_view::npos;
    if (!status.ok() && !trapped_) Fail(std::string(status.message()));
  });
  if (!begun.ok()) Fail(std::string(begun.status().message()));
}

void EdgeWorld::Advance() {
  if (!pending_.empty() && (config_.timed || random_.OneIn(8))) {
    const size_t which = random_.Below(pending_.size());
    const std::function<void()> next = std::move(pending_[which]);
    pending_.erase(pending_.begin() + static_cast<ptrdiff_t>(which));
    next();
  }
  for (uint32_t i = 0; i < dispatchers_.size(); ++i) {
    Dispatcher& dispatcher = dispatchers_[i];
    // A graph ends with all that it launched; only then its tail begins.
    if (!dispatcher.up || dispatcher.body || dispatcher.children != 0) continue;
    if (!dispatcher.tail) {
      dispatcher.up = false;
    } else if (random_.OneIn(8)) {
      BeginDispatcher(i);
    }
  }
}

// --- The host.

void EdgeWorld::Say(EdgeCommand command) {
  command_ = command;
  Store(control_->command, static_cast<uint32_t>(command));
}

void EdgeWorld::Start() {
  table_->token = kEdgeTokenFree;
  Store(report_->halted, 0u);
  Say(EdgeCommand::kServe);
  for (uint32_t i = 0; i < config_.dispatchers; ++i) BeginDispatcher(i);
}

bool EdgeWorld::AllEnded() const {
  return completed_ >= expected_ &&
         std::ranges::all_of(rings_, [this](const auto& ring) {
           return !ring->violates ||
                  Load(report_->violations[ring->index]) != 0;
         });
}

bool EdgeWorld::AllLeft() const {
  return std::ranges::none_of(dispatchers_, &Dispatcher::up) &&
         pending_.empty();
}

void EdgeWorld::HostStep() {
  const bool all = AllEnded();
  if (config_.trap && random_.OneIn(500)) Store(control_->trap, 1u);
  switch (command_) {
    case EdgeCommand::kServe:
      // What the GPU does to its tracing may come at any time.
      if (config_.tracing && random_.OneIn(512)) {
        Store(control_->tracing, static_cast<uint32_t>(random_.Below(3)));
      }
      if ((all && !config_.trap) ||
          (restarts_ < config_.restarts && random_.OneIn(2000))) {
        Say(random_.OneIn(4) ? EdgeCommand::kLeave : EdgeCommand::kHalt);
      }
      return;
    case EdgeCommand::kHalt:
      if (Load(report_->halted) == 1) Say(EdgeCommand::kLeave);
      return;
    case EdgeCommand::kLeave:
      if (!AllLeft()) return;
      CheckHeads();
      if (all && !config_.trap) return;
      ++restarts_;
      Start();
      return;
  }
}

void EdgeWorld::CheckHeads() {
  for (const auto& ring : rings_) {
    for (uint32_t warp = 0; warp < config_.event_warps; ++warp) {
      const EdgeHead& head = table_->HeadsOf(ring->index / kEdgeLanes,
                                             warp)[ring->index % kEdgeLanes];
      if (ring->violates) continue;
      if ((head.flags & kEdgeClosed) != 0) {
        Fail(fmt::format("ring {} is taken for one that broke the protocol",
                         ring->spec.id));
      }
      if (head.next <= config_.event_warps) continue;
      const uint64_t last = head.next - config_.event_warps;
      const shm::GpuRing& of = ring->event.kernel->ring();
      if (of.LoadCompletedSequence(of.layout().SlotOf(Sequence(last))) < last) {
        Fail(fmt::format("ring {}: event {} was taken and has not ended",
                         ring->spec.id, last));
      }
    }
  }
}

void EdgeWorld::CheckTotals() {
  for (const auto& ring : rings_) {
    if (ring->violates) continue;
    const simt::EventTotals& totals = table_->totals[ring->index];
    const simt::EventTotals& shown = report_->totals[ring->index];
    if (totals.launched + totals.refused != config_.events ||
        totals.done + totals.failed != config_.events ||
        totals.refused != ring->refused || totals.failed != ring->failed ||
        std::memcmp(&totals, &shown, sizeof(totals)) != 0) {
      Fail(fmt::format(
          "ring {}: {} launched, {} done, {} failed, {} refused of {} events; "
          "the report says {}, {}, {} and {}",
          ring->spec.id, totals.launched, totals.done, totals.failed,
          totals.refused, config_.events, shown.launched, shown.done,
          shown.failed, shown.refused));
    }
    if (report_->violations[ring->index] != 0) {
      Fail(fmt::format("ring {} is blamed for nothing", ring->spec.id));
    }
  }
}

// --- The devices.

void EdgeWorld::DeviceStep(Ring& ring) {
  shm::DeviceRing& device = ring.device();
  if (ring.violates) return;
  if (config_.violator && ring.spec.id == 0 &&
      device.last_committed().value() > 4) {
    ring.violates = true;
    expected_ -= config_.events - device.last_consumed().value();
    return device.RingWith(3 * config_.entries + 1);
  }
  if (const auto completion = device.Poll()) {
    std::string wrong = ring.Check(*completion);
    if (!wrong.empty()) Fail(std::move(wrong));
    device.Consume();
    ++completed_;
  }
  const uint64_t next = device.last_committed().value() + 1;
  if (next <= config_.events && device.free_slots() > 0 && random_.OneIn(3)) {
    ring.Commit();
  }
  if (random_.OneIn(2)) device.RingDoorbell();
}

absl::Status EdgeWorld::Run() {
  Start();
  uint64_t seen = 0;
  for (uint64_t turns = 0; failed_.ok(); ++turns) {
    gpu_.Step();
    Advance();
    if (random_.OneIn(4)) HostStep();
    if (random_.OneIn(4)) DeviceStep(*rings_[random_.Below(rings_.size())]);
    if (trapped_) return failed_;
    if (!config_.trap && AllEnded() && command_ == EdgeCommand::kLeave &&
        AllLeft()) {
      CheckHeads();
      CheckTotals();
      return failed_;
    }
    if (completed_ != seen) turns = 0;
    seen = completed_;
    if (turns > config_.patience) {
      return absl::AbortedError(fmt::format(
          "seed {}: nothing happens any more: {} of {} events "
          "have ended, {} executions have relayed",
          config_.seed, completed_, expected_, table_->figures.relays));
    }
  }
  return failed_;
}

// --- Time.

bool EdgeWorld::IsHost(uint64_t address) const {
  const auto within = [address](const void* begin, uint64_t bytes) {
    return address - reinterpret_cast<uint64_t>(begin) < bytes;
  };
  return within(control_, sizeof(*control_)) ||
         within(report_, sizeof(*report_)) ||
         std::ranges::any_of(devices_, [&](const auto& device) {
           const shm::Aperture& in = device->memory->submission();
           const shm::Aperture& out = device->memory->completion();
           return within(in.At(0), in.size()) || within(out.At(0), out.size());
         });
}

absl::StatusOr<std::vector<WireTrip>> EdgeWorld::TimeEvents(bool launched,
                                                            uint32_t count,
                                                            double early) {
  constexpr double kRest = 3000;  // nanoseconds between two events
  constexpr double kGoldenRatio = 0.6180339887498949;
  Ring& ring = *rings_[launched ? 3 : 2];
  shm::DeviceRing& device = ring.device();
  Start();
  std::vector<WireTrip> trips;
  // Dispatchers begin; each warp has one event that does not count.
  const uint32_t warm = config_.event_warps;
  double next = 20 * kRest;
  const double round = 16 * wire_->costs().host_read;
  for (uint32_t n = 0; failed_.ok() && trips.size() < count;) {
    gpu_.Step();
    Advance();
    if (const auto completion = device.Poll()) {
      if (completion->status != 0) Fail("an event failed");
      device.Consume();
      if (!wire_->done()) Fail("an event ended before it was complete");
      if (n++ >= warm && failed_.ok()) trips.push_back(*wire_->done());
      const double phase = n * kGoldenRatio;
      next =
          wire_->now() + kRest + (phase - static_cast<uint64_t>(phase)) * round;
    } else if (device.in_flight() != 0 && wire_->now() > next + 1e6) {
      return absl::AbortedError("an event does not end");
    }
    if (device.in_flight() != 0 || wire_->now() < next - early) continue;
    const EventKernel& event = *ring.event.kernel;
    if (device.last_committed() == device.last_rung()) {
      const uint32_t code = 0;
      std::memcpy(device.parameters(), &code, sizeof(code));
      device.Commit();
    }
    if (event.ring().completion_slot(device.last_committed())->sequence ==
        device.last_committed().value()) {
      Fail("an event ended before it rang");
    }
    if (wire_->now() < next) continue;
    device.RingDoorbell();
    wire_->Rung(&event.memory()
                     .submission()
                     .doorbells()[event.ring().layout().doorbell.value()],
                event.ring().completion_slot(device.last_rung()));
  }
  if (!failed_.ok()) return failed_;
  return trips;
}

}  // namespace carillon::gpud::cuda
