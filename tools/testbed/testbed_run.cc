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
  Supervisor::Options supervisor{
      .ready_budget = InMilliseconds(options.timeout_s),
      .backoff = {.proven = InMilliseconds(options.restart_proven_s)},
      .topology_file = source,
      .say = say};
  if (topology.part && !topology.etcd.empty()) {
    // The registration's thread narrates, too.
    supervisor.say =
        [say, mutex = std::make_shared<std::mutex>()](const std::string& line) {
          std::lock_guard lock(*mutex);
          say(line);
        };
    Topology joined = topology;
    absl::Status status = run->Join(joined, paths, options, supervisor.say);
    if (status.ok()) {
      auto again = PlanLaunch(joined, paths);  // with the links' addresses
      status = again.status();
      if (again.ok()) plan = *std::move(again);
    }
    if (!status.ok()) {
      run->Leave(status);
      (void)directory.Remove();
      return status;
    }
    if (run->own_etcd_) {
      supervisor.etcd_changed_fd = run->own_etcd_->changed_fd();
      supervisor.etcd = [run = run.get()]() -> std::optional<ProcessRecord> {
        if (!run->own_etcd_) return std::nullopt;
        return run->own_etcd_->record();
      };
    }
    supervisor.publish = [run = run.get()](const TestbedState& state) {
      if (run->registration_) run->registration_->Publish(state);
    };
    supervisor.end = [run = run.get()](const absl::Status& failure) {
      run->Leave(failure);
    };
  }
  run->probe_ = std::make_unique<GrpcReadinessProbe>(paths);
  run->supervisor_ = std::make_unique<Supervisor>(
      std::move(plan), std::move(directory), run->probe_.get(), &run->requests_,
      std::move(supervisor));
  return run;
}

absl::Status TestbedRun::Join(Topology& topology, const TestbedPaths& paths,
                              const UpOptions& options, Say say) {
  const auto stopped = [this] { return requests_.Take() > 0; };
  const auto patience = InMilliseconds(options.timeout_s);
  if (topology.own_etcd && topology.part->has_gpu) {
    ASSIGN_OR_RETURN(own_etcd_,
                     OwnEtcdKeeper::Start(topology, paths,
                                          {.say = say, .stopped = stopped}));
  } else if (topology.own_etcd) {
    RETURN_IF_ERROR(AwaitOwnEtcd(topology, patience, say, stopped));
  }
  ASSIGN_OR_RETURN(
      registration_,
      HostRegistration::Take(
          topology, {.say = std::move(say),
                     // As by `carillon down`: it comes out of requests_.
                     .end = [] { kill(getpid(), SIGTERM); }}));
  return registration_->AwaitGpu(*topology.part, patience, stopped);
}

void TestbedRun::Leave(const absl::Status& failure) {
  if (registration_) {
    if (!failure.ok()) registration_->NoteFailure(failure);
    lost_ = registration_->Judge();
  }
  registration_.reset();
  own_etcd_.reset();
}

absl::Status TestbedRun::End() {
  const absl::Status status = EndRun(*supervisor_);
  RETURN_IF_ERROR(lost_);
  return status;
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
