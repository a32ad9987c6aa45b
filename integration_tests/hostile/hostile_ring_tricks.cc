// Tricks against the protocol of doorbells and entries, and with more of what
// it allows than is good for others.
#include <atomic>
#include <thread>

#include "integration_tests/hostile/hostile_tricks.h"
#include "shm/layout.h"

namespace carillon::testing {
namespace {

using shm::EventStatus;

constexpr uint32_t kDone = 0;

void DoorbellJump(const Scene& scene) {
  auto& device = Keep(new WireDevice(scene.paths, scene.name));
  auto& ring = Keep(new WireRing(&device, 8, 32));
  device.RingDoorbell(ring.layout().event_id(), 1u << 30);
  SayClosed(device);
}

void DoorbellOneTooMany(const Scene& scene) {
  auto& device = Keep(new WireDevice(scene.paths, scene.name));
  auto& ring = Keep(new WireRing(&device, 8, 32));
  device.RingDoorbell(ring.layout().event_id(), 9);
  SayClosed(device);
}

void DoorbellBack(const Scene& scene) {
  auto& device = Keep(new WireDevice(scene.paths, scene.name));
  auto& ring = Keep(new WireRing(&device, 8, 32));
  Tally tally;
  for (int i = 0; i < 3; ++i) tally.Run(ring, ring.Next());
  tally.Say({kDone});
  device.RingDoorbell(ring.layout().event_id(), ~0u);  // one back
  SayClosed(device);
}

void DoorbellNotItsOwn(const Scene& scene) {
  auto& device = Keep(new WireDevice(scene.paths, scene.name));
  auto& ring = Keep(new WireRing(&device, 8, 32));
  // Rings all doorbells that exist, registered or not, except its own.
  for (uint32_t i = 0; i < shm::kMaxDoorbells; ++i) {
    if (i != ring.layout().event_id()) device.RingDoorbell(i, 3);
  }
  Tally tally;
  for (int i = 0; i < 20; ++i) tally.Run(ring, ring.Next());
  tally.Say({kDone});
  // A GPU that launches by itself counts with a delay.
  uint64_t rung = 0;
  Await("gpud's count of its rings", [&] {
    v1::ListEktResponse ekt;
    const auto control = WireControl::OfOperator(scene.paths);
    control.Call(&v1::Admin::Stub::ListEkt, v1::ListEktRequest(), &ekt);
    for (const v1::EktEntry& entry : ekt.entries()) {
      if (entry.device() == scene.name) rung = entry.counts().rung();
    }
    return rung >= 20;
  });
  Say("seen: {} rings of event {}", rung, ring.layout().event_id());
  // The doorbell was rung before it belonged to an event.
  auto& later = Keep(new WireRing(&device, 8, 32));
  Tally after;
  for (int i = 0; i < 20; ++i) after.Run(later, later.Next());
  after.Say({kDone});
}

void StaleGenerations(const Scene& scene) {
  auto& device = Keep(new WireDevice(scene.paths, scene.name));
  auto& ring = Keep(new WireRing(&device, 8, 32));
  const uint32_t own = ring.layout().generation();
  Tally tally;
  for (const uint32_t generation :
       {own - 1, own + 1, 0u, ~0u, device.attached.generation()}) {
    WireRing::Entry entry = ring.Next();
    entry.header.generation = generation;
    tally.Run(ring, entry);
  }
  tally.Say({static_cast<uint32_t>(EventStatus::kStaleGeneration)});
  Tally after;
  after.Run(ring, ring.Next());
  after.Say({kDone});
}

void WrongEntries(const Scene& scene) {
  auto& device = Keep(new WireDevice(scene.paths, scene.name));
  auto& ring = Keep(new WireRing(&device, 8, 32));
  Tally sequences;
  for (const uint64_t sequence :
       {uint64_t{0}, ~uint64_t{0}, uint64_t{1} << 32, uint64_t{9999}}) {
    WireRing::Entry entry = ring.Next();
    entry.header.sequence = sequence;
    sequences.Run(ring, entry);
  }
  sequences.Say({static_cast<uint32_t>(EventStatus::kBadSequence)});
  Tally flags;
  for (const uint32_t flag : {1u, 2u, 0x80000000u, ~0u}) {
    WireRing::Entry entry = ring.Next();
    entry.header.flags = flag;
    flags.Run(ring, entry);
  }
  flags.Say({static_cast<uint32_t>(EventStatus::kBadFlags)});
}

void ForeignOffsets(const Scene& scene) {
  auto& device = Keep(new WireDevice(scene.paths, scene.name));
  auto& ring = Keep(new WireRing(&device, 8, 32));
  const uint64_t end = ring.input_bytes();
  const uint64_t most = ~uint64_t{0};
  Tally tally;
  for (const shm::BufferRef in : std::initializer_list<shm::BufferRef>{
           {end, 1},
           {end - 1, 2},
           {0, end + 1},
           {most, 1},
           {most - 7, 16},
           {1, most},
           {most, most},
           {uint64_t{1} << 63, uint64_t{1} << 63},
           {device.submission().size(), 1}}) {
    WireRing::Entry entry = ring.Next();
    entry.in = in;
    tally.Run(ring, entry);
  }
  tally.Say({static_cast<uint32_t>(EventStatus::kBadBufferRef)});
}

// Keeps all rings full until the process dies; returns after `events`.
void RingWithoutEnd(std::vector<WireRing*> rings, uint32_t events) {
  auto& done = Keep(new std::atomic<uint32_t>(0));  // writer: the thread
  std::thread([rings, &done] {
    std::vector<uint64_t> taken;
    for (const WireRing* ring : rings) taken.push_back(ring->rung());
    for (;;) {
      for (size_t i = 0; i < rings.size(); ++i) {
        WireRing& ring = *rings[i];
        while (ring.rung() - taken[i] < ring.layout().entries()) {
          ring.Launch(ring.Next());
        }
        while (taken[i] < ring.rung() && ring.Ended(taken[i] + 1)) {
          ++taken[i];
          done.fetch_add(1, std::memory_order_relaxed);
        }
      }
    }
  }).detach();
  Await(fmt::format("{} events", events),
        [&] { return done.load(std::memory_order_relaxed) >= events; });
  Say("seen: {} rings, which are always full", rings.size());
}

void DoorbellStorm(const Scene& scene) {
  auto& device = Keep(new WireDevice(scene.paths, scene.name));
  std::vector<WireRing*> rings;
  for (int i = 0; i < 16; ++i) {
    rings.push_back(&Keep(new WireRing(&device, 32, 32)));
  }
  RingWithoutEnd(rings, 10'000);
}

// One slow event in four would hide in an average.
void SlowKernels(const Scene& scene) {
  constexpr uint64_t kSlow = 4 << 20;  // some ms
  auto& device = Keep(new WireDevice(scene.paths, scene.name));
  auto& ring = Keep(new WireRing(&device, 2, 32, kSlow));
  Tally tally;
  for (int i = 0; i < 8; ++i) {
    WireRing::Entry entry = ring.Next();
    if (i % 4 == 3) entry.in.length = kSlow;
    tally.Run(ring, entry);
  }
  tally.Say({kDone});
  RingWithoutEnd({&ring}, 100);
}

}  // namespace

std::vector<Trick> RingTricks() {
  return {
      {"doorbell-jump", "rings far more often than it has slots", DoorbellJump},
      {"doorbell-one-too-many", "rings once more than it has slots",
       DoorbellOneTooMany},
      {"doorbell-back", "takes a ring back", DoorbellBack},
      {"doorbell-not-own", "rings doorbells of no event kernel",
       DoorbellNotItsOwn},
      {"stale-generations", "entries of other generations", StaleGenerations},
      {"wrong-entries", "wrong sequences and flags", WrongEntries},
      {"foreign-offsets", "parts of buffers that are not its own",
       ForeignOffsets},
      {"doorbell-storm", "keeps 16 rings full", DoorbellStorm},
      {"slow-kernels", "one event in four holds the thread that all share",
       SlowKernels},
  };
}

}  // namespace carillon::testing
