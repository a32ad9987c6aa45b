#include "gpu_daemon/relay/session_relay.h"

#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_posix.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <utility>

#include "absl/strings/str_replace.h"
#include "base/incarnation/incarnation.h"
#include "base/status.h"
#include "base/testbed_paths.h"
#include "fmt/format.h"
#include "gpu_daemon/control/net/peer.h"
#include "gpu_daemon/control/net/user_access.h"
#include "gpu_daemon/relay/run_relay.h"
#include "kernels/catalogue.h"
#include "shm/faults/point.h"

namespace carillon::gpud {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLook{5};
constexpr milliseconds kLastCalls{500};
constexpr milliseconds kExpire{1000};

absl::StatusOr<UniqueFd> AcceptUser(UnixListener& listener,
                                    const std::vector<uid_t>& users,
                                    PeerCredentials* peer) {
  UniqueFd connection = listener.Accept();
  if (!connection) return absl::UnavailableError("nobody");
  ASSIGN_OR_RETURN(*peer, CredentialsOf(connection.get()));
  RETURN_IF_ERROR(CheckUser(peer->uid, geteuid(), users));
  return connection;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SessionRelay>> SessionRelay::Start(
    const GpudOptions& options, const std::string& simulation) {
  std::unique_ptr<SessionRelay> relay(new SessionRelay(options, simulation));
  RETURN_IF_ERROR(relay->Open());
  return relay;
}

SessionRelay::~SessionRelay() {
  ShutDown();
  link_.reset();  // its thread may be in a function of ours
}

absl::Status SessionRelay::Open() {
  const TestbedPaths paths(options_.directory);
  for (const std::string& path :
       {paths.control_socket(), paths.operator_socket(),
        paths.handover_socket()}) {
    RETURN_IF_ERROR(CheckSocketPath(path));
  }
  RETURN_IF_ERROR(Check(options_));
  if (options_.backend != kRemoteBackend) {
    return absl::InvalidArgumentError(
        "--link-simulation: it goes with --backend remote (backend)");
  }
  for (const auto& [flag, given] :
       {std::pair("--faults", options_.faults),
        std::pair("--record", options_.record != 0),
        std::pair("--listen", !options_.listen.empty())}) {
    if (!given) continue;
    return absl::UnimplementedError(
        fmt::format("{}: a gpud that relays its devices in simulated time has "
                    "none: leave it out, or simulate all hosts on one machine",
                    flag));
  }
  ASSIGN_OR_RETURN(users_, ReadUids(options_.device_users));
  RETURN_IF_ERROR(PrepareDirectory(options_.directory));
  if (!users_.empty()) {
    RETURN_IF_ERROR(
        LetUsers(options_.directory, users_, UserAccess::kPassThrough));
  }
  ASSIGN_OR_RETURN(lock_,
                   DaemonLock::Take(options_.directory, options_.testbed));
  ASSIGN_OR_RETURN(loop_, EventLoop::Create());
  if (options_.stop_fd >= 0) {
    RETURN_IF_ERROR(
        loop_->Watch(options_.stop_fd, [this] { loop_->Stop(); }).status());
  }
  if (options_.restart_fd >= 0) {
    // Another one could not go on, either.
    RETURN_IF_ERROR(
        loop_->Watch(options_.restart_fd, [this] { loop_->Stop(); }).status());
  }
  sessions_.emplace(
      loop_.get(), options_.backend_options.remote.peer, NowNs(),
      [this](const v1::SessionStep& step) { link_->Send(step); },
      [this] {
        // A connection that comes and goes is two steps as well.
        if (!paused_ && link_->is_full()) Pause();
      });
  RETURN_IF_ERROR(Connect());
  admin_.emplace(
      options_.backend_options.remote.peer,
      RelayAdmin::Answers{.status = [this] { return Status(); },
                          .devices = [this] { return sessions_->Devices(); }});
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  builder.RegisterCallbackGenericService(&*admin_);
  operator_server_ = builder.BuildAndStart();
  if (operator_server_ == nullptr) {
    return absl::UnavailableError("cannot start the gRPC server");
  }
  // An operator's comes last of all: who finds it may start devices.
  ASSIGN_OR_RETURN(handover_, UnixListener::Listen(paths.handover_socket(),
                                                   SOCK_SEQPACKET, users_));
  ASSIGN_OR_RETURN(control_, UnixListener::Listen(paths.control_socket(),
                                                  SOCK_STREAM, users_));
  RETURN_IF_ERROR(WatchUsers());
  RETURN_IF_ERROR(
      loop_->Every(kExpire, [this] { sessions_->Expire(NowNs()); }));
  ASSIGN_OR_RETURN(operator_, UnixListener::Listen(paths.operator_socket(),
                                                   SOCK_STREAM, {}));
  ASSIGN_OR_RETURN(operator_watch_,
                   loop_->Watch(operator_.fd(), [this] { AcceptOperator(); }));
  faults::Reached(faults::State::kReady);
  return absl::OkStatus();
}

absl::Status SessionRelay::Connect() {
  const RemoteOptions& remote = options_.backend_options.remote;
  ASSIGN_OR_RETURN(
      const uint64_t incarnation,
      NextIncarnation(options_.directory + "/" + kIncarnationFile));
  auto link = mesh::NearStepLink::Start(
      {.tls = remote.tls,
       .address = remote.address,
       .link = {.self = {.testbed = options_.testbed,
                         .host = remote.host,
                         .build = mesh::OwnBuild(),
                         .catalogue = mesh::SimulatedCatalogue(
                             simt::OwnCatalogue(), simulation_),
                         .incarnation = incarnation},
                .peer = remote.peer,
                .times = {.timeout = remote.timeout, .lease = remote.lease}},
       .engine = remote.engine.engine()},
      [this] { loop_->Post([this] { TakeNews(); }); });
  if (!link.ok()) {
    return absl::Status(
        link.status().code(),
        fmt::format("--link: {}",
                    absl::StrReplaceAll(link.status().message(),
                                        {{"--tls-", "--link-"}})));
  }
  link_ = *std::move(link);
  const Nanoseconds deadline = NowNs() + remote.StartWait();
  std::array<pollfd, 2> told = {
      {{options_.stop_fd, POLLIN, 0}, {options_.restart_fd, POLLIN, 0}}};
  for (;;) {
    const mesh::LinkStatus status = link_->status();
    if (status.up) return absl::OkStatus();
    const bool is_final =
        status.lost || (!status.refusal.empty() && remote.RefusalIsFinal());
    if (is_final || NowNs() >= deadline) {
      return absl::UnavailableError("--link: " +
                                    mesh::NoLinkTo(remote.peer, status));
    }
    if (poll(told.data(), told.size(), static_cast<int>(kLook.count())) > 0) {
      return absl::CancelledError("told to end");
    }
  }
}

absl::Status SessionRelay::WatchUsers() {
  for (const auto& [fd, on] :
       {std::pair(control_.fd(), &SessionRelay::AcceptCalls),
        std::pair(handover_.fd(), &SessionRelay::AcceptDevice)}) {
    ASSIGN_OR_RETURN(const auto watch,
                     loop_->Watch(fd, [this, on = on] { (this->*on)(); }));
    users_watches_.push_back(watch);
  }
  return absl::OkStatus();
}

absl::Status SessionRelay::Run() {
  spdlog::info(
      "testbed {} is up in {}: relays its devices to host {}, in "
      "whose simulated time they live",
      options_.testbed, options_.directory,
      options_.backend_options.remote.peer);
  loop_->Run();
  if (!lost_) return absl::OkStatus();
  const std::string why = fmt::format(
      "the link to host '{}' is lost, and with it the time of its devices: {}",
      options_.backend_options.remote.peer, *lost_);
  if (!link_->status().fenced) return absl::UnavailableError(why);
  // No failure, after which a supervisor would start a newer one: the two would
  // take the place from each other for ever.
  spdlog::error("{}", why);
  return absl::OkStatus();
}

void SessionRelay::ShutDown() {
  Pause();
  if (loop_ != nullptr) loop_->Unwatch(operator_watch_);
  control_.Close();
  handover_.Close();
  operator_.Close();
  if (sessions_) {
    sessions_->EndAll(lost_ ? shm::CloseReason::kLinkLost
                            : shm::CloseReason::kShutdown);
  }
  if (operator_server_ == nullptr) return;
  operator_server_->Shutdown(std::chrono::system_clock::now() + kLastCalls);
  operator_server_->Wait();
  operator_server_.reset();
}

// While the link is full, nothing is read of what other processes say: who
// writes waits, as for any peer that is slow.
void SessionRelay::Pause() {
  paused_ = true;
  for (const auto watch : std::exchange(users_watches_, {})) {
    loop_->Unwatch(watch);
  }
  if (sessions_) sessions_->Pause();
}

void SessionRelay::GoOn() {
  paused_ = false;
  sessions_->GoOn();
  if (auto status = WatchUsers(); !status.ok()) {
    spdlog::error("no device can attach any more: {}", status.message());
  }
}

void SessionRelay::AcceptCalls() {
  PeerCredentials peer;
  auto connection = AcceptUser(control_, users_, &peer);
  if (connection.ok()) sessions_->AddCalls(*std::move(connection), peer.pid);
}

void SessionRelay::AcceptDevice() {
  PeerCredentials peer;
  auto connection = AcceptUser(handover_, users_, &peer);
  if (connection.ok()) sessions_->AddDevice(*std::move(connection), peer.pid);
}

void SessionRelay::TakeNews() {
  const mesh::StepNews news = link_->Take();
  for (const v1::SessionStep& step : news.steps) sessions_->Take(step);
  if (paused_ && !link_->is_full()) GoOn();
  if (!news.lost || lost_) return;
  lost_ = *news.lost;
  loop_->Stop();
}

void SessionRelay::AcceptOperator() {
  PeerCredentials peer;
  auto connection = AcceptUser(operator_, {}, &peer);
  if (!connection.ok()) return;
  grpc::AddInsecureChannelFromFd(operator_server_.get(), connection->release());
}

v1::GetStatusResponse SessionRelay::Status() {
  const RemoteOptions& remote = options_.backend_options.remote;
  const mesh::LinkStatus link = link_->status();
  v1::GetStatusResponse status;
  status.set_testbed(options_.testbed);
  status.set_pid(static_cast<uint32_t>(getpid()));
  status.set_uptime_ns(NowNs() - started_ns_);
  status.set_backend(std::string(kRemoteBackend));
  status.set_backend_description(fmt::format(
      "in the simulated time of {} ({}), now {}", remote.peer, remote.address,
      link.up ? "up"
              : fmt::format("down: {}",
                            link.error.empty() ? "no answer" : link.error)));
  status.set_policy("of the other host");
  status.set_devices(
      static_cast<uint32_t>(sessions_->Devices().devices_size()));
  return status;
}

absl::Status RunRelay(const GpudOptions& options, const std::string& simulation,
                      const std::function<void()>& ending,
                      const std::function<void()>& closed) {
  ASSIGN_OR_RETURN(const auto relay, SessionRelay::Start(options, simulation));
  const absl::Status status = relay->Run();
  ending();
  relay->ShutDown();
  closed();
  return status;
}

}  // namespace carillon::gpud
