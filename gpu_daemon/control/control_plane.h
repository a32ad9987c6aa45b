// The whole of gpud: the parts that run kernels, and the sockets through which
// processes reach them.
//
//   control.sock   gRPC for devices: Devices, Events, health
//   operator.sock  gRPC: these and Admin, Faults, reflection
//   TCP, if asked  the same, with TLS, if the caller's certificate has the role
//   handover.sock  apertures against tickets
//   bus.sock       ZeroMQ: telemetry
#ifndef CARILLON_GPU_DAEMON_CONTROL_CONTROL_PLANE_H_
#define CARILLON_GPU_DAEMON_CONTROL_CONTROL_PLANE_H_

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "gpu_daemon/control/net/control_listener.h"
#include "gpu_daemon/control/net/daemon_lock.h"
#include "gpu_daemon/control/net/peer.h"
#include "gpu_daemon/control/net/refusal_log.h"
#include "gpu_daemon/control/net/tcp_listener.h"
#include "gpu_daemon/control/net/ticket_store.h"
#include "gpu_daemon/control/rpc/admin_service.h"
#include "gpu_daemon/control/rpc/bounded_service.h"
#include "gpu_daemon/control/rpc/caller.h"
#include "gpu_daemon/control/rpc/change_log.h"
#include "gpu_daemon/control/rpc/device_gate.h"
#include "gpu_daemon/control/rpc/devices_service.h"
#include "gpu_daemon/control/rpc/events_service.h"
#include "gpu_daemon/control/rpc/faults_service.h"
#include "gpu_daemon/control/rpc/role_gate.h"
#include "gpu_daemon/control/sessions/handover_server.h"
#include "gpu_daemon/control/sessions/memory_budget.h"
#include "gpu_daemon/control/sessions/session_context.h"
#include "gpu_daemon/control/sessions/session_table.h"
#include "gpu_daemon/control/telemetry_bus.h"
#include "gpu_daemon/event/kernel_catalog.h"
#include "gpu_daemon/options/gpud_options.h"
#include "shm/faults/board.h"
#include "shm/recorder/flight_recorder.h"

namespace carillon::gpud {

class ControlPlane {
 public:
  using Options = GpudOptions;

  // Locks the directory, starts the GPU and opens the sockets. Clients are
  // served once Run() runs. Errors: AlreadyExists (the testbed is up, a socket
  // is served on), FailedPrecondition (directory, kernel without futex_waitv),
  // InvalidArgument (options, path, certificates), NotFound (policy),
  // ResourceExhausted, Unavailable.
  static absl::StatusOr<std::unique_ptr<ControlPlane>> Start(Options options);
  ~ControlPlane();  // shuts down, and waits for kernels that still run

  // Serves until RequestShutdown(), Admin.Shutdown or stop_fd.
  void Run();
  // Thread safe; returns at once.
  void RequestShutdown();
  // The address on which it listens over TCP, with the real port; or empty.
  std::string listen_address() const;
  // TcpListener::unread_bytes(); 0 without --listen.
  uint64_t unread_bytes() const;
  // Ends everything, after Run(), in this order: health NOT_SERVING,
  // ShuttingDown published, sessions closed, calls ended, sockets unlinked.
  // Does not wait for running kernels.
  void ShutDown();

 private:
  explicit ControlPlane(Options options);
  absl::Status Open();
  absl::Status OpenBoard();
  void LoadKeptModules();
  void NoteLost(const v1::RegisterModuleRequest& kept, const absl::Status& why);
  absl::Status StartServers();
  absl::Status AddTcp(grpc::ServerBuilder& builder);
  void DescribeTcp(v1::GetStatusResponse* response) const;
  absl::Status OpenSockets();
  absl::StatusOr<std::unique_ptr<ControlListener>> Listen(
      const std::string& path, std::vector<uid_t> users, grpc::Server* server);
  absl::Status StartClock();
  void Tick();

  const Options options_;
  std::optional<DaemonLock> lock_;
  std::unique_ptr<shm::FlightRecorder> recorder_;
  std::unique_ptr<faults::Board> board_;
  std::unique_ptr<faults::Member> member_;  // goes when no thread passes points
  // Sessions and launches refer to these, so they are destroyed last.
  MemoryBudget budget_;
  EventKernelTable ekt_;
  PeerTable peers_;
  RefusalLog overruns_;  // the loop's thread only
  TicketStore tickets_;
  SessionContext context_;
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<TelemetryBus> bus_;
  std::unique_ptr<Backend> backend_;
  KernelCatalog kernels_;
  ModuleStore modules_;
  SessionTable sessions_;
  Callers callers_;
  DevicesService devices_;
  EventsService events_;
  ChangeLog changes_{&peers_};
  FaultsService faults_{&changes_};
  std::optional<AdminService> admin_;
  DeviceGate device_gate_;
  // The four as gRPC has them.
  BoundedDevices bounded_devices_{&devices_};
  BoundedEvents bounded_events_{&events_};
  BoundedFaults bounded_faults_{&faults_};
  std::optional<BoundedAdmin> bounded_admin_;
  // These three exist if gpud serves over TCP.
  std::shared_ptr<RoleGate> gate_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> tcp_acceptor_;
  std::unique_ptr<TcpListener> tcp_listener_;
  // Each has threads of its own: devices cannot take those of operators.
  std::unique_ptr<grpc::Server> device_server_;
  std::unique_ptr<grpc::Server> operator_server_;
  std::unique_ptr<ControlListener> control_listener_;
  std::unique_ptr<ControlListener> operator_listener_;
  std::unique_ptr<HandoverServer> handover_server_;
  Nanoseconds trimmed_ns_ = 0;  // the main loop's thread only
  bool restarts_ = false;       // the next gpud takes over what devices have
  bool down_ = false;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_CONTROL_PLANE_H_
