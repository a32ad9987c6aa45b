// What the flight recordings of a testbed prove. For every event that a device
// has rung: exactly one end (done, failed, aborted) as the device has seen it,
// in order; none that was not rung; and gpud tells the same.
//
//   ok             ended as done
//   failed         ended as failed or aborted, and reported so
//   lost           rung, and no end although everybody could look
//   duplicated     ended twice
//   unexpected     ended or used without having been rung or registered
//   out of order   completions not in sequence; rings that leave a gap, or are
//                  more than the ring has entries
//   contradicted   the device and gpud say different things
//   indeterminate  the recordings do not tell, and why (Unknown)
#ifndef CARILLON_TOOLS_TESTBED_LEDGER_CHECKER_H_
#define CARILLON_TOOLS_TESTBED_LEDGER_CHECKER_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/testbed/ledger/story.h"

namespace carillon::ledger {

enum class Fault {
  kLost,
  kDuplicated,
  kUnexpected,
  kOutOfOrder,
  kContradicted
};
inline constexpr size_t kFaults = 5;
std::string_view FaultName(Fault fault);  // "out_of_order"

// Why nobody can tell how an event has ended.
enum class Unknown {
  kOverwritten,   // the recorder was too small
  kTorn,          // records that a dying process left unfinished
  kDeviceDied,    // before it could look
  kSessionEnded,  // the device detached or was closed before it could look
  kGpudDied,      // before it ended the event, and no other went on
  kNotRecorded,   // gpud's side is not there, or kernels store their own ends
  kStillRunning,  // in flight when the recordings were read
};
inline constexpr size_t kUnknowns = 7;
std::string_view UnknownName(Unknown unknown);  // "device_died"
std::string_view UnknownSentence(Unknown unknown);

// Events.
struct Counts {
  uint64_t ok = 0;
  uint64_t failed = 0;
  std::array<uint64_t, kFaults> faults{};
  std::array<uint64_t, kUnknowns> unknown{};
  // Among ok and failed: ends that only gpud tells of.
  uint64_t unseen = 0;
  // Among ok and failed: ends that only the device tells of, since gpud's
  // recording does not cover them.
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
  std::string sentence;  // whose, which event, what
  Place at;              // the record that shows it
  uint64_t events = 1;   // that it stands for
};

// A ring of a device, from its registration to its end.
struct RingReport {
  std::string device;
  uint32_t pid = 0;
  uint16_t event_id = 0;
  uint32_t generation = 0;  // of the last gpud that served it
  Counts counts;
};

enum class Verdict { kOk, kViolated, kIndeterminate };
std::string_view VerdictName(Verdict verdict);

struct Report {
  Counts total;
  // Of devices' recordings: records that are gone, and with them events that
  // may not even be counted.
  uint64_t overwritten = 0;
  std::vector<RingReport> rings;
  // By time, kMaxViolations at most; `total` counts all.
  std::vector<Violation> violations;

  // Violated if anything is; else indeterminate if an event is, or records are
  // overwritten.
  Verdict verdict() const;
};
inline constexpr size_t kMaxViolations = 100;

// Recordings of running processes should be of about the same time: what one of
// them did after another was read is not held against anybody.
Report Check(Recordings recordings);

}  // namespace carillon::ledger

#endif  // CARILLON_TOOLS_TESTBED_LEDGER_CHECKER_H_
