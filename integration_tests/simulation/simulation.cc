#include "integration_tests/simulation/simulation.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "fmt/format.h"

namespace carillon::simulation {
namespace {

constexpr std::array<std::string_view, kSteps> kStepNames = {
    "poll",     "run",    "commit",      "ring",
    "schedule", "take",   "register",    "unregister",
    "spoil",    "jump",   "device_dies", "device_detaches",
    "returns",  "notice", "gpud_dies",   "resume"};
// The relative frequency of each step. A seed leaves some of the rare ones out.
constexpr std::array<uint32_t, kSteps> kWeights = {
    200, 200, 200, 150, 10, 200, 6, 6, 10, 2, 4, 4, 20, 20, 3, 20};
constexpr uint32_t kRare = 10;
constexpr size_t kDevices = 3;
constexpr size_t kMaxRings = 3;
constexpr uint32_t kFirstGpudPid = 1'000'000;

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = state_ += 0x9e37'79b9'7f4a'7c15;
    z = (z ^ z >> 30) * 0xbf58'476d'1ce4'e5b9;
    z = (z ^ z >> 27) * 0x94d0'49bb'1331'11eb;
    return z ^ z >> 31;
  }
  uint64_t Below(uint64_t limit) { return Next() % limit; }

 private:
  uint64_t state_;
};

class Trace {
 public:
  void Add(uint64_t word) {
    hash_ = (hash_ ^ word) * 0x100'0000'01b3;
    hash_ ^= hash_ >> 29;
  }
  void Add(const shm::FlightRecording& recording) {
    for (const shm::FlightRecord& record : recording.records) {
      Add(record.sequence);
      Add(record.generation);
      Add(record.status);
      Add(record.event_id);
      Add(static_cast<uint64_t>(record.step));
      Add(static_cast<uint64_t>(record.state));
    }
  }
  uint64_t hash() const { return hash_; }

 private:
  uint64_t hash_ = 0xcbf2'9ce4'8422'2325;
};

class World {
 public:
  World(uint64_t seed, const SimulatedGpud::Surroundings& surroundings)
      : surroundings_(surroundings), random_(seed), weights_(kWeights) {
    for (uint32_t& weight : weights_) {
      if (weight <= kRare && random_.Below(3) == 0) weight = 0;
    }
    StartGpud();
    for (size_t i = 0; i < kDevices; ++i) Return(i);
  }

  void Run(uint32_t steps) {
    for (uint32_t i = 0; i < steps && problems_.empty(); ++i) {
      const Step step = Choose();
      trace_.Add(static_cast<uint64_t>(step));
      ++steps_[static_cast<size_t>(step)];
      Do(step);
    }
    Settle();
  }

  Outcome TakeOutcome() {
    recordings_.push_back(gpud_->Recording());
    for (auto& seat : seats_) {
      if (seat.device) recordings_.push_back(seat.device->recording());
    }
    for (const auto& recording : recordings_) trace_.Add(recording);
    Outcome outcome{.trace = trace_.hash(),
                    .steps = steps_,
                    .ledger = ledger::Check(recordings_),
                    .problems = std::move(problems_)};
    return outcome;
  }

 private:
  // A device, or what it has left.
  struct Seat {
    std::unique_ptr<SimulatedDevice> device;
    bool orphan = false;  // its gpud is dead
    bool broken = false;  // its doorbell has jumped: it will be evicted
    // The session of a dead device, as long as gpud does not know of the death.
    std::shared_ptr<gpud::Session> unnoticed;
  };

  void Problem(std::string what) { problems_.push_back(std::move(what)); }
  void Expect(const absl::Status& status, std::string_view what) {
    if (!status.ok()) {
      Problem(fmt::format("{}: {}", what, std::string(status.message())));
    }
  }

  void StartGpud() {
    gpud_ = std::make_unique<SimulatedGpud>(surroundings_,
                                            kFirstGpudPid + gpuds_, gpuds_);
    ++gpuds_;
  }

