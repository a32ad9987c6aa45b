// How fast a testbed's figures grow: what differs between its pictures.
#ifndef CARILLON_TOOLS_TESTBED_CLIENT_SNAPSHOT_RATES_H_
#define CARILLON_TOOLS_TESTBED_CLIENT_SNAPSHOT_RATES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "proto/admin.pb.h"
#include "tools/testbed/client/snapshot_picture.h"

namespace carillon::testbed {

// One stream's, as the SnapshotPicture that it looks at: another gpud's stream
// begins anew. Not thread safe. Rates are events that ended (done, failed,
// aborted) per second between the last two looks; nothing for what was not
// there at both.
class SnapshotRates {
 public:
  // Looks at a picture; one of the same moment as the last one changes nothing.
  void Look(const SnapshotPicture& picture);

  std::optional<double> all() const { return all_; }
  std::optional<double> OfRing(uint32_t ekt_index) const;
  // In all rings of the device; nothing if none has a rate.
  std::optional<double> OfDevice(const std::string& device) const;
  // From rung to finished, of the traced events that ended in the last window
  // of a second, or of the time between two looks if that is longer. No buckets:
  // there was none.
  v1::Histogram Latencies(uint32_t ekt_index) const;

 private:
  struct Ring {
    uint32_t generation = 0;
    std::string device;
    uint64_t ended = 0;
    std::optional<double> rate;
    uint64_t window_ns = 0;     // since when its window lasts
    v1::Histogram before;       // of all time, when the window began
    v1::Histogram last_window;  // of the one before
  };

  uint64_t looked_ns_ = 0;  // 0: never
  uint64_t ended_ = 0;
  std::optional<double> all_;
  std::map<uint32_t, Ring> rings_;  // by ekt_index
};

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_CLIENT_SNAPSHOT_RATES_H_
