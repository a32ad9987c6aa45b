// A file for Perfetto (ui.perfetto.dev): tracks, and on them slices, instants
// and counters.
//
//   ASSIGN_OR_RETURN(auto writer, TraceWriter::Create(path, {}));
//   const Track ring = writer->AddTrack(writer->AddProcess("nic0", 12), "ring");
//   writer->Begin(ring, 1000, {.name = writer->Intern("memc_get")});
//   writer->End(ring, 2000);
//   RETURN_IF_ERROR(writer->Finish());
#ifndef CARILLON_TOOLS_TESTBED_PERFETTO_TRACE_WRITER_H_
#define CARILLON_TOOLS_TESTBED_PERFETTO_TRACE_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/unique_fd.h"

namespace carillon::perfetto {

class TracePacket;

// A track, by its number in the file; 0: none.
enum class Track : uint64_t { kNone = 0 };
// A text that is stored once.
enum class Name : uint64_t { kNone = 0 };

// Shown with a slice or an instant: a number, or a text.
struct Detail {
  Name name = Name::kNone;
  uint64_t number = 0;
  std::string_view text;  // if it is not empty, this and not the number
};

struct Shown {
  Name name = Name::kNone;
  std::string_view text;  // instead of `name`, for what is shown once
  std::span<const Detail> details;
  // Arrows: what has the same number in `from` and in `to`.
  std::span<const uint64_t> from;
  std::span<const uint64_t> to;
  uint64_t group = 0;  // slices of one are shown alike; 0: of none
};

// The same moment on two clocks.
struct ClockPair {
  Nanoseconds monotonic_ns = 0;
  uint64_t realtime_ns = 0;
};

// On one track calls come by time, a slice that begins later ends earlier or at
// the same time, and End() ends what began last. Not thread safe.
class TraceWriter {
 public:
  // Makes a file without a name in the same folder, which becomes `path` in
  // Finish(), and goes with an unfinished writer, even a killed one. Where the file
  // system has no such files it is PATH.PID.part until then. `clocks`: what the time of day was.
  // Errors: InvalidArgument (`path` is there and no regular file), NotFound,
  // PermissionDenied, ResourceExhausted, Internal.
  static absl::StatusOr<std::unique_ptr<TraceWriter>> Create(
      const std::string& path, const std::optional<ClockPair>& clocks);
  // Writes into this file, of which the caller may have another descriptor.
  static std::unique_ptr<TraceWriter> CreateIn(
      UniqueFd file, const std::optional<ClockPair>& clocks);
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  Name Intern(std::string_view text);

  Track AddProcess(std::string_view name, uint32_t pid);
  // Below `parent`, in the order of these calls.
  Track AddTrack(Track parent, std::string_view name);
  Track AddCounter(Track parent, std::string_view name);

  void Begin(Track track, Nanoseconds time, const Shown& shown);
  void End(Track track, Nanoseconds time);
  void Instant(Track track, Nanoseconds time, const Shown& shown);
  void Count(Track counter, Nanoseconds time, int64_t value);

  // Call once, last. What could not be written is told here. Errors: OutOfRange
  // (it is larger than a file of this process may be, and SIGXFSZ is ignored),
  // and those of Create().
  absl::Status Finish();

 private:
  TraceWriter(std::string path, std::string part, UniqueFd fd);

  void Start(const std::optional<ClockPair>& clocks);
  Track Describe(Track parent, std::string_view name);
  void Put(Track track, Nanoseconds time, const Shown& shown, int type);
  void Write();
  void Flush();

  const std::string path_;  // empty: it has its file from the caller
  const std::string part_;
  UniqueFd fd_;
  std::unique_ptr<TracePacket> packet_;  // used again: it keeps its memory
  std::string buffer_;
  int error_ = 0;  // errno of the first write that failed
  bool finished_ = false;
  uint64_t tracks_ = 0;
  std::map<std::string, Name, std::less<>> names_;
};

}  // namespace carillon::perfetto

#endif  // CARILLON_TOOLS_TESTBED_PERFETTO_TRACE_WRITER_H_
