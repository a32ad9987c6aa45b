// The flight recorder of a process: its last doorbell, ring and state
// transitions, in a file that outlives any death of the process.
//
//   file    NAME-PID.rec in the testbed's folder of recorders, mode 0600
//   step    what happened (Step), of which ring, to which event
//   place   how many steps were recorded before: the record's index modulo the
//           capacity is where it lies
//   torn    a record that its process died in, or that two writers a lap apart
//           have mixed; readers leave it out and count it
//   name    what a ring serves: device, kernel, label
#ifndef CARILLON_SHM_RECORDER_FLIGHT_RECORDER_H_
#define CARILLON_SHM_RECORDER_FLIGHT_RECORDER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/unique_fd.h"
#include "shm/layout.h"
#include "shm/types.h"

namespace carillon::shm {

// The step that a record is of, and the meaning of its fields beside the time.
// "ring" stands for `event_id` and `generation`, unique among the rings of one
// gpud.
enum class Step : uint8_t {
  kNone = 0,
  // A device's.
  kAttached = 1,    // generation: the apertures'; sequence: gpud's pid
  kDetached = 2,    // by itself; status: 0 if gpud has confirmed it
  kClosed = 3,      // by gpud; status: CloseReason, kOpen when gpud just died
  kRegistered = 4,  // ring; status: its entries
  // Ring, which is gone for the device, after kFound for each end that lay in
  // it; sequence: the last event taken; status: LetGo.
  kUnregistered = 5,
  kScheduling = 6,  // ring; asks gpud to launch up to event `sequence`
  kRung = 7,        // ring; sequence: the last event rung; status: how many
  kTaken = 8,       // ring, sequence, state, status: how it has ended
  // gpud's.
  kSessionBegan = 9,   // generation: the apertures'; sequence: the device's pid
  kSessionEnded = 10,  // the same; status: CloseReason
  kRingMade = 11,      // ring; sequence: the device's pid; status: 1 if every
                       // end is recorded here, 0 if kernels store their own
  kRingRemoved = 12,   // ring; the device has unregistered it
  kEnded = 13,     // ring, sequence, state, status: gpud has stored this end
  kEndNoted = 14,  // as kEnded, but its kernel has ended it before
  // A device's, again: another gpud (kAttached) goes on with this ring, after
  // kFound for each end that lay in it; sequence: the last event taken.
  kResumed = 15,
  // Ring; has waited in vain for the end of event `sequence`; status: how long,
  // ms.
  kMissed = 16,
  // Ring, sequence, state, status: the end of an event that was not taken lies
  // in the device's own memory when it lets go of the ring.
  kFound = 17,
  // Ring, sequence: the event's output is not what its input makes.
  kMismatched = 18,
  // gpud's, again: ring, sequence. While it traces, it records them before
  // kEnded or kEndNoted, and `time_ns` is when they happened.
  kSeen = 19,        // the front-end has found the doorbell
  kDispatched = 20,  // the first thread block has been given out
  // gpud's, again: ring; sequence: how many events have ended there, in all. Where
  // kernels store their own ends, when it lets go of the ring.
  kCounted = 21,
};
inline constexpr uint8_t kSteps = 22;
std::string_view StepName(Step step);

// How sure a device is, when it lets go of a ring, that no end comes any more.
enum class LetGo : uint32_t {
  kConfirmed = 0,   // gpud has confirmed that the ring is gone
  kUnanswered = 1,  // gpud may go on with it
  kAfterEnd = 2,    // the session was over, or gpud dead, before it looked
};

struct FlightRecord {
  Nanoseconds time_ns = 0;
  uint64_t sequence = 0;
  uint32_t generation = 0;
  uint32_t status = 0;
  uint16_t event_id = 0;
  Step step = Step::kNone;
  EventState state = EventState::kNone;

