// The socket of those who look into a testbed and steer it.
#ifndef CARILLON_BASE_OPERATOR_SOCKET_H_
#define CARILLON_BASE_OPERATOR_SOCKET_H_

#include <string>

#include "base/testbed_paths.h"

namespace carillon {

// gRPC: all of gpud's services. Devices have TestbedPaths::control_socket().
inline std::string OperatorSocketOf(const TestbedPaths& paths) {
  return paths.directory() + "/operator.sock";
}

}  // namespace carillon

#endif  // CARILLON_BASE_OPERATOR_SOCKET_H_
