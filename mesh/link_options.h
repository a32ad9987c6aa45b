// What the two ends of a link have in common: who they are, what they expect of
// each other, and for how long they wait.
#ifndef CARILLON_MESH_LINK_OPTIONS_H_
#define CARILLON_MESH_LINK_OPTIONS_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "mesh/frame.h"
#include "mesh/link_times.h"
#include "shm/types.h"

namespace carillon::mesh {

// A connection, numbered from 1 by each end for itself. 0: none.
using Epoch = shm::Strong<struct EpochTag, uint64_t>;

// Bytes for the connection `epoch`, and for no other.
struct Out {
  Epoch epoch;
  std::string bytes;
};

struct LinkOptions {
  Hello self;
  std::string peer;  // the host at the other end
  LinkTimes times;
};

// Rings that a far end holds at most; a near end has no use for more.
inline constexpr size_t kMaxRings = 1024;

// HELLO's build: "0.1.0, frames 4, events 1". Two ends of which it differs may
// not understand each other.
std::string OwnBuild();

// Whether that is who this end has a link with. Errors: FailedPrecondition,
// naming both values: another testbed, host, build or catalogue.
absl::Status CheckHello(const LinkOptions& mine, const Hello& theirs);

}  // namespace carillon::mesh

#endif  // CARILLON_MESH_LINK_OPTIONS_H_