  bool operator==(const FlightRecord&) const = default;
};

//   0       8          16           20       24      28         30     31   32
//   +-------+----------+------------+--------+-------+----------+------+-----+
//   | time  | sequence | generation | status | check | event id | step |state|
//   +-------+----------+------------+--------+-------+----------+------+-----+
// Four words. Writer: whoever has taken the place, the last word last
// (release). Readers: other processes, which copy it and then compare `check`:
// it covers the place and all other bytes.
struct FlightSlot {
  uint64_t words[4];
};
static_assert(sizeof(FlightSlot) == 32);

//   0       4            8          10  16       48       96      160
//   +-------+------------+----------+---+--------+--------+-------+
//   | check | generation | event id | 0 | device | kernel | label |
//   +-------+------------+----------+---+--------+--------+-------+
// The name of a ring. Texts are cut to their room, and end with a 0 where they
// are shorter. Writer: one thread at a time, the check last (release). Readers:
// other processes, which copy it and then compare `check`: it covers the place
// and all other bytes.
struct FlightRingName {
  uint32_t check;
  uint32_t generation;
  uint16_t event_id;
  char zero[6];
  char device[32];
  char kernel[48];
  char label[64];
};
static_assert(offsetof(FlightRingName, device) == 16);
static_assert(sizeof(FlightRingName) == 160);

//   0       8         12             16         24    28           32     72
//   +-------+---------+--------------+----------+-----+------------+------+
//   | magic | version | record bytes | capacity | pid | ring names | name |
//   +-------+---------+--------------+----------+-----+------------+------+
//   72          80         88         128
//   +-----------+----------+----------+------+-----------------------------
//   | monotonic | realtime | 0...     | next | 0...        256: the ring
//   +-----------+----------+----------+------+             names, the slots
// Written once before the file has records, the magic last; then only `next`
// changes.
struct FlightHeader {
  static constexpr uint64_t kMagic =
      0x4345'524f'4c52'4143;  // "CARLOREC", as bytes
  static constexpr uint32_t kVersion = 2;

  uint64_t magic;
  uint32_t version;
  uint32_t record_bytes;
  uint64_t capacity;  // slots: a power of two
  uint32_t pid;
  uint32_t ring_names;  // how many there is room for
  char name[40];        // ends with a 0
  // The two clocks at one moment, when the file was made.
  uint64_t monotonic_ns;
  uint64_t realtime_ns;
  char zero[40];
  // Places taken so far. Writers: the process's threads (fetch_add, relaxed:
  // only the number counts). Readers: other processes, which believe nothing.
  uint64_t next;
  char zero_too[120];
};
static_assert(offsetof(FlightHeader, name) == 32);
static_assert(offsetof(FlightHeader, monotonic_ns) == 72);
static_assert(offsetof(FlightHeader, next) == 128);
static_assert(sizeof(FlightHeader) == 256);

// The writing side. Record() is for any number of threads. Once in kStep records
// it reserves space for the next ones; otherwise it makes no system call. A
// recorder that is off is a null pointer.
class FlightRecorder {
 public:
  static constexpr uint64_t kMinRecords = 64;
  static constexpr uint64_t kMaxRecords = 1 << 22;  // 128 MiB
  static constexpr uint64_t kStep = 1 << 16;        // 2 MiB
  // A further ring's name takes the place of the oldest.
  static constexpr uint32_t kRingNames = 256;
  // The environment variable that turns a device's recorder on: how many
  // records.
  static constexpr char kVariable[] = "CARILLON_RECORD";

  // Makes the folder if it is missing (0700), and the file, for `records` or the
  // next power of two. Space is reserved before it is used, so that no access
  // can raise SIGBUS; what finds no space later counts as torn. Errors:
  // InvalidArgument (name, records), ResourceExhausted (space, descriptors),
  // PermissionDenied, Internal.
  static absl::StatusOr<std::unique_ptr<FlightRecorder>> Create(
      const std::string& directory, std::string_view name, uint64_t records);
  // As kVariable asks for; null if it is not set. Errors: as Create(), and
  // InvalidArgument for a value that is no number.
  static absl::StatusOr<std::unique_ptr<FlightRecorder>> FromEnvironment(
      const std::string& directory, std::string_view name);
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  const std::string& path() const { return path_; }

