// Whether this process can still have what it is about to need. The libraries
// beneath (gRPC, ZeroMQ) abort or wait for ever where they cannot have a
// descriptor or a thread: so it is tried out before.
#ifndef CARILLON_BASE_HEADROOM_H_
#define CARILLON_BASE_HEADROOM_H_

#include <cstddef>

#include "absl/status/status.h"

namespace carillon {

// Opens so many descriptors, starts so many threads, and gives all of it back.
// Errors: ResourceExhausted, naming what is missing, how many there could be,
// and the limit to raise.
absl::Status CheckHeadroom(size_t descriptors, size_t threads);

// Raises this process's soft limit of descriptors to the hard one.
void RaiseDescriptorLimit();

}  // namespace carillon

#endif  // CARILLON_BASE_HEADROOM_H_
