// What the flight recordings of a testbed prove. Every event that a device has
// rung must have exactly one end (done, failed, aborted) as the device saw it,
// in order; no other event may end; and gpud's recording must agree. Gpud's word
// alone ends no event: the device has taken the end, or found it in its memory
// when it let go of the ring.
//
//   ok             ended as done
//   failed         ended as failed or aborted, and reported so
//   lost           rung, but without an end although everybody could see it
//   duplicated     ended twice
//   unexpected     ended or used without having been rung or registered
//   out of order   completions not in sequence; rings that leave a gap, or are
//                  more than the ring has entries
//   contradicted   the device's and gpud's records differ
//   wrong          ended, and its device found wrong bytes in the output
//   indeterminate  the recordings do not show it, and the reason (Unknown)
#ifndef CARILLON_TOOLS_TESTBED_LEDGER_CHECKER_H_
#define CARILLON_TOOLS_TESTBED_LEDGER_CHECKER_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "tools/testbed/ledger/timeline.h"

namespace carillon::ledger {

enum class Fault {
  kLost,
  kDuplicated,
  kUnexpected,
  kOutOfOrder,
  kContradicted,
  kWrong
};
inline constexpr size_t kFaults = 6;
std::string_view FaultName(Fault fault);  // "out_of_order"

// Why the recordings do not show how an event ended.
enum class Unknown {
  kOverwritten,   // the recorder was too small
  kTorn,          // records that a dying process left unfinished
  kDeviceDied,    // before it could look
  kSessionEnded,  // the device detached or was closed before it could look
  kGpudDied,      // before it ended the event, and no other went on
  kNotRecorded,  // gpud's side is not there, or kernels store their own ends and
                 // gpud has not let go of the ring yet
  kStillRunning,  // in flight when the recordings were read
  kNotTaken,      // its device lives and has not taken what gpud says has ended
};
inline constexpr size_t kUnknowns = 8;
std::string_view UnknownName(Unknown unknown);  // "device_died"
std::string_view UnknownSentence(Unknown unknown);

// Numbers of events.
struct Counts {
  uint64_t ok = 0;
  uint64_t failed = 0;
  std::array<uint64_t, kFaults> faults{};
  std::array<uint64_t, kUnknowns> unknown{};
  // Part of ok and failed: ends that their devices found when they let go of the
  // ring, and never took.
  uint64_t untaken = 0;
  // Part of ok and failed: ends that only the device recorded, since gpud's
  // recording does not cover them, nor counts as many.
  uint64_t unconfirmed = 0;

  uint64_t of(Fault fault) const { return faults[static_cast<size_t>(fault)]; }
  uint64_t of(Unknown why) const { return unknown[static_cast<size_t>(why)]; }
  uint64_t violated() const;
  uint64_t indeterminate() const;
  Counts& operator+=(const Counts& other);
  bool operator==(const Counts&) const = default;
};

struct Violation {
  Fault fault = Fault::kLost;
  // Names the process and the event, and says what is wrong.
  std::string sentence;
  RecordRef at;         // the record that shows it
  uint64_t events = 1;  // how many events it is about
};

// A device's ring, from its registration to its end.
struct RingReport {
  std::string device;
  uint32_t pid = 0;
  uint16_t event_id = 0;
  uint32_t generation = 0;  // that of the last gpud that served it
  Counts counts;
};

enum class Verdict { kOk, kViolated, kIndeterminate };
std::string_view VerdictName(Verdict verdict);

struct Report {
  Counts total;
  // How many records of devices are lost; with them events may be lost that
  // cannot even be counted.
  uint64_t overwritten = 0;
  std::vector<RingReport> rings;
  // Ordered by time, kMaxViolations at most; `total` counts all.
  std::vector<Violation> violations;

  // Violated if anything is; otherwise indeterminate if an event is, or records
  // are overwritten.
  Verdict verdict() const;
};
inline constexpr size_t kMaxViolations = 100;

// How long a process that the scheduler has stopped at the worst place may take
// to record what others can see already.
inline constexpr Nanoseconds kRecordsWithin = 1'000'000'000;

// Recordings of running processes should be of about the same time. What a
// process did after another one's recording was read does not count as a
// contradiction.
Report Check(Recordings recordings);

}  // namespace carillon::ledger

#endif  // CARILLON_TOOLS_TESTBED_LEDGER_CHECKER_H_
