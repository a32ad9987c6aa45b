// Accepts connections in such a way that a lack of descriptors ends in
// refusals.
#ifndef CARILLON_GPU_DAEMON_CONTROL_NET_ACCEPT_H_
#define CARILLON_GPU_DAEMON_CONTROL_NET_ACCEPT_H_

#include <sys/types.h>

#include "base/unique_fd.h"

namespace carillon::gpud {

// Opens a descriptor that can be given up for a moment when there is no other.
UniqueFd OpenReserve();

// Returns the next connection of a non-blocking listener (non-blocking,
// close-on-exec), or none. When the process is out of descriptors, it refuses
// connections instead of leaving them: a level-triggered loop would spin on
// them.
UniqueFd AcceptConnection(int listener, UniqueFd* reserve);

// The inode of a connection, which tells it from a later one with the same
// descriptor. Returns 0 if it is not open.
ino_t InodeOf(int connection);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_NET_ACCEPT_H_
