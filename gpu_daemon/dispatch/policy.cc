#include "gpu_daemon/dispatch/policy.h"

#include <algorithm>
#include <ranges>

#include "absl/status/status.h"
#include "base/status.h"
#include "fmt/format.h"
#include "gpu_daemon/dispatch/device_parties.h"
#include "gpu_daemon/dispatch/kmu.h"
#include "sim/timing/edge/reservation.h"
#include "sim/timing/sharing/device_turns.h"

namespace carillon::gpud {
namespace {

using Kdu = std::span<const std::unique_ptr<KernelLaunch>>;
using sim::timing::DeviceTurns;

bool EventsWait(Kdu kdu) {
  return std::ranges::any_of(kdu, [](const auto& launch) {
    return launch->is_event() && launch->has_blocks();
  });
}
bool AnyEvent(Kdu kdu) {
  return std::ranges::any_of(
      kdu, [](const auto& launch) { return launch->is_event(); });
}

// Highest first, and the oldest of those.
void SortByPriority(std::vector<Candidate>& order) {
  std::sort(order.begin(), order.end(),
            [](const Candidate& a, const Candidate& b) {
              if (a.launch->priority != b.launch->priority) {
                return a.launch->priority > b.launch->priority;
              }
              return a.launch->arrival < b.launch->arrival;
            });
}

// As today's GPUs without priorities (EDGE II): the oldest launch that fits.
class FirstCome final : public SharingPolicy {
 public:
  using SharingPolicy::SharingPolicy;
  void Rank(const KmuView& view, std::vector<Candidate>& order) override {
    for (const auto& launch : view.kdu) {
      if (launch->has_blocks()) order.push_back({launch.get(), {}});
    }
  }
};

// The highest priority that fits, the oldest among equals; nothing that runs is
// disturbed (EDGE II).
class Priority final : public SharingPolicy {
 public:
  using SharingPolicy::SharingPolicy;
  uint32_t Precedence(const KernelLaunch& launch) const override {
    return launch.priority;
  }
  void Rank(const KmuView& view, std::vector<Candidate>& order) override {
    for (const auto& launch : view.kdu) {
      if (launch->has_blocks()) order.push_back({launch.get(), {}});
    }
    SortByPriority(order);
  }
};

// Draining (EDGE IV-B; P1 and P2 of the thesis, 5.4.1): blocks of background
// kernels that run go on, but none starts while an event waits for a place (P1),
// or until all events have ended (P2).
class Draining final : public SharingPolicy {
 public:
  enum class Until { kNoEventWaits, kAllEventsHaveEnded };
  Draining(const PolicyInfo& info, Until until)
      : SharingPolicy(info), until_(until) {}
  uint32_t Precedence(const KernelLaunch& launch) const override {
    return (launch.is_event() ? kPriorities : 0) + launch.priority;
  }
  void Rank(const KmuView& view, std::vector<Candidate>& order) override {
    // Events without a KDU entry do not count: what has begun must be able to
    // end, to make room for them.
    const bool only_events = until_ == Until::kNoEventWaits
                                 ? EventsWait(view.kdu)
                                 : AnyEvent(view.kdu);
    for (const auto& launch : view.kdu) {
      if (!launch->has_blocks()) continue;
      if (only_events && !launch->is_event()) continue;
      order.push_back({launch.get(), {}});
    }
    SortByPriority(order);
  }

 private:
  const Until until_;
};

// SMs of their own for events (EDGE IV-A), the last ones; each side by arrival.
// Each has its half of the KDU, so that neither keeps the other out.
class Reservation : public SharingPolicy {
 public:
  Reservation(const PolicyInfo& info, uint32_t sms, uint32_t reserved)
      : SharingPolicy(info), sms_(sms), reserved_(reserved) {}
  bool Admits(const KernelLaunch& launch, Kdu kdu) const override {
    const auto same = std::ranges::count_if(kdu, [&](const auto& other) {
      return other->is_event() == launch.is_event();
    });
    return static_cast<size_t>(same) < kKduEntries / 2;
  }
  void Rank(const KmuView& view, std::vector<Candidate>& order) override {
    for (const auto& launch : view.kdu) {
      if (!launch->has_blocks()) continue;
      if (!launch->is_event()) {
        order.push_back({launch.get(), others()});
        continue;
      }
      if (reserved_ != 0) order.push_back({launch.get(), own()});
      if (events_go_anywhere()) order.push_back({launch.get(), others()});
    }
  }

 protected:
  virtual bool events_go_anywhere() const { return false; }
  SmRange own() const { return {sms_ - reserved_, sms_}; }
  SmRange others() const { return {0, sms_ - reserved_}; }
  void set_reserved(uint32_t sms) { reserved_ = sms; }

 private:
  const uint32_t sms_;
  uint32_t reserved_;
};

// The same, of as many SMs as the events under way ask for (EDGE IV-A leaves it
// to future work; sim/timing/edge/reservation.h has the rule). Events go
// elsewhere, too, where there is room.
class DynamicReservation final : public Reservation {
 public:
  DynamicReservation(const PolicyInfo& info, uint32_t sms, uint32_t most)
      : Reservation(info, sms, 0),
        config_(ConfigOf(sms, most)),
        rule_(config_) {}
  bool needs_plan() const override { return true; }
  bool Plan(const KmuView& view) override {
    uint32_t events = 0;
    for (const auto& launch : view.kdu) events += launch->is_event();
    for (const PendingLaunches& pending : view.pending) {
      events += pending.events;
    }
    if (start_ns_ == 0) start_ns_ = view.now_ns;
    if (rule_.Advance(view.now_ns - start_ns_, events)) {
      set_reserved(rule_.sms());
    }
    return false;
  }

