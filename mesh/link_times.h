// For how long the ends of a link wait for each other.
#ifndef CARILLON_MESH_LINK_TIMES_H_
#define CARILLON_MESH_LINK_TIMES_H_

#include "base/clock.h"

namespace carillon::mesh {

struct LinkTimes {
  Nanoseconds ping = 100'000'000;
  // A connection on which nothing comes for so long is cut.
  Nanoseconds timeout = 1'000'000'000;
  // A link that is down for so long is lost, with all events in flight.
  Nanoseconds lease = 60'000'000'000;
};

}  // namespace carillon::mesh

#endif  // CARILLON_MESH_LINK_TIMES_H_
