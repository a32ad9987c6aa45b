// The board of faults of a gpud on another machine.
#ifndef CARILLON_TOOLS_TESTBED_CLIENT_FAULTS_CLIENT_H_
#define CARILLON_TOOLS_TESTBED_CLIENT_FAULTS_CLIENT_H_

#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "proto/faults.pb.h"
#include "shm/faults/fault.h"
#include "tools/testbed/client/remote_gpud.h"

namespace carillon::testbed {

// Errors: those of AdminClient, and gpud's answers (proto/faults.proto). Thread
// safe.
class FaultsClient {
 public:
  explicit FaultsClient(RemoteGpud gpud);
  ~FaultsClient();

  absl::StatusOr<v1::ListFaultsResponse> List();
  absl::StatusOr<v1::InjectResponse> Inject(
      std::span<const faults::Fault> faults);
  // Clears the fault, or all if `name` is empty. Returns how many it were.
  absl::StatusOr<uint32_t> Clear(const std::string& name);

 private:
  struct Channel;
  const std::unique_ptr<Channel> channel_;
};

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_CLIENT_FAULTS_CLIENT_H_