  void Record(Step step, uint32_t event_id, Generation generation,
              uint64_t sequence, EventState state = EventState::kNone,
              uint32_t status = 0);
  // Records a step of an event that happened before, at `time`; not 0.
  void RecordAt(Nanoseconds time, Step step, uint32_t event_id,
                Generation generation, uint64_t sequence);
  // Notes what the ring serves, before any record of it.
  void NameRing(uint32_t event_id, Generation generation,
                std::string_view device, std::string_view kernel,
                std::string_view label) ABSL_LOCKS_EXCLUDED(names_mutex_);

 private:
  FlightRecorder(std::string path, UniqueFd fd, void* memory, uint64_t capacity,
                 uint64_t reserved)
      : path_(std::move(path)),
        fd_(std::move(fd)),
        header_(static_cast<FlightHeader*>(memory)),
        names_(reinterpret_cast<FlightRingName*>(header_ + 1)),
        slots_(reinterpret_cast<FlightSlot*>(names_ + kRingNames)),
        capacity_(capacity),
        reserved_(reserved) {}

  void Put(Nanoseconds time, Step step, uint32_t event_id,
           Generation generation, uint64_t sequence, EventState state,
           uint32_t status);
  // Whether there is space for the record at `place`.
  bool HasRoom(uint64_t place);
  // Reserves more, and returns how many slots have space.
  uint64_t ReserveFor(uint64_t place) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::string path_;
  const UniqueFd fd_;  // its lock says that this process runs
  FlightHeader* const header_;
  FlightRingName* const names_;
  FlightSlot* const slots_;
  const uint64_t capacity_;
  Mutex names_mutex_;
  uint64_t named_ ABSL_GUARDED_BY(names_mutex_) = 0;  // ever
  Mutex mutex_;
  bool full_ ABSL_GUARDED_BY(mutex_) = false;  // there was no more space
  // Slots that have space. Writer: who holds the mutex; readers: all writers.
  // Relaxed: the space is the kernel's.
  std::atomic<uint64_t> reserved_;
};

// What a ring serves, for people. Without control characters.
struct RingName {
  std::string device;
  std::string kernel;
  std::string label;  // empty: its device has given none

  bool operator==(const RingName&) const = default;
};

// The contents of a recorder file.
struct FlightRecording {
  std::string name;
  uint32_t pid = 0;
  bool running = false;      // its process has the file open for writing
  uint64_t written = 0;      // records, ever
  uint64_t overwritten = 0;  // the oldest of them
  uint64_t torn = 0;         // among those that are left
  // When it was read: what a running process did later is not in it.
  Nanoseconds read_ns = 0;
  // By place, without torn ones.
  std::vector<FlightRecord> records;
  // By event id and generation: the last FlightRecorder::kRingNames rings.
  std::map<std::pair<uint16_t, uint32_t>, RingName> ring_names;
  // CLOCK_REALTIME less CLOCK_MONOTONIC when the file was made, and when that
  // was.
  uint64_t realtime_offset_ns = 0;
  Nanoseconds made_ns = 0;

  // Null: it has no name, or lost it.
  const RingName* NameOf(uint16_t event_id, uint32_t generation) const {
    const auto found = ring_names.find({event_id, generation});
    return found == ring_names.end() ? nullptr : &found->second;
  }
};

// Reads a file of a dead or living process. Trusts nothing in it and maps
// nothing: a file that changes or shrinks meanwhile costs records, no more.
// Errors: NotFound, PermissionDenied, FailedPrecondition (no recorder's file:
// the field, the value and what was expected).
absl::StatusOr<FlightRecording> ReadFlightRecording(const std::string& path);

// Reads all recorder files in `directory`, in the order of name and pid.
// `unreadable` gets a sentence for each that cannot be read. A folder that is
// not there has none.
std::vector<FlightRecording> ReadFlightRecordings(
    const std::string& directory, std::vector<std::string>* unreadable);

// Whether `file` (without its folder) is called as recorders' files are.
bool IsFlightRecordingName(std::string_view file);

}  // namespace carillon::shm

#endif  // CARILLON_SHM_RECORDER_FLIGHT_RECORDER_H_
