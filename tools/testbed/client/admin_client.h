// The command line's client of the control plane.
#ifndef CARILLON_TOOLS_TESTBED_CLIENT_ADMIN_CLIENT_H_
#define CARILLON_TOOLS_TESTBED_CLIENT_ADMIN_CLIENT_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/testbed_paths.h"
#include "proto/admin.pb.h"
#include "proto/events.pb.h"
#include "tools/testbed/client/remote_gpud.h"
#include "tools/testbed/supervisor/readiness.h"

namespace carillon::testbed {

// Every call takes at most `timeout`. Errors: Unavailable (no server),
// DeadlineExceeded, Cancelled (CancelCalls), Unauthenticated (over TCP: see
// Diagnose()), and those of gpud. Thread safe.
class AdminClient {
 public:
  explicit AdminClient(
      const TestbedPaths& paths,
      std::chrono::milliseconds timeout = std::chrono::seconds(5));
  // Connects over TCP.
  explicit AdminClient(RemoteGpud gpud, std::chrono::milliseconds timeout =
                                            std::chrono::seconds(5));
  ~AdminClient();

  // OK when the health service says SERVING.
  absl::Status CheckHealth();

  absl::StatusOr<v1::GetStatusResponse> GetStatus();
  absl::StatusOr<v1::ListDevicesResponse> ListDevices();
  absl::StatusOr<v1::ListEktResponse> ListEkt();
  absl::StatusOr<v1::ListRingsResponse> ListRings();
  absl::StatusOr<v1::ListQueuesResponse> ListQueues();
  absl::StatusOr<v1::ListKernelsResponse> ListKernels();
  // Returns the previous policy.
  absl::StatusOr<std::string> SetPolicy(const std::string& policy);
  absl::Status SetShare(const v1::DeviceShare& share);
  absl::Status SetTracing(bool on);
  absl::Status ResetStatistics();
  // Takes up to a minute, because the driver may have to compile.
  absl::StatusOr<v1::RegisterModuleResponse> RegisterModule(
      const v1::RegisterModuleRequest& request);
  // gpud waits for at most `limit`.
  absl::Status Drain(std::chrono::milliseconds limit);
  // Calls `on_event` until it returns false (then OK) or the stream ends.
  // `on_event` also gets a null pointer about every 100 ms.
  absl::Status Watch(
      const std::function<bool(const v1::TelemetryEvent*)>& on_event);
  // The same with snapshots, for a SnapshotPicture.
  absl::Status StreamSnapshots(
      const v1::StreamSnapshotsRequest& request,
      const std::function<bool(const v1::Snapshot*)>& on_snapshot);

 private:
  struct Channel;  // gRPC, which the many files that ask gpud need not compile

  const std::unique_ptr<Channel> channel_;
};

// rung - done - failed - aborted; 0 when that is negative.
uint64_t InFlight(const v1::EventCounts& counts);
// DataLoss if more events ended than were rung.
absl::Status CheckLedger(const v1::EventCounts& counts);

// Of a host without the GPU, its link: "up", "down: Connection refused"; empty:
// it is another's.
std::string LinkStateOf(const v1::GetStatusResponse& status);

class GrpcReadinessProbe : public ReadinessProbe {
 public:
  explicit GrpcReadinessProbe(const TestbedPaths& paths);
  absl::Status Gpud(std::string* note) override;
  absl::StatusOr<std::map<std::string, DeviceReadiness>> Devices() override;
  absl::Status Link() override;

 private:
  AdminClient client_;
};

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_CLIENT_ADMIN_CLIENT_H_
