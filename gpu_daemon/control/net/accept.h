// Accepting connections so that a lack of descriptors ends in refusals.
#ifndef CARILLON_GPU_DAEMON_CONTROL_NET_ACCEPT_H_
#define CARILLON_GPU_DAEMON_CONTROL_NET_ACCEPT_H_

#include "base/unique_fd.h"

namespace carillon::gpud {

// A descriptor to give up for a moment when there is no other.
UniqueFd OpenReserve();

// The next connection of a non-blocking listener (non-blocking, close-on-exec),
// or none. When the process is out of descriptors, connections are refused
// instead of left waiting: a level-triggered loop would spin on them.
UniqueFd AcceptConnection(int listener, UniqueFd* reserve);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_NET_ACCEPT_H_
