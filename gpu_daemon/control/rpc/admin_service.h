// The gRPC service Admin: people and tools look into a testbed and steer it.
#ifndef CARILLON_GPU_DAEMON_CONTROL_RPC_ADMIN_SERVICE_H_
#define CARILLON_GPU_DAEMON_CONTROL_RPC_ADMIN_SERVICE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "gpu_daemon/control/rpc/change_log.h"
#include "gpu_daemon/control/rpc/snapshot.h"
#include "gpu_daemon/control/rpc/snapshot_sampler.h"
#include "gpu_daemon/control/sessions/session_context.h"
#include "gpu_daemon/control/sessions/session_table.h"
#include "gpu_daemon/control/telemetry_bus.h"
#include "proto/admin.grpc.pb.h"

namespace carillon::gpud {

// Implements carillon.v1.Admin; proto/admin.proto describes the calls. Every
// figure is read where it is kept, at the moment of the call.
class AdminService final : public v1::Admin::Service {
 public:
  struct ServerInfo {
    std::string testbed;
    Nanoseconds started_ns = 0;
  };

  // `request_shutdown` returns at once. `describe_tcp` fills in the fields of
  // GetStatusResponse that are of TCP.
  AdminService(ServerInfo info, SessionContext* context, SessionTable* sessions,
               ChangeLog* changes, std::function<void()> request_shutdown,
               std::function<void(const std::string& grpc_peer)> cut,
               std::function<void(v1::GetStatusResponse*)> describe_tcp)
      : info_(std::move(info)),
        context_(context),
        sessions_(sessions),
        changes_(changes),
        request_shutdown_(std::move(request_shutdown)),
        cut_(std::move(cut)),
        describe_tcp_(std::move(describe_tcp)) {}

  grpc::Status GetStatus(grpc::ServerContext* context,
                         const v1::GetStatusRequest* request,
                         v1::GetStatusResponse* response) override;
  grpc::Status ListDevices(grpc::ServerContext* context,
                           const v1::ListDevicesRequest* request,
                           v1::ListDevicesResponse* response) override;
  grpc::Status ListEkt(grpc::ServerContext* context,
                       const v1::ListEktRequest* request,
                       v1::ListEktResponse* response) override;
  grpc::Status ListRings(grpc::ServerContext* context,
                         const v1::ListRingsRequest* request,
                         v1::ListRingsResponse* response) override;
  grpc::Status ListQueues(grpc::ServerContext* context,
                          const v1::ListQueuesRequest* request,
                          v1::ListQueuesResponse* response) override;
  grpc::Status Watch(grpc::ServerContext* context,
                     const v1::WatchRequest* request,
                     grpc::ServerWriter<v1::TelemetryEvent>* writer) override;
  grpc::Status StreamSnapshots(
      grpc::ServerContext* context, const v1::StreamSnapshotsRequest* request,
      grpc::ServerWriter<v1::Snapshot>* writer) override;
  grpc::Status SetPolicy(grpc::ServerContext* context,
                         const v1::SetPolicyRequest* request,
                         v1::SetPolicyResponse* response) override;
  grpc::Status ResetStatistics(grpc::ServerContext* context,
                               const v1::ResetStatisticsRequest* request,
                               v1::ResetStatisticsResponse* response) override;
  grpc::Status SetTracing(grpc::ServerContext* context,
                          const v1::SetTracingRequest* request,
                          v1::SetTracingResponse* response) override;
  grpc::Status Drain(grpc::ServerContext* context,
                     const v1::DrainRequest* request,
                     v1::DrainResponse* response) override;
  grpc::Status Shutdown(grpc::ServerContext* context,
                        const v1::ShutdownRequest* request,
                        v1::ShutdownResponse* response) override;
  grpc::Status RegisterModule(grpc::ServerContext* context,
                              const v1::RegisterModuleRequest* request,
                              v1::RegisterModuleResponse* response) override;

  // Ends the calls to Watch and StreamSnapshots whose callers stopped reading: a
  // blocked write ends no other way. Where the call's end does not get through
  // either, because the caller is stopped, its connection ends.
  void CancelStuckStreams(Nanoseconds now);
  // Ends the calls to StreamSnapshots, as the bus's end does those to Watch.
  void EndSnapshots() { sampler_.Close(); }

 private:
  // Since when a caller has not read what it must; 0: it has.
  using StuckSince = std::function<Nanoseconds()>;
  // A call to Watch or StreamSnapshots in progress.
  struct Stream {
    grpc::ServerContext* context = nullptr;
    StuckSince stuck_since_ns;
  };
  // Runs `body` as one of the streams, if there is room: `begin` comes first
  // then, and what it returns is called by another thread until `body` ends.
  // Errors: ResourceExhausted TOO_MANY; those of `body`.
  absl::Status Serve(grpc::ServerContext* context,
                     absl::FunctionRef<StuckSince()> begin,
                     absl::FunctionRef<absl::Status()> body);

  uint64_t InFlight() const;
  absl::Status CheckShare(const v1::DeviceShare& share) const;
  void SetShare(const v1::DeviceShare& share);
  // Adds the launch paths, the default first.
  void DescribePaths(v1::GetStatusResponse* response) const;

  const ServerInfo info_;
  SessionContext* const context_;
  SessionTable* const sessions_;
  ChangeLog* const changes_;
  const std::function<void()> request_shutdown_;
  // Ends a caller's connection.
  const std::function<void(const std::string& grpc_peer)> cut_;
  const std::function<void(v1::GetStatusResponse*)> describe_tcp_;
  // How many calls to Drain are in progress. They write and read it. Relaxed,
  // because only the number counts.
  std::atomic<uint32_t> drains_{0};
  Mutex streams_mutex_;
  std::list<Stream> streams_ ABSL_GUARDED_BY(streams_mutex_);
  SnapshotSampler sampler_{
      [this](const SnapshotSampler::Wanted& wanted, const Sample& last) {
        return TakeSample(*context_, *sessions_, wanted, last);
      }};
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_RPC_ADMIN_SERVICE_H_