  Step Choose() {
    uint32_t sum = 0;
    for (const uint32_t weight : weights_) sum += weight;
    auto at = static_cast<uint32_t>(random_.Below(sum));
    for (size_t i = 0; i < kSteps; ++i) {
      if (at < weights_[i]) return Step(i);
      at -= weights_[i];
    }
    return Step::kPoll;
  }

  // Chooses any device; its seat may be empty.
  Seat& AnySeat() { return seats_[random_.Below(kDevices)]; }
  std::optional<size_t> AnyRing(const SimulatedDevice& device) {
    if (device.rings() == 0) return std::nullopt;
    return random_.Below(device.rings());
  }

  void Do(Step step) {
    switch (step) {
      case Step::kPoll:
        trace_.Add(gpud_->Poll());
        return;
      case Step::kRun:
        if (gpud_->pending() > 0) {
          gpud_->RunPending(random_.Below(gpud_->pending()));
        }
        return;
      case Step::kNotice:
        Notice();
        return;
      case Step::kGpudDies:
        KillGpud();
        return;
      case Step::kDeviceReturns:
        Return(random_.Below(kDevices));
        return;
      default:
        break;
    }
    Seat& seat = AnySeat();
    if (seat.device == nullptr) return;
    switch (step) {
      case Step::kDeviceDies:
        Die(seat);
        return;
      case Step::kResume:
        Resume(seat);
        return;
      case Step::kDeviceDetaches:
        if (!seat.orphan) Detach(seat);
        return;
      case Step::kRegister:
        if (!seat.orphan && !seat.device->closed()) Register(*seat.device);
        return;
      default:
        break;
    }
    if (const auto ring = AnyRing(*seat.device)) OnRing(step, seat, *ring);
  }

  void OnRing(Step step, Seat& seat, size_t ring) {
    SimulatedDevice& device = *seat.device;
    const bool served = !seat.orphan && !seat.broken && !device.closed();
    switch (step) {
      case Step::kCommit:
        for (uint64_t n = 1 + random_.Below(4);
             n > 0 && device.free_slots(ring) > 0; --n) {
          device.Commit(ring);
        }
        return;
      case Step::kRing:
        device.RingDoorbell(ring);
        return;
      case Step::kTake:
        Take(device, ring, 1 + static_cast<uint32_t>(random_.Below(8)));
        return;
      case Step::kSchedule:
        if (served && device.uncommitted(ring) > 0) {
          Expect(device.Schedule(ring), "schedule");
        }
        return;
      case Step::kUnregister:
        if (served) Expect(device.Unregister(ring), "unregister");
        return;
      case Step::kSpoil:
        if (device.free_slots(ring) == 0) return;
        device.Commit(ring);
        device.SpoilLastEntry(ring, random_.Next());
        return;
      case Step::kJump:
        if (!served) return;
        device.RingDoorbell(ring);
        device.JumpDoorbell(ring,
                            1000 + static_cast<uint32_t>(random_.Below(1000)));
        seat.broken = true;
        return;
      default:
        return;
    }
  }

  void Register(SimulatedDevice& device) {
    if (device.rings() == kMaxRings) return;
    Expect(device.Register(1u << random_.Below(5)), "register");
  }

  void Take(SimulatedDevice& device, size_t ring, uint32_t most) {
    const auto taken = device.Take(ring, most);
    Expect(taken.status(), "take");
    if (taken.ok()) trace_.Add(*taken);
  }

  void TakeAll(SimulatedDevice& device) {
    for (size_t ring = 0; ring < device.rings(); ++ring) {
      Take(device, ring, ~0u);
    }
  }

  void Bury(Seat& seat) {
    recordings_.push_back(seat.device->recording());
    seat.device.reset();
    seat.orphan = seat.broken = false;
  }

  void Die(Seat& seat) {
    if (!seat.orphan) seat.unnoticed = seat.device->session();
    Bury(seat);
  }

  void Detach(Seat& seat) {
    seat.device->Detach(*gpud_);
    Bury(seat);
  }

