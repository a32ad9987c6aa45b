#include "tools/testbed/testbed_run.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/headroom.h"
#include "base/status.h"
#include "base/text.h"
#include "tools/testbed/client/admin_client.h"
#include "tools/testbed/topology/reader.h"

namespace carillon::testbed {
namespace {

std::chrono::milliseconds InMilliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

// What the supervisor has open beside one pidfd a device, and what a start of a
// process opens for a moment.
constexpr size_t kDescriptors = 40;
// gRPC's timers, resolver and executor, and as many stacks again as room for the
// memory that it takes meanwhile; gpud needs more than that.
constexpr size_t kThreads = 20;
// gRPC's event engine starts one for each core, within these bounds.
constexpr size_t kMinEngineThreads = 2;
constexpr size_t kMaxEngineThreads = 32;

// Keeps gRPC and its engine until the process ends, by a channel that is never
// used. When their last user goes, they wait for their threads, even for one that
// could not be started: where there can be none, that is for ever.
void KeepGrpc() {
  [[gnu::used]] static const auto* const kept =
      new std::shared_ptr<grpc::Channel>(grpc::CreateChannel(
          "unix:/dev/null", grpc::InsecureChannelCredentials()));
}

}  // namespace

absl::Status CheckHeadroomOfRun(size_t devices) {
  const size_t engine =
      std::clamp<size_t>(std::thread::hardware_concurrency(), kMinEngineThreads,
                         kMaxEngineThreads);
  const absl::Status status =
      CheckHeadroom(kDescriptors + devices, kThreads + engine);
  if (status.ok()) return status;
  return absl::Status(
      status.code(),
      fmt::format("a testbed's supervisor cannot run: {}", status.message()));
}

absl::StatusOr<std::unique_ptr<TestbedRun>> TestbedRun::Make(
    const Topology& topology, const std::string& source,
    const UpOptions& options, Say say) {
  RETURN_IF_ERROR(CheckHeadroomOfRun(topology.devices.size()));
  const TestbedPaths paths = PathsOf(topology.name);
  ASSIGN_OR_RETURN(auto plan, PlanLaunch(topology, paths));
  // The reader of the narration may go away; that must not end the testbed.
  signal(SIGPIPE, SIG_IGN);
  // Made before gRPC starts its threads, so that they inherit the mask.
  std::unique_ptr<TestbedRun> run(new TestbedRun());
  ASSIGN_OR_RETURN(auto directory, LockedDirectory::Create(paths));
  if (std::ranges::any_of(plan.devices, &PlannedProcess::other_user)) {
    directory.LetOthersPass();
  }
  KeepGrpc();
  run->probe_ = std::make_unique<GrpcReadinessProbe>(paths);
  run->supervisor_ = std::make_unique<Supervisor>(
      std::move(plan), std::move(directory), run->probe_.get(), &run->requests_,
      Supervisor::Options{
          .ready_budget = InMilliseconds(options.timeout_s),
          .backoff = {.proven = InMilliseconds(options.restart_proven_s)},
          .topology_file = source,
          .say = std::move(say)});
  return run;
}

Json UpDocument(const Supervisor& supervisor) {
  Json document = ToJson(supervisor.state());
  document["directory"] = supervisor.paths().directory();
  return document;
}

absl::Status EndRun(Supervisor& supervisor) {
  const absl::Status status = supervisor.TakeDown();
  if (!status.ok() || supervisor.casualties().empty()) return status;
  return absl::FailedPreconditionError(fmt::format(
      "not everything went well: {}", JoinWords(supervisor.casualties())));
}

}  // namespace carillon::testbed
