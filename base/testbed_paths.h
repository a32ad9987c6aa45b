// Where the processes of one testbed meet: names inside the testbed's
// directory, which is mode 0700 and belongs to the user who brought the testbed
// up.
#ifndef CARILLON_BASE_TESTBED_PATHS_H_
#define CARILLON_BASE_TESTBED_PATHS_H_

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"

namespace carillon {

class TestbedPaths {
 public:
  explicit TestbedPaths(std::string directory)
      : directory_(std::move(directory)) {}

  const std::string& directory() const { return directory_; }
  // gRPC for devices
  std::string control_socket() const { return directory_ + "/control.sock"; }
  // gRPC for those who look into the testbed and steer it: all services
  std::string operator_socket() const { return directory_ + "/operator.sock"; }
  // apertures
  std::string handover_socket() const { return directory_ + "/handover.sock"; }
  // ZeroMQ PUB
  std::string bus_socket() const { return directory_ + "/bus.sock"; }
  // flock: the testbed is up
  std::string lock_file() const { return directory_ + "/lock"; }
  // flock: gpud runs
  std::string gpud_lock() const { return directory_ + "/gpud.lock"; }
  // The pid of the gpud that was last asked to make way for another. Writer: the
  // supervisor, before it asks; readers: devices, once their gpud has gone.
  std::string restart_mark() const { return directory_ + "/gpud.restarts"; }
  std::string state_file() const { return directory_ + "/state.json"; }
  std::string log_directory() const { return directory_ + "/logs"; }
  // flight recorders' files
  std::string recorder_directory() const { return directory_ + "/recorder"; }
  // faults::Board; only with `gpud --faults`
  std::string fault_board() const { return directory_ + "/faults"; }

 private:
  std::string directory_;
};

// What a Unix socket's address holds beside the byte that ends it.
inline constexpr size_t kMaxSocketPath = 107;

// InvalidArgument when `path` is too long for a socket.
absl::Status CheckSocketPath(const std::string& path);

// The directory that holds the testbeds of this user: $CARILLON_RUNTIME_DIR, or
// $XDG_RUNTIME_DIR/carillon, or /tmp/carillon-<uid>. Absolute, without "..",
// and without a "/" at its end.
std::string RuntimeDirectory();

// The environment variable in which a testbed's processes find their directory.
inline constexpr char kTestbedDirectoryVariable[] = "CARILLON_TESTBED_DIR";
// The one in which a device that `carillon up` started finds its name.
inline constexpr char kDeviceNameVariable[] = "CARILLON_DEVICE_NAME";
// The one that says for how many seconds it waits for another gpud when gpud has
// died.
inline constexpr char kResumeWithinVariable[] = "CARILLON_RESUME_WITHIN_S";

}  // namespace carillon

#endif  // CARILLON_BASE_TESTBED_PATHS_H_
