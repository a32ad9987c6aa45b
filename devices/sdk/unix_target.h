// Makes the name by which gRPC knows a Unix socket.
#ifndef CARILLON_DEVICES_SDK_UNIX_TARGET_H_
#define CARILLON_DEVICES_SDK_UNIX_TARGET_H_

#include <string>

namespace carillon::edge {

// The target, for a client or a server, of a socket whose path may have any
// characters.
std::string UnixTarget(const std::string& socket_path);

}  // namespace carillon::edge

#endif  // CARILLON_DEVICES_SDK_UNIX_TARGET_H_