 private:
  // A cycle of the rule is a nanosecond here.
  static sim::timing::Config ConfigOf(uint32_t sms, uint32_t most) {
    sim::timing::Config config;
    config.sm.count = sms;
    config.edge.reservation = sim::timing::Reservation::kDynamic;
    config.edge.reserve_sms = most;
    config.edge.reserve_window = 1'000'000;
    config.edge.reserve_load = 4;
    config.edge.reserve_hold = 4;
    return config;
  }
  bool events_go_anywhere() const override { return true; }

  const sim::timing::Config config_;
  sim::timing::SmReservation rule_;
  Nanoseconds start_ns_ = 0;
};

// The GPU is one device's at a time (Gdev's contexts, GPES IV-C), by turns
// (sim/timing/sharing/device_turns.h). Within a turn, by arrival.
class Exclusive final : public SharingPolicy {
 public:
  using SharingPolicy::SharingPolicy;
  bool Admits(const KernelLaunch& launch, Kdu) const override {
    return turns_.owner() == TurnsDeviceOf(launch.memory.get());
  }
  bool needs_plan() const override { return true; }
  bool Plan(const KmuView& view) override {
    parties_.Clear();
    for (const auto& launch : view.kdu) {
      DeviceTurns::Party& party = parties_.Of(launch->memory.get());
      // Also one that is to be cancelled and still runs.
      (launch->begun() ? party.begun : party.waits) = true;
    }
    for (const PendingLaunches& pending : view.pending) {
      parties_.Of(pending.device).waits = true;
    }
    return turns_.Advance(view.now_ns, parties_.all());
  }
  void Rank(const KmuView& view, std::vector<Candidate>& order) override {
    for (const auto& launch : view.kdu) {
      if (!launch->has_blocks()) continue;
      // What has begun under another policy ends first, whose ever it is.
      const bool its_turn =
          turns_.may_begin() &&
          turns_.owner() == TurnsDeviceOf(launch->memory.get());
      if (launch->begun() || its_turn) order.push_back({launch.get(), {}});
    }
  }

 private:
  DeviceTurns turns_{kTurnNs};
  DeviceParties parties_;  // scratch
};

// GPES (RTAS'15): each kernel is sliced (IV-A, Algorithm 1, over half-open
// ranges, so that no block runs twice), and one slice at a time has the GPU,
// whoever's it is; when it has ended, the highest priority's is next (IV-C). A
// slice is what the GPU holds at once, as the paper advises (V-B).
class Gpes final : public SharingPolicy {
 public:
  Gpes(const PolicyInfo& info, const GpuModel& gpu)
      : SharingPolicy(info), gpu_(gpu) {}
  uint32_t Precedence(const KernelLaunch& launch) const override {
    return launch.priority;
  }
  void Rank(const KmuView& view, std::vector<Candidate>& order) override {
    KernelLaunch* next = nullptr;
    bool busy = false;
    for (const auto& launch : view.kdu) {
      if (launch->slice_end != 0 && launch->has_blocks()) {
        if (launch->next_block < launch->slice_end) {
          order.push_back({launch.get(), {}});
        }
        return;
      }
      busy |= launch->running() != 0;
      if (!launch->has_blocks()) continue;
      if (next == nullptr || launch->priority > next->priority) {
        next = launch.get();
      }
    }
    if (busy || next == nullptr) return;
    next->slice_end =
        std::min(next->kmd.blocks(),
                 next->next_block + SmOccupancy(gpu_).Capacity(next->cost));
    order.push_back({next, {}});
  }

 private:
  const GpuModel gpu_;
};

absl::StatusOr<uint32_t> ReservedSms(std::string_view name, const GpuModel& gpu,
                                     uint32_t reserved) {
  if (reserved == 0) reserved = gpu.sms / 2;
  if (reserved == 0 || reserved >= gpu.sms) {
    return absl::InvalidArgumentError(
        fmt::format("sharing policy '{}': {} of {} SMs for events: each side "
                    "needs one; set another --reserve-sms (reserve_sms), or "
                    "have more --sms (sms)",
                    name, reserved, gpu.sms));
  }
  return reserved;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SharingPolicy>> MakePolicy(
    std::string_view name, const GpuModel& gpu, uint32_t reserved_sms) {
  RETURN_IF_ERROR(CheckPolicy(Sharer::kKmu, name));
  if (name.empty()) name = DefaultPolicy(Sharer::kKmu);
  const PolicyInfo& info = *FindPolicy(name);
  if (name == kFirstComePolicy) return std::make_unique<FirstCome>(info);
  if (name == kPriorityPolicy) return std::make_unique<Priority>(info);
  if (name == kExclusivePolicy) return std::make_unique<Exclusive>(info);
  if (name == kGpesPolicy) return std::make_unique<Gpes>(info, gpu);
  if (name == kP1Policy) {
    return std::make_unique<Draining>(info, Draining::Until::kNoEventWaits);
  }
  if (name == kP2Policy) {
    return std::make_unique<Draining>(info,
                                      Draining::Until::kAllEventsHaveEnded);
  }
  ASSIGN_OR_RETURN(const uint32_t sms, ReservedSms(name, gpu, reserved_sms));
  if (name == kReservationPolicy) {
    return std::make_unique<Reservation>(info, gpu.sms, sms);
  }
  if (name == kDynamicReservationPolicy) {
    return std::make_unique<DynamicReservation>(info, gpu.sms, sms);
  }
  return absl::InternalError(
      fmt::format("policy '{}' is of the table, and of no class", name));
}

}  // namespace carillon::gpud