  void Return(size_t index) {
    Seat& seat = seats_[index];
    if (seat.device != nullptr || seat.unnoticed != nullptr) return;
    seat.device = std::make_unique<SimulatedDevice>(
        *gpud_, fmt::format("device{}", index), ++pids_);
    Register(*seat.device);
    Register(*seat.device);
  }

  void Notice() {
    for (Seat& seat : seats_) {
      if (const auto session = std::exchange(seat.unnoticed, nullptr)) {
        gpud_->sessions().End(session, gpud::SessionEnd::kDied);
      }
    }
    trace_.Add(gpud_->EvictViolators());
    for (Seat& seat : seats_) {
      if (seat.device == nullptr || seat.orphan || !seat.device->closed()) {
        continue;
      }
      TakeAll(*seat.device);
      seat.device->NoteClosed();
      Bury(seat);
    }
  }

  void KillGpud() {
    recordings_.push_back(gpud_->Recording());
    for (Seat& seat : seats_) {
      seat.unnoticed.reset();
      if (seat.device == nullptr) continue;
      seat.orphan = true;
      seat.device->ForgetGpud();
    }
    gpud_.reset();
    StartGpud();
  }

  void Resume(Seat& seat) {
    if (!seat.orphan) return;
    TakeAll(*seat.device);
    // The gpud that died had evicted it, and that stays so.
    if (seat.device->closed()) {
      seat.device->NoteClosed();
      Bury(seat);
      return;
    }
    Expect(seat.device->Resume(*gpud_), "resume");
    seat.orphan = seat.broken = false;
  }

  // Without further faults everything that was rung must end, and nothing may
  // be left over.
  void Settle() {
    for (Seat& seat : seats_) {
      if (seat.device != nullptr) Resume(seat);
    }
    for (int round = 0; round < 1000 && problems_.empty(); ++round) {
      bool busy = gpud_->Poll();
      while (gpud_->pending() > 0) {
        gpud_->RunPending(0);
        busy = true;
      }
      Notice();
      for (Seat& seat : seats_) {
        if (seat.device == nullptr) continue;
        TakeAll(*seat.device);
        for (size_t ring = 0; ring < seat.device->rings(); ++ring) {
          busy = busy || seat.device->in_flight(ring) > 0;
        }
      }
      if (!busy) break;
    }
    for (Seat& seat : seats_) {
      if (seat.device == nullptr) continue;
      for (size_t ring = 0; ring < seat.device->rings(); ++ring) {
        if (const uint64_t left = seat.device->in_flight(ring); left > 0) {
          Problem(fmt::format("{} events never end", left));
        }
      }
      if (!problems_.empty()) return;
      while (seat.device->rings() > 0) {
        Expect(seat.device->Unregister(0), "unregister");
      }
      Detach(seat);
    }
    if (gpud_->ekt().used() != 0) {
      Problem(fmt::format("{} entries of the EKT are left over",
                          gpud_->ekt().used()));
    }
    if (!gpud_->sessions().All().empty()) Problem("a session is left over");
  }

  const SimulatedGpud::Surroundings& surroundings_;
  Random random_;
  std::array<uint32_t, kSteps> weights_;
  std::unique_ptr<SimulatedGpud> gpud_;
  uint32_t gpuds_ = 0;
  uint32_t pids_ = 0;
  std::array<Seat, kDevices> seats_;
  std::vector<shm::FlightRecording> recordings_;  // of those that are gone
  Trace trace_;
  std::array<uint64_t, kSteps> steps_{};
  std::vector<std::string> problems_;
};

}  // namespace

std::string_view StepName(Step step) {
  return kStepNames[static_cast<size_t>(step)];
}

Outcome Simulate(uint64_t seed, uint32_t steps,
                 const SimulatedGpud::Surroundings& surroundings) {
  World world(seed, surroundings);
  world.Run(steps);
  return world.TakeOutcome();
}

}  // namespace carillon::simulation
