// Both ends of a link, the devices, the GPU and the wire in one thread, in an
// order that a seed decides: connections are cut, stall, or go silent at any
// byte, either end dies at any step, rings come and go, old hosts live on. What
// is to hold is judged by a ledger that knows events only.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "mesh/far_end.h"
#include "mesh/near_end.h"

namespace carillon::mesh {
namespace {

using shm::EventState;
using shm::Sequence;

constexpr Nanoseconds kMs = 1'000'000;
constexpr int kSeeds = 100;
// Rings from this one on have events that are larger than a frame.
constexpr uint64_t kLargeRings = 1'000'000;
constexpr size_t kLargeBytes = 150'000;

// Rings of 1 to 8 slots.
RingLimits LimitsOf(RingId ring) {
  return {1u << ring.value() % 4, kLargeBytes + 64, kLargeBytes + 64};
}
// What has ended before: some rings are about to pass 2^32, or near the end.
uint64_t FirstOf(RingId ring) {
  switch (ring.value() % 5) {
    case 2:
      return (1ull << 32) - 5;
    case 4:
      return ~0ull - 100'000;
    default:
      return 0;
  }
}

// One event, whose text says which it is. Some rings have large ones, too.
std::string EventText(uint64_t incarnation, RingId ring, uint64_t number) {
  std::string text = fmt::format("event {} of ring {} of {}", number,
                                 ring.value(), incarnation);
  if (ring.value() >= kLargeRings && number % 3 == 0) {
    text.resize(kLargeBytes - number % 1'000, 'x');
  }
  return text;
}
std::string OutputText(const std::string& event) { return "done: " + event; }
End EndOf(RingId ring, uint64_t number) {
  return {static_cast<EventState>(1 + number % 3),
          static_cast<uint32_t>(number * 31 + ring.value()),
          {}};
}

// What became of each event, by its text.
class Ledger {
 public:
  struct Entry {
    int deaths = 0;  // of far ends, before it was rung
    int runs = 0;
    int ends = 0;          // taken by the device
    int aborts = 0;        // at the near host
    bool dropped = false;  // at the GPU's host, before it was done
  };

  // `deaths`: of far ends so far.
  void Ring(const std::string& event, int deaths) {
    if (!entries_.emplace(event, Entry{.deaths = deaths}).second) {
      Wrong(event, "rung twice");
    }
  }
  void Run(const std::string& event, int deaths) {
    Entry& entry = Of(event);
    if (entry.dropped) Wrong(event, "run after its abort");
    if (++entry.runs > 1 + deaths - entry.deaths) Wrong(event, "run too often");
  }
  void End(const std::string& event, const std::string& output) {
    Entry& entry = Of(event);
    if (output != OutputText(event)) Wrong(event, "output " + output);
    if (entry.runs == 0) Wrong(event, "ended and not run");
    if (++entry.ends + entry.aborts > 1) Wrong(event, "ended twice");
  }
  void Abort(const std::string& event) {
    Entry& entry = Of(event);
    if (++entry.aborts + entry.ends > 1) Wrong(event, "aborted after its end");
  }
  void Drop(const std::string& event) { Of(event).dropped = true; }
  void ExpectAllEnded() {
    for (const auto& [event, entry] : entries_) {
      if (entry.ends + entry.aborts != 1) Wrong(event, "lost");
    }
  }
  void Wrong(const std::string& event, const std::string& what) {
    if (wrong_.size() < 5) {
      wrong_.push_back(event.substr(0, 40) + ": " + what.substr(0, 200));
    }
  }

  const std::vector<std::string>& wrong() const { return wrong_; }
  size_t size() const { return entries_.size(); }
  int runs() const { return Sum(&Entry::runs); }
  int ends() const { return Sum(&Entry::ends); }
  int aborts() const { return Sum(&Entry::aborts); }

 private:
  Entry& Of(const std::string& event) {
    const auto found = entries_.find(event);
    if (found != entries_.end()) return found->second;
    Wrong(event, "was never rung");
    return entries_[event];
  }
  int Sum(int Entry::*count) const {
    int sum = 0;
    for (const auto& [event, entry] : entries_) sum += entry.*count;
    return sum;
  }

  std::map<std::string, Entry> entries_;
  std::vector<std::string> wrong_;
};

// One direction of a connection.
struct Pipe {
  std::deque<std::pair<Nanoseconds, std::string>> parts;  // when they arrive
  Nanoseconds last = 0;

  void Write(const std::string& text, Nanoseconds at) {
    last = std::max(last, at);
    parts.emplace_back(last, text);
  }
  std::string Read(Nanoseconds now, size_t most) {
    std::string text;
    while (text.size() < most && !parts.empty() && parts.front().first <= now) {
      std::string& front = parts.front().second;
      const size_t some = std::min(front.size(), most - text.size());
      text += front.substr(0, some);
      front.erase(0, some);
      if (front.empty()) parts.pop_front();
    }
    return text;
  }
  // Only so many bytes, of some part, still arrive. Whether they end amid a
  // frame.
  bool Truncate(uint64_t random) {
    if (parts.empty()) return false;
    parts.resize(1 + random % parts.size());
    std::string& back = parts.back().second;
    const size_t whole = back.size();
    back.resize(random / 7 % (whole + 1));
    const bool amid = !back.empty() && back.size() < whole;
    if (back.empty()) parts.pop_back();
    return amid;
  }
  // Nothing arrives before that.
  void Stall(Nanoseconds until) {
    last = std::max(last, until);
    for (auto& [at, text] : parts) at = std::max(at, until);
  }
};

struct Connection {
  Pipe to_far;
  Pipe to_near;
  bool carries = true;  // else bytes vanish, and nobody is told
  bool closed = false;  // both ends are told
};

// The memory of a device's ring, which outlives the near end.
struct DeviceRing {
  explicit DeviceRing(RingId id)
      : limits(LimitsOf(id)), rung(FirstOf(id)), stored(rung) {}

  std::string& SlotOf(uint64_t number) { return slots[number % limits.slots]; }

  RingLimits limits;
  uint64_t rung;
  uint64_t stored;
  std::map<uint64_t, std::string> slots;
};

struct Faults {
  bool cuts = false;
  bool near_deaths = false;
  bool far_deaths = false;
  bool rings_come_and_go = false;
  bool rings_given_up = false;  // by the far host
  bool replaced_hosts = false;
  bool large_events = false;
  Nanoseconds lease = 1'000'000 * kMs;
};

class Simulation {
 public:
  Simulation(uint64_t seed, Faults faults)
      : faults_(faults),
        most_read_(faults.large_events ? 60'000 : 200),
        random_(seed),
        gpu_(this) {
    MakeFarEnd();
    AddNear();
  }

  void Run(int steps) {
    for (int i = 0; i < steps && ledger_.wrong().empty(); ++i) Step(true);
    // From here on nothing breaks, and no more is rung.
    for (int i = 0; i < 200'000 && ledger_.wrong().empty() && !AllQuiet();
         ++i) {
      Step(false);
    }
    ledger_.ExpectAllEnded();
    ExpectNoRingLeftOver();
  }

  // What happened, of all seeds.
  struct Counts {
    int openings = 0;
    int losses = 0;
    int fenced = 0;
    int far_losses = 0;  // rings
    int refused_as_lost = 0;
    int refused_as_late = 0;
    int refused_rings = 0;
    int given_up_rings = 0;
    int near_silences = 0;
    int far_silences = 0;
    int cuts_amid_frames = 0;
  };

  Ledger& ledger() { return ledger_; }
  const Counts& counts() const { return counts_; }

 private:
  // A near host: its devices' rings, and the near end that lives now.
  struct Near : NearHost {
    Near(Simulation* simulation, uint64_t incarnation)
        : simulation(simulation),
          incarnation(incarnation),
          ring_ids(simulation->faults_.large_events ? kLargeRings : 0) {}

    void ReadEvent(RingId ring, Sequence number, std::string* to) override {
      *to += rings.at(ring).SlotOf(number.value());
    }
    bool TakeEnd(RingId ring, Sequence number, const mesh::End& end) override {
      const mesh::End right = EndOf(ring, number.value());
      if (end.state != right.state || end.status != right.status) {
        simulation->ledger_.Wrong(EventText(incarnation, ring, number.value()),
                                  "another state");
      }
      to_store.push_back({ring, number, std::string(end.output)});
      return false;
    }
    void LoseRing(RingId id, const std::string& why, bool) override {
      if (why.find("gives up") != std::string::npos) {
        ++simulation->counts_.given_up_rings;
      }
      if (why.find("no place today") == std::string::npos) {
        simulation->ledger_.Wrong("a ring was refused", why);
      }
      AbortAll(id, rings.at(id));
      rings.erase(id);
    }
    void LoseLink(const std::string& why) override {
      lost_because = why;
      for (auto& [id, ring] : rings) AbortAll(id, ring);
      rings.clear();
    }
    void AbortAll(RingId id, DeviceRing& ring) {
      for (uint64_t n = ring.stored + 1; n <= ring.rung; ++n) {
        simulation->ledger_.Abort(EventText(incarnation, id, n));
      }
      std::erase_if(to_store,
                    [&](const auto& each) { return each.ring == id; });
    }

    struct ToStore {
      RingId ring;
      Sequence number;
      std::string output;
    };

    Simulation* const simulation;
    const uint64_t incarnation;
    uint64_t ring_ids;
    std::map<RingId, DeviceRing> rings;
    std::unique_ptr<NearEnd> end;
    std::shared_ptr<Connection> connection;
    Epoch epoch;
    std::optional<Out> chosen;  // about to be written
    std::deque<ToStore> to_store;
    std::string lost_because;
  };

  // The GPU's host: rings as a far end's SDK has them.
  struct Gpu : FarHost {
    explicit Gpu(Simulation* simulation) : simulation(simulation) {}

    struct GpuRing {
      RingSerial serial;
      RingLimits limits;
      uint64_t accepted = 0;
      uint64_t done = 0;
      uint64_t freed = 0;
      std::map<uint64_t, std::string> slots;

      std::string& SlotOf(uint64_t number) {
        return slots[number % limits.slots];
      }
    };

    std::optional<absl::Status> MakeRing(RingId ring, RingSerial serial,
                                         const RingLimits& limits,
                                         Sequence last) override {
      if (simulation->faults_.rings_come_and_go && simulation->OneIn(10)) {
        ++simulation->counts_.refused_rings;
        return absl::ResourceExhaustedError("no place today");
      }
      rings[ring] = {serial,       limits,       last.value(),
                     last.value(), last.value(), {}};
      return absl::OkStatus();
    }
    void RunEvent(RingId ring, Sequence number,
                  std::string_view event) override {
      GpuRing& at = rings.at(ring);
      if (number.value() != at.accepted + 1 ||
          at.accepted - at.freed >= at.limits.slots) {
        simulation->ledger_.Wrong(std::string(event), "in a slot of another");
      }
      at.accepted = number.value();
      at.SlotOf(number.value()) = event;
    }
    mesh::End ReadEnd(RingId ring, Sequence number,
                      std::string* output) override {
      *output += rings.at(ring).SlotOf(number.value());
      return EndOf(ring, number.value());
    }
    void Free(RingId ring, Sequence last) override {
      GpuRing& at = rings.at(ring);
      for (uint64_t n = at.freed + 1; n <= last.value(); ++n) {
        at.SlotOf(n) = "freed";
      }
      at.freed = last.value();
    }
    void DropRing(RingId ring, GoneReason why) override {
      if (why == GoneReason::kBroken) {
        simulation->ledger_.Wrong("the near end", "has broken a rule");
      }
      GpuRing& at = rings.at(ring);
      for (uint64_t n = at.done + 1; n <= at.accepted; ++n) {
        simulation->ledger_.Drop(at.SlotOf(n));
      }
      if (why == GoneReason::kLinkLost) ++simulation->counts_.far_losses;
      rings.erase(ring);
    }

    Simulation* const simulation;
    std::map<RingId, GpuRing> rings;
  };

  // A connection as the far host sees it.
  struct Accepted {
    std::shared_ptr<Connection> connection;
    FrameDecoder first;  // until its HELLO is there
    Epoch epoch;         // 0: it is not
    bool closing = false;
  };

  uint64_t Below(uint64_t limit) { return random_() % limit; }
  bool OneIn(uint64_t count) { return Below(count) == 0; }

  LinkOptions Options(std::string self, std::string peer,
                      uint64_t incarnation) const {
    return {.self = {"lab", std::move(self), "1", "kernels", incarnation},
            .peer = std::move(peer),
            .times = {.lease = faults_.lease}};
  }

  // Neither host's clock is the other one's, nor as fast; and who reads it may
  // use what he read a little later.
  Nanoseconds NearNow() {
    return 5'000'000 * kMs + now_ + now_ / 50 - Below(3);
  }
  Nanoseconds FarNow() {
    return 9'000'000 * kMs + now_ - now_ / 100 - Below(3);
  }

  void MakeFarEnd() {
    gpu_.rings.clear();
    done_.clear();
    far_chosen_.reset();
    far_ = std::make_unique<FarEnd>(Options("b", "a", 1), &gpu_, FarNow());
  }
  void MakeNearEnd(Near& near) {
    near.chosen.reset();
    near.to_store.clear();
    near.end = std::make_unique<NearEnd>(Options("a", "b", near.incarnation),
                                         &near, NearNow());
    for (const auto& [id, ring] : near.rings) {
      ASSERT_TRUE(near.end
                      ->AddRing(id, ring.limits, Sequence(ring.stored),
                                Sequence(ring.rung))
                      .ok());
    }
  }
  void AddNear() {
    nears_.push_back(std::make_unique<Near>(this, ++incarnations_));
    Near& near = *nears_.back();
    for (int i = 0; i < 2; ++i) {
      const RingId id(++near.ring_ids);
      near.rings.emplace(id, id);
    }
    MakeNearEnd(near);
  }

  void Step(bool trouble) {
    now_ += OneIn(20) ? Below(200 * kMs) : Below(kMs / 10);
    // Of old hosts, too.
    for (size_t i = 0; i < nears_.size(); ++i) StepNear(*nears_[i], trouble);
    StepFar();
    if (trouble) Break();
  }

  void StepNear(Near& near, bool trouble) {
    NearEnd& end = *near.end;
    const Nanoseconds now = NearNow();
    if (trouble && OneIn(2) && !end.is_lost() && !near.rings.empty()) {
      const auto at = std::next(near.rings.begin(),
                                static_cast<long>(Below(near.rings.size())));
      DeviceRing& ring = at->second;
      if (ring.rung - ring.stored < ring.limits.slots) {
        const std::string event =
            EventText(near.incarnation, at->first, ++ring.rung);
        ring.SlotOf(ring.rung) = event;
        ledger_.Ring(event, far_deaths_);
        end.Rang(at->first, Sequence(ring.rung));
      }
    }
    end.Tick(now);
    if (end.IsSilent(now)) {
      ++counts_.near_silences;
      HangUp(near);
    }
    if (end.is_lost()) {
      OnLost(near);
      return;
    }
    if (near.connection && near.connection->closed && OneIn(4)) HangUp(near);
    if (!near.connection && OneIn(4)) {
      // Which it refuses while something is not stored.
      const auto epoch = end.Open(now);
      if (epoch.ok()) {
        near.epoch = *epoch;
        near.connection = std::make_shared<Connection>();
        accepted_.push_back({.connection = near.connection});
        ++counts_.openings;
      }
    }
    if (near.connection && OneIn(2)) {
      const std::string bytes =
          near.connection->to_near.Read(now_, 1 + Below(most_read_));
      if (!bytes.empty()) {
        const absl::Status status = end.Receive(near.epoch, bytes, now);
        if (!status.ok()) {
          if (status.code() != absl::StatusCode::kAborted) {
            ledger_.Wrong("the far end", std::string(status.message()));
          }
          HangUp(near);
        }
      }
    }
    if (!near.to_store.empty() && OneIn(3)) {
      const Near::ToStore first = near.to_store.front();
      near.to_store.pop_front();
      const auto at = near.rings.find(first.ring);
      if (at != near.rings.end()) {
        const std::string event =
            EventText(near.incarnation, first.ring, first.number.value());
        ledger_.End(event, first.output);
        if (first.number.value() != at->second.stored + 1) {
          ledger_.Wrong(event, "ended out of order");
        }
        at->second.stored = first.number.value();
        end.Stored(first.ring, first.number);
      }
    }
    if (!near.chosen) {
      if (OneIn(2)) near.chosen = end.Poll(now);
    } else if (OneIn(2)) {
      if (end.IsCurrent(near.chosen->epoch) && near.connection) {
        Write(*near.connection, near.connection->to_far, near.chosen->bytes);
      }
      near.chosen.reset();
    }
  }

  void OnLost(Near& near) {
    HangUp(near);
    if (near.lost_because.empty()) return;
    const bool fenced =
        near.lost_because.find("has come after") != std::string::npos;
    ++(fenced ? counts_.fenced : counts_.losses);
    near.lost_because.clear();
    // Its host registers anew, but for one that has been replaced.
    if (&near == nears_.back().get()) AddNear();
  }

  void HangUp(Near& near) {
    near.end->Cut(near.epoch);
    if (near.connection) near.connection->closed = true;
    near.connection.reset();
  }

  void Write(Connection& connection, Pipe& pipe, const std::string& bytes) {
    if (!connection.carries || connection.closed) return;
    pipe.Write(bytes, now_ + Below(2 * kMs));
  }

  void StepFar() {
    const Nanoseconds now = FarNow();
    far_->Tick(now);
    for (Accepted& each : accepted_) {
      if (each.closing) {
        each.connection->closed = true;
        continue;
      }
      const std::string bytes =
          OneIn(2) ? each.connection->to_far.Read(now_, 1 + Below(most_read_))
                   : "";
      // What was sent before a connection was closed is still read, maybe
      // seconds later.
      if (each.connection->to_far.parts.empty() && bytes.empty() &&
          each.connection->closed && OneIn(4)) {
        each.closing = true;
        far_->Cut(each.epoch);
        continue;
      }
      if (bytes.empty()) {
        // A read that gives nothing.
      } else if (each.epoch == Epoch()) {
        Greet(each, bytes, now);
      } else {
        const absl::Status status = far_->Receive(each.epoch, bytes, now);
        if (!status.ok()) {
          ledger_.Wrong("the near end", std::string(status.message()));
        }
      }
      if (each.epoch == Epoch()) continue;
      // It writes to the newest connection, whatever it has chosen before.
      if (each.epoch == newest_ && OneIn(2)) {
        if (!far_chosen_) {
          far_chosen_ = far_->Poll(now);
        } else {
          if (far_->IsCurrent(far_chosen_->epoch)) {
            Write(*each.connection, each.connection->to_near,
                  far_chosen_->bytes);
          }
          far_chosen_.reset();
        }
      }
      if (each.epoch == newest_ && far_->IsSilent(now)) {
        ++counts_.far_silences;
        far_->Cut(each.epoch);
        each.closing = true;
      }
    }
    std::erase_if(accepted_, [](const Accepted& each) {
      return each.closing && each.connection->closed;
    });
    for (auto& [id, ring] : gpu_.rings) {
      if (ring.done == ring.accepted || !OneIn(3)) continue;
      std::string& slot = ring.SlotOf(++ring.done);
      ledger_.Run(slot, far_deaths_);
      slot = OutputText(slot);
      done_.push_back({id, ring.serial, Sequence(ring.done)});
    }
    // Which is told later, maybe of a ring that is gone.
    while (!done_.empty() && !OneIn(3)) {
      const auto [id, serial, number] = done_.front();
      done_.pop_front();
      far_->Done(id, serial, number);
    }
  }

  void Greet(Accepted& each, const std::string& bytes, Nanoseconds now) {
    each.first.Append(bytes);
    const auto first = each.first.Next();
    ASSERT_TRUE(first.ok()) << first.status();
    if (!first->has_value()) return;
    const auto answer = far_->Accept(std::get<Hello>(**first), now);
    if (const auto* refusal = std::get_if<Refusal>(&answer)) {
      if (refusal->code == RefusalCode::kLinkLost) ++counts_.refused_as_lost;
      if (refusal->why.find("a newer connection") != std::string::npos) {
        ++counts_.refused_as_late;
      }
      std::string frame;
      AppendFrame(*refusal, &frame);
      Write(*each.connection, each.connection->to_near, frame);
      // The near end hangs up when it has read that.
      each.first = {};
      each.epoch = Epoch(~0ull);
      return;
    }
    newest_ = each.epoch = std::get<Epoch>(answer);
    const absl::Status rest =
        far_->Receive(each.epoch, each.first.TakeRest(), now);
    if (!rest.ok()) ledger_.Wrong("the near end", rest.ToString());
  }

  void Break() {
    Near& near = *nears_.back();
    if (faults_.cuts && OneIn(60)) {
      // Some connection: closed at some byte, silent, or stalled.
      if (!accepted_.empty()) {
        Connection& cut = *accepted_[Below(accepted_.size())].connection;
        switch (Below(3)) {
          case 0:
            cut.closed = true;
            for (Pipe* pipe : {&cut.to_far, &cut.to_near}) {
              counts_.cuts_amid_frames += pipe->Truncate(random_());
            }
            break;
          case 1:
            cut.carries = false;
            break;
          default:
            cut.to_far.Stall(now_ + Below(4'000 * kMs));
            cut.to_near.Stall(now_ + Below(4'000 * kMs));
        }
      }
    }
    if (faults_.near_deaths && OneIn(150)) {
      HangUp(near);
      MakeNearEnd(near);
    }
    if (faults_.far_deaths && OneIn(300)) {
      ++far_deaths_;
      for (Accepted& each : accepted_) each.connection->closed = true;
      accepted_.clear();
      MakeFarEnd();
    }
    if (faults_.rings_come_and_go && OneIn(50)) {
      if (near.rings.size() > 1 && OneIn(2)) {
        const auto victim = near.rings.begin();
        near.AbortAll(victim->first, victim->second);
        near.end->RemoveRing(victim->first);
        near.rings.erase(victim);
      } else if (near.rings.size() < 4 && !near.end->is_lost()) {
        const RingId id(++near.ring_ids);
        const DeviceRing& ring = near.rings.emplace(id, id).first->second;
        ASSERT_TRUE(near.end
                        ->AddRing(id, ring.limits, Sequence(ring.stored),
                                  Sequence(ring.rung))
                        .ok());
      }
    }
    if (faults_.rings_given_up && !gpu_.rings.empty() && OneIn(100)) {
      const auto victim = gpu_.rings.begin();
      far_->GiveUp(victim->first, victim->second.serial,
                   absl::ResourceExhaustedError("no place today"));
      gpu_.rings.erase(victim);
      // If the near end has not heard of it, the ring is made anew, as after a
      // death.
      ++far_deaths_;
    }
    if (faults_.replaced_hosts && nears_.size() < 6 && OneIn(300)) AddNear();
    // An outage of about a lease.
    if (faults_.lease < 100'000 * kMs && OneIn(200)) {
      for (Accepted& each : accepted_) each.connection->closed = true;
      const Nanoseconds until = now_ + faults_.lease / 2 + Below(faults_.lease);
      while (now_ < until) {
        now_ += 50 * kMs;
        // In any order, or only one of them before the link is back.
        if (OneIn(3)) far_->Tick(FarNow());
        if (OneIn(3)) near.end->Tick(NearNow());
      }
    }
  }

  // What the near host has no more is gone at the GPU's, too.
  void ExpectNoRingLeftOver() {
    for (int i = 0; i < 3'000; ++i) Step(false);
    for (const auto& [id, ring] : gpu_.rings) {
      if (nears_.back()->rings.contains(id)) continue;
      ledger_.Wrong(fmt::format("ring {}", id.value()), "left over");
    }
  }

  bool AllQuiet() const {
    return std::all_of(nears_.begin(), nears_.end(), [](const auto& near) {
      return std::all_of(near->rings.begin(), near->rings.end(),
                         [](const auto& each) {
                           return each.second.stored == each.second.rung;
                         });
    });
  }

  const Faults faults_;
  const uint64_t most_read_;  // bytes at a time
  std::mt19937_64 random_;
  Nanoseconds now_ = 1;
  Ledger ledger_;
  Gpu gpu_;
  std::unique_ptr<FarEnd> far_;
  std::vector<std::unique_ptr<Near>> nears_;  // the last one is the newest
  std::vector<Accepted> accepted_;
  Epoch newest_;
  std::optional<Out> far_chosen_;  // about to be written
  struct Finished {
    RingId ring;
    RingSerial serial;
    Sequence number;
  };
  std::deque<Finished> done_;  // about to be told
  uint64_t incarnations_ = 0;
  int far_deaths_ = 0;
  Counts counts_;
};

struct Totals : Simulation::Counts {
  size_t events = 0;
  int runs = 0;
  int ends = 0;
  int aborts = 0;
};

Totals RunSeeds(const Faults& faults, int seeds) {
  Totals totals;
  for (int seed = 1; seed <= seeds; ++seed) {
    Simulation simulation(static_cast<uint64_t>(seed), faults);
    simulation.Run(1500);
    const Ledger& ledger = simulation.ledger();
    EXPECT_THAT(ledger.wrong(), testing::IsEmpty()) << "seed " << seed;
    if (testing::Test::HasFailure()) break;
    totals.events += ledger.size();
    totals.runs += ledger.runs();
    totals.ends += ledger.ends();
    totals.aborts += ledger.aborts();
    using Counts = Simulation::Counts;
    for (int Counts::*count :
         {&Counts::openings, &Counts::losses, &Counts::fenced,
          &Counts::far_losses, &Counts::refused_as_lost,
          &Counts::refused_as_late, &Counts::refused_rings,
          &Counts::given_up_rings, &Counts::near_silences,
          &Counts::far_silences, &Counts::cuts_amid_frames}) {
      totals.*count += simulation.counts().*count;
    }
  }
  return totals;
}

TEST(LinkSimulationTest, NothingIsLostOrDoubledWhereNothingBreaks) {
  const Totals totals = RunSeeds({}, 20);
  EXPECT_GT(totals.events, 1'000u);
  EXPECT_EQ(static_cast<size_t>(totals.ends), totals.events);
  EXPECT_EQ(static_cast<size_t>(totals.runs), totals.events);
  EXPECT_EQ(totals.openings, 20);
}

TEST(LinkSimulationTest, ACutOrSilentLinkLosesDoublesAndRunsNothingTwice) {
  const Totals totals = RunSeeds({.cuts = true}, kSeeds);
  EXPECT_GT(totals.openings, 400);
  EXPECT_GT(totals.near_silences, 100);
  EXPECT_GT(totals.far_silences, 30);
  EXPECT_GT(totals.cuts_amid_frames, 30);
  // Connections that the network has kept back until there was a newer one.
  EXPECT_GT(totals.refused_as_late, 10);
  EXPECT_EQ(static_cast<size_t>(totals.ends), totals.events);
  EXPECT_EQ(static_cast<size_t>(totals.runs), totals.events);
}

TEST(LinkSimulationTest, ANearEndMayDieAndNothingRunsTwice) {
  const Totals totals = RunSeeds({.cuts = true, .near_deaths = true}, kSeeds);
  EXPECT_GT(totals.openings, 400);
  EXPECT_EQ(static_cast<size_t>(totals.ends), totals.events);
  EXPECT_EQ(static_cast<size_t>(totals.runs), totals.events);
}

TEST(LinkSimulationTest, AFarEndMayDieAndEachEventEndsOnce) {
  const Totals totals =
      RunSeeds({.cuts = true, .near_deaths = true, .far_deaths = true}, kSeeds);
  EXPECT_EQ(static_cast<size_t>(totals.ends), totals.events);
  EXPECT_GT(static_cast<size_t>(totals.runs), totals.events);
}

TEST(LinkSimulationTest, RingsComeAndGo) {
  RunSeeds({.cuts = true, .rings_come_and_go = true}, kSeeds);
  const Totals totals = RunSeeds(
      {.cuts = true, .near_deaths = true, .rings_come_and_go = true}, kSeeds);
  EXPECT_GT(totals.aborts, 1'000);
  EXPECT_GT(totals.ends, 1'000);
  EXPECT_GT(totals.refused_rings, 30);
}

TEST(LinkSimulationTest, RingsThatAreGivenUpAreAbortedOnceOrMadeAnew) {
  const Totals totals = RunSeeds(
      {.cuts = true, .rings_come_and_go = true, .rings_given_up = true},
      kSeeds);
  EXPECT_GT(totals.given_up_rings, 30);
  EXPECT_GT(totals.aborts, 1'000);
  EXPECT_GT(totals.ends, 1'000);
}

TEST(LinkSimulationTest, EventsInPartsAreLostAndDoubledNoMoreThanOthers) {
  const Totals totals = RunSeeds({.cuts = true,
                                  .near_deaths = true,
                                  .rings_come_and_go = true,
                                  .large_events = true},
                                 kSeeds / 4);
  EXPECT_GT(totals.openings, 100);
  EXPECT_GT(totals.ends, 100);
}

TEST(LinkSimulationTest, AnOldHostIsRefusedAndItsEventsEndAborted) {
  const Totals totals =
      RunSeeds({.cuts = true, .replaced_hosts = true}, kSeeds);
  EXPECT_GT(totals.fenced, 50);
  EXPECT_GT(totals.aborts, 0);
}

TEST(LinkSimulationTest, ALinkThatIsDownForLongerThanItsLeaseAbortsOnce) {
  const Totals totals = RunSeeds(
      {.cuts = true, .near_deaths = true, .lease = 3'000 * kMs}, kSeeds);
  EXPECT_GT(totals.losses, 100);
  // Either end may be the first to give the link up.
  EXPECT_GT(totals.far_losses, 100);
  EXPECT_GT(totals.refused_as_lost, 10);
  EXPECT_GT(totals.aborts, 1'000);
  EXPECT_GT(totals.ends, 1'000);
}

}  // namespace
}  // namespace carillon::mesh
