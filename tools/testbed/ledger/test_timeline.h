// Writes recordings for a test, step by step, as a gpud and its devices would.
#ifndef CARILLON_TOOLS_TESTBED_LEDGER_TEST_TIMELINE_H_
#define CARILLON_TOOLS_TESTBED_LEDGER_TEST_TIMELINE_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "shm/layout.h"
#include "shm/recorder/flight_recorder.h"

namespace carillon::ledger {

class TestTimeline {
 public:
  static constexpr size_t kGpud = 0;
  static constexpr uint32_t kGpudPid = 100;

  TestTimeline() { Add("gpud", kGpudPid); }

  size_t Add(const std::string& name, uint32_t pid) {
    recordings.push_back({.name = name, .pid = pid});
    return recordings.size() - 1;
  }
  shm::FlightRecord& Tell(size_t process, shm::FlightRecord record) {
    record.time_ns = now += 1000;
    shm::FlightRecording& recording = recordings[process];
    ++recording.written;
    recording.records.push_back(record);
    return recording.records.back();
  }

  size_t AddDevice(const std::string& name, uint32_t pid, size_t gpud = kGpud) {
    const size_t device = Add(name, pid);
    Attach(device, gpud);
    return device;
  }
  void Attach(size_t device, size_t gpud = kGpud) {
    sessions[device] = ++generation;
    Tell(gpud, {.sequence = recordings[device].pid,
                .generation = generation,
                .step = shm::Step::kSessionBegan});
    Tell(device, {.sequence = recordings[gpud].pid,
                  .generation = generation,
                  .step = shm::Step::kAttached});
  }
  void Detach(size_t device, size_t gpud = kGpud) {
    Tell(device, {.step = shm::Step::kDetached});
    Tell(gpud, {.sequence = recordings[device].pid,
                .generation = sessions[device],
                .status = 1,
                .step = shm::Step::kSessionEnded});
  }

  struct Ring {
    size_t device = 0;
    uint16_t event_id = 0;
    uint32_t generation = 0;
    size_t gpud = kGpud;
    uint64_t rung = 0;
    uint64_t taken = 0;
  };
  Ring Register(size_t device, uint16_t event_id, uint32_t entries = 8,
                bool whole = true, size_t gpud = kGpud) {
    Ring ring{device, event_id, ++generation, gpud};
    MakeRing(ring, whole);
    Tell(device, Of(ring, shm::Step::kRegistered, 0, entries));
    return ring;
  }
  void MakeRing(const Ring& ring, bool whole = true) {
    Tell(ring.gpud, Of(ring, shm::Step::kRingMade, recordings[ring.device].pid,
                       whole ? 1 : 0));
  }
  void Unregister(const Ring& ring, bool confirmed = true) {
    LetGo(ring, confirmed ? shm::LetGo::kConfirmed : shm::LetGo::kUnanswered);
  }
  void LetGo(const Ring& ring, shm::LetGo how) {
    if (how == shm::LetGo::kConfirmed) {
      Tell(ring.gpud, Of(ring, shm::Step::kRingRemoved, 0, 0));
    }
    Tell(ring.device, Of(ring, shm::Step::kUnregistered, ring.taken,
                         static_cast<uint32_t>(how)));
  }
  void RingBell(Ring& ring, uint32_t events = 1) {
    ring.rung += events;
    Tell(ring.device, Of(ring, shm::Step::kRung, ring.rung, events));
  }
  void End(const Ring& ring, uint64_t sequence,
           shm::EventState state = shm::EventState::kDone, uint32_t status = 0,
           shm::Step step = shm::Step::kEnded) {
    auto record = Of(ring, step, sequence, status);
    record.state = state;
    Tell(ring.gpud, record);
  }
  // gpud lets go of a ring whose ends a GPU has counted.
  void Count(const Ring& ring, uint64_t ends) {
    Tell(ring.gpud, Of(ring, shm::Step::kCounted, ends, 0));
  }
  // What gpud records of a traced event before its end.
  void Stamp(const Ring& ring, uint64_t sequence, Nanoseconds seen,
             Nanoseconds dispatched) {
    for (const auto& [step, time] :
         {std::pair(shm::Step::kSeen, seen),
          std::pair(shm::Step::kDispatched, dispatched)}) {
      Tell(ring.gpud, Of(ring, step, sequence, 0)).time_ns = time;
    }
  }
  void Take(Ring& ring, uint64_t sequence,
            shm::EventState state = shm::EventState::kDone,
            uint32_t status = 0) {
    auto record = Of(ring, shm::Step::kTaken, sequence, status);
    record.state = state;
    Tell(ring.device, record);
    if (sequence > ring.taken) ring.taken = sequence;
  }
  // The device finds the end in its memory when it lets go of the ring.
  void Find(const Ring& ring, uint64_t sequence,
            shm::EventState state = shm::EventState::kDone,
            uint32_t status = 0) {
    auto record = Of(ring, shm::Step::kFound, sequence, status);
    record.state = state;
    Tell(ring.device, record);
  }
  // gpud dies, and the device sees it.
  void Die(size_t device, size_t gpud = kGpud) {
    Tell(device,
         {.sequence = recordings[gpud].pid, .step = shm::Step::kClosed});
  }
  // Another gpud goes on with the ring.
  Ring Resume(const Ring& ring, size_t gpud) {
    Attach(ring.device, gpud);
    Ring resumed = ring;
    resumed.gpud = gpud;
    resumed.generation = ++generation;
    MakeRing(resumed);
    Tell(ring.device, Of(resumed, shm::Step::kResumed, ring.taken, 0));
    return resumed;
  }
  // The whole life of the next event, from its ring to its completion.
  void Live(Ring& ring, shm::EventState state = shm::EventState::kDone,
            uint32_t status = 0) {
    RingBell(ring);
    End(ring, ring.rung, state, status);
    Take(ring, ring.rung, state, status);
  }

  static shm::FlightRecord Of(const Ring& ring, shm::Step step,
                              uint64_t sequence, uint32_t status) {
    return {.sequence = sequence,
            .generation = ring.generation,
            .status = status,
            .event_id = ring.event_id,
            .step = step};
  }

  void Overwrite(size_t process, size_t records) {
    shm::FlightRecording& recording = recordings[process];
    recording.records.erase(recording.records.begin(),
                            recording.records.begin() + records);
    recording.overwritten += records;
  }
  // Marks a record as unfinished by its process.
  void Tear(size_t process, size_t record) {
    shm::FlightRecording& recording = recordings[process];
    recording.records.erase(recording.records.begin() + record);
    ++recording.torn;
  }

  std::vector<shm::FlightRecording> recordings;
  Nanoseconds now = 0;
  uint32_t generation = 0;
  std::map<size_t, uint32_t> sessions;  // the last one's generation, by device
};

}  // namespace carillon::ledger

#endif  // CARILLON_TOOLS_TESTBED_LEDGER_TEST_TIMELINE_H_
