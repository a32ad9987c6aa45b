// What linkd shows of its link: counters of its own device, for `carillon links`,
// and lines of its log.
#ifndef CARILLON_DEVICES_LINK_LINK_FIGURES_H_
#define CARILLON_DEVICES_LINK_LINK_FIGURES_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "devices/sdk/edge.h"
#include "mesh/link_status.h"

namespace carillon::link {

// Not thread safe.
class LinkFigures {
 public:
  // Of the device that Show() gets. In simulated time there are no events in
  // flight to count: what crosses are steps.
  static std::vector<std::string> CounterNames(bool simulated);

  void Show(const mesh::LinkStatus& status, edge::Device& device);

 private:
  // Each sentence once, and not each time that somebody tries.
  void Say(const std::string& sentence);

  uint64_t refused_ = 0;        // when they were last shown
  uint64_t takeovers_ = 0;      // the same
  std::set<std::string> said_;  // that the log has
};

}  // namespace carillon::link

#endif  // CARILLON_DEVICES_LINK_LINK_FIGURES_H_
