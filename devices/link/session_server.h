// linkd in simulated time: says to this host's gpud what the devices of another
// host say, and lives at their sessions' turns (docs/mesh.md).
#ifndef CARILLON_DEVICES_LINK_SESSION_SERVER_H_
#define CARILLON_DEVICES_LINK_SESSION_SERVER_H_

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devices/link/link_figures.h"
#include "devices/link/linkd_options.h"
#include "devices/link/linked_sessions.h"
#include "devices/sdk/device_main.h"
#include "devices/sdk/edge.h"
#include "mesh/session/step_link.h"
#include "proto/admin.grpc.pb.h"

namespace carillon::link {

// One thread, Run()'s, but for what lists the devices.
class SessionServer {
 public:
  // Waits for gpud. Errors: those of AttachSelf() and FarStepLink::Start();
  // FailedPrecondition: gpud lives in wall time.
  static absl::StatusOr<std::unique_ptr<SessionServer>> Start(
      const edge::DeviceContext& context, const LinkdOptions& options,
      const std::string& simulation);
  ~SessionServer();

  // Until a stop is asked for. Errors: Unavailable: the testbed has gone down.
  absl::Status Run();

 private:
  SessionServer(const edge::DeviceContext& context, const LinkdOptions& options)
      : context_(context), options_(options) {}

  void TakeNews();
  // In threads of their own: linkd's own device takes no turns, and operators see
  // the link, and on the other host its devices.
  void LetTimeGo();
  void ShowAll();
  void ListDevices(v1::Admin::Stub& admin);

  const edge::DeviceContext& context_;
  const LinkdOptions options_;
  const mesh::Alarm news_;
  std::unique_ptr<edge::Device> self_;
  std::unique_ptr<mesh::FarStepLink> link_;
  std::optional<LinkedSessions> sessions_;
  std::atomic<bool> stop_{false};  // writer: the destructor
  std::thread time_;
  LinkFigures figures_;  // of show_
  std::thread show_;
};

}  // namespace carillon::link

#endif  // CARILLON_DEVICES_LINK_SESSION_SERVER_H_
