// Tricks against the protocol of doorbells and entries.

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
  };
}

}  // namespace carillon::testing
