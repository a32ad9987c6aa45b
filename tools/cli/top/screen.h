// What `carillon top` shows: a function of figures, settings and a size.
#ifndef CARILLON_TOOLS_CLI_TOP_SCREEN_H_
#define CARILLON_TOOLS_CLI_TOP_SCREEN_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/cli/top/grid.h"

namespace carillon::cli::top {

// A process of the testbed. What is not known is nothing, or empty. All text is
// safe for a terminal.
struct Process {
  std::string name;
  std::string kind;
  std::string state;
  bool bad = false;  // ended, stopped or silent
  uint32_t pid = 0;
  std::optional<double> cores;  // used since the last look
  std::optional<uint64_t> resident_bytes;
  std::optional<uint32_t> restarts;
  // Of a device:
  std::optional<uint32_t> peak;
  std::optional<double> events_per_s;
  uint64_t silent_ns = 0;
  std::string note;
  // Of a device, for ProcessLooker: what gpud said of it in the last picture,
  // and when it began, as the first look after that picture saw.
  std::string gpud_state;
  std::optional<uint64_t> start_ticks;
};

// An entry of the EKT, with its ring.
struct Event {
  uint32_t ekt_index = 0;
  std::string device;
  uint32_t event_id = 0;
  std::string kernel;  // with its label
  uint32_t priority = 0;
  uint32_t entries = 0;
  // Rung, and not ended in order; unknown where the doorbell says more than the
  // ring holds.
  std::optional<uint32_t> pending;
  std::optional<uint32_t> peak;
  std::optional<double> events_per_s;
  uint64_t rung = 0;
  uint64_t done = 0;
  uint64_t failed = 0;
  uint64_t aborted = 0;
  // From rung to finished, of those that were traced in the last second.
  std::optional<uint64_t> mean_ns;
  std::optional<uint64_t> p50_ns;
  std::optional<uint64_t> p99_ns;
  std::string grid;
  std::string block;
  std::string path;
};

struct Figures {
  std::string testbed;
  uint64_t time_ns = 0;  // CLOCK_REALTIME
  std::optional<double> events_per_s;
  uint64_t rung = 0;
  uint64_t failed = 0;
  uint64_t aborted = 0;
  uint64_t in_flight = 0;
  uint64_t memory_used = 0;
  uint32_t resident_blocks = 0;
  std::vector<uint32_t> blocks_of_sm;
  std::string policy;
  bool tracing = false;
  std::vector<Process> processes;
  std::vector<Event> events;
  // What is wrong with the figures themselves: gpud has gone.
  std::string notice;
};

// Keys that are no characters.
enum Key { kUp = 0x110000, kDown, kPageUp, kPageDown, kEscape, kBackspace };

class Settings {
 public:
  // What a key does, ASCII or a Key; returns false at 'q'.
  bool Press(int key);

  bool paused() const { return paused_; }

 private:
  friend class Painter;

  struct Table {
    int sort = -1;  // a column; -1: as it comes
    bool reversed = false;
    size_t scroll = 0;
  };
  enum { kProcesses, kEvents, kTables };

  bool paused_ = false;
  bool typing_ = false;
  std::string filter_;
  int table_ = kEvents;  // whose the keys are
  std::array<Table, kTables> tables_;
};

// Brings the scrolling back to what there is.
Grid Draw(const Figures& figures, Settings* settings, size_t width,
          size_t height);
// With all rows, as wide as the columns take, without the line about keys.
std::string DrawText(const Figures& figures);

}  // namespace carillon::cli::top

#endif  // CARILLON_TOOLS_CLI_TOP_SCREEN_H_
