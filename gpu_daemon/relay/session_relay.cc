#include "gpu_daemon/relay/session_relay.h"

#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_posix.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <thread>
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
#include "shm/handover.h"

namespace carillon::gpud {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kConnectWithin{5000};
constexpr milliseconds kLook{5};
constexpr milliseconds kLastCalls{500};
constexpr size_t kReadBytes = 64 << 10;
// Of all processes together.
constexpr size_t kMaxConnections = 1024;

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
  RETURN_IF_ERROR(Connect());
  admin_.emplace(options_.backend_options.remote.peer,
                 RelayAdmin::Answers{.status = [this] { return Status(); },
                                     .devices = [this] { return Devices(); }});
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
  const Nanoseconds deadline =
      NowNs() + std::chrono::nanoseconds(kConnectWithin).count();
  for (;;) {
    const mesh::LinkStatus status = link_->status();
    if (status.up) return absl::OkStatus();
    if (status.lost || NowNs() >= deadline) {
      return absl::UnavailableError(
          fmt::format("--link: no link to host '{}': {}{}", remote.peer,
                      status.error.empty() ? "no answer" : status.error,
                      status.refusal.empty() ? "; is linkd there?" : ""));
    }
    std::this_thread::sleep_for(kLook);
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
  while (!devices_.empty()) {
    EndDevice(devices_.begin()->first,
              lost_ ? shm::CloseReason::kLinkLost : shm::CloseReason::kShutdown,
              /*tell=*/true);
  }
  while (!calls_.empty()) CloseCalls(calls_.begin()->first, /*tell=*/true);
  if (operator_server_ == nullptr) return;
  operator_server_->Shutdown(std::chrono::system_clock::now() + kLastCalls);
  operator_server_->Wait();
  operator_server_.reset();
}

void SessionRelay::Send(const v1::SessionStep& step) {
  link_->Send(step);
  // A connection that comes and goes is two steps as well.
  if (!paused_ && link_->is_full()) Pause();
}

void SessionRelay::Pause() {
  paused_ = true;
  for (const auto watch : std::exchange(users_watches_, {})) {
    loop_->Unwatch(watch);
  }
  for (auto& [id, calls] : calls_) loop_->Unwatch(calls.watch);
}

void SessionRelay::GoOn() {
  paused_ = false;
  std::vector<uint64_t> unwatched;
  for (auto& [id, calls] : calls_) {
    const auto watch = loop_->Watch(calls.connection.get(),
                                    [this, id = id] { ReadCalls(id); });
    if (watch.ok()) {
      calls.watch = *watch;
    } else {
      unwatched.push_back(id);
    }
  }
  for (const uint64_t id : unwatched) CloseCalls(id, /*tell=*/true);
  if (auto status = WatchUsers(); !status.ok()) {
    spdlog::error("no device can attach any more: {}", status.message());
  }
}

// --- The control socket.

void SessionRelay::AcceptCalls() {
  PeerCredentials peer;
  auto connection = AcceptUser(control_, users_, &peer);
  if (!connection.ok() || calls_.size() >= kMaxConnections) return;
  const uint64_t id = next_id_++;
  auto watch = loop_->Watch(connection->get(), [this, id] { ReadCalls(id); });
  if (!watch.ok()) return;
  calls_[id] = {*std::move(connection), *watch, peer.pid};
  v1::SessionStep step;
  step.mutable_open()->set_connection(id);
  step.mutable_open()->set_process(static_cast<uint64_t>(peer.pid));
  Send(step);
}

void SessionRelay::ReadCalls(uint64_t id) {
  const auto found = calls_.find(id);
  if (found == calls_.end()) return;
  static thread_local std::array<char, kReadBytes> buffer;
  const ssize_t count = recv(found->second.connection.get(), buffer.data(),
                             buffer.size(), MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) return CloseCalls(id, /*tell=*/true);
  // What the process has written so far is what its call is about.
  for (auto& [device_id, device] : devices_) {
    if (device.pid != found->second.pid || device.session == nullptr) continue;
    device.session->SendChanges();
  }
  v1::SessionStep step;
  step.mutable_bytes()->set_connection(id);
  step.mutable_bytes()->set_bytes(buffer.data(), static_cast<size_t>(count));
  Send(step);
}

void SessionRelay::CloseCalls(uint64_t id, bool tell) {
  const auto found = calls_.find(id);
  if (found == calls_.end()) return;
  loop_->Unwatch(found->second.watch);
  calls_.erase(found);
  if (!tell) return;
  v1::SessionStep step;
  step.mutable_close()->set_connection(id);
  Send(step);
}

// --- The hand-over socket.

void SessionRelay::AcceptDevice() {
  PeerCredentials peer;
  auto connection = AcceptUser(handover_, users_, &peer);
  if (!connection.ok() || devices_.size() >= kMaxConnections) return;
  const uint64_t id = next_id_++;
  auto watch = loop_->Watch(connection->get(), [this, id] { ReadDevice(id); });
  if (!watch.ok()) return;
  Device& device = devices_[id];
  device.connection = *std::move(connection);
  device.watch = *watch;
  device.pid = peer.pid;
}

// A ticket; after it nothing but the end is to come.
void SessionRelay::ReadDevice(uint64_t id) {
  const auto found = devices_.find(id);
  if (found == devices_.end()) return;
  Device& device = found->second;
  if (device.asked) {
    return EndDevice(id, shm::CloseReason::kPeerDied, /*tell=*/true);
  }
  if (auto status = Fetch(id, device); !status.ok()) {
    shm::SendRefusal(device.connection.get(), status);
    EndDevice(id, shm::CloseReason::kEvicted, /*tell=*/false);
  }
}

absl::Status SessionRelay::Fetch(uint64_t id, Device& device) {
  ASSIGN_OR_RETURN(
      const auto ticket,
      shm::ReceiveTicket(device.connection.get(), milliseconds(0)));
  device.asked = true;
  v1::SessionStep step;
  v1::FetchSession* const fetch = step.mutable_fetch();
  fetch->set_session(id);
  fetch->set_process(static_cast<uint64_t>(device.pid));
  fetch->set_ticket(ticket.data(), ticket.size());
  Send(step);
  return absl::OkStatus();
}

absl::Status SessionRelay::HandOver(const v1::FetchedSession& fetched) {
  const auto found = devices_.find(fetched.session());
  if (found == devices_.end()) return absl::OkStatus();  // it has gone
  Device& device = found->second;
  if (fetched.code() != 0) {
    return absl::Status(static_cast<absl::StatusCode>(fetched.code()),
                        fetched.refusal());
  }
  ASSIGN_OR_RETURN(
      device.session,
      RelayedSession::Make(
          fetched, [this](const v1::SessionStep& step) { link_->Send(step); }));
  {
    MutexLock lock(mutex_);
    pids_[fetched.device_id()] = device.pid;
  }
  return device.session->HandOver(device.connection.get());
}

void SessionRelay::EndDevice(uint64_t id, shm::CloseReason why, bool tell) {
  const auto found = devices_.find(id);
  if (found == devices_.end()) return;
  Device device = std::move(found->second);
  devices_.erase(found);
  loop_->Unwatch(device.watch);
  if (device.session != nullptr) {
    device.session->Close(why);
    MutexLock lock(mutex_);
    pids_.erase(device.session->device_id());
  }
  if (!tell) return;
  v1::SessionStep step;
  step.mutable_end()->set_session(id);
  Send(step);
}

// --- What the other host says.

void SessionRelay::TakeNews() {
  const mesh::StepNews news = link_->Take();
  for (const v1::SessionStep& step : news.steps) Take(step);
  if (paused_ && !link_->is_full()) GoOn();
  if (!news.lost || lost_) return;
  lost_ = *news.lost;
  loop_->Stop();
}

void SessionRelay::Take(const v1::SessionStep& step) {
  const auto device_of = [&](uint64_t id) -> RelayedSession* {
    const auto found = devices_.find(id);
    return found == devices_.end() ? nullptr : found->second.session.get();
  };
  switch (step.step_case()) {
    case v1::SessionStep::kBytes: {
      const auto found = calls_.find(step.bytes().connection());
      if (found == calls_.end()) return;
      const std::string& bytes = step.bytes().bytes();
      // gRPC's windows are smaller than the socket's room: whoever has none
      // left does not read, and must not hold up the others.
      if (send(found->second.connection.get(), bytes.data(), bytes.size(),
               MSG_DONTWAIT | MSG_NOSIGNAL) !=
          static_cast<ssize_t>(bytes.size())) {
        CloseCalls(found->first, /*tell=*/true);
      }
      return;
    }
    case v1::SessionStep::kClose:
      return CloseCalls(step.close().connection(), /*tell=*/false);
    case v1::SessionStep::kFetched: {
      const auto status = HandOver(step.fetched());
      if (status.ok()) return;
      const uint64_t id = step.fetched().session();
      shm::SendRefusal(devices_.at(id).connection.get(), status);
      return EndDevice(id, shm::CloseReason::kEvicted, /*tell=*/true);
    }
    case v1::SessionStep::kChanged:
      if (auto* const device = device_of(step.changed().session());
          device != nullptr && !device->Store(step.changed())) {
        spdlog::error(
            "host {} changes what it has not in the memory of a "
            "device",
            options_.backend_options.remote.peer);
      }
      return;
    case v1::SessionStep::kTurn:
      if (auto* const device = device_of(step.turn().session())) {
        device->GiveTurn(step.turn().now_ns());
      }
      return;
    case v1::SessionStep::kEnd:
      return EndDevice(step.end().session(),
                       static_cast<shm::CloseReason>(step.end().reason()),
                       /*tell=*/false);
    case v1::SessionStep::kDevices: {
      MutexLock lock(mutex_);
      if (!listed_.ParseFromString(step.devices())) listed_.Clear();
      return;
    }
    default:
      spdlog::error("host {} says what it may not",
                    options_.backend_options.remote.peer);
  }
}

// --- The operator's socket.

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
  status.set_devices(static_cast<uint32_t>(Devices().devices_size()));
  return status;
}

// As the other host has them, but for their processes, which are here.
v1::ListDevicesResponse SessionRelay::Devices() {
  MutexLock lock(mutex_);
  v1::ListDevicesResponse here;
  for (const v1::Device& listed : listed_.devices()) {
    const auto pid = pids_.find(listed.device_id());
    if (pid == pids_.end()) continue;
    v1::Device* const device = here.add_devices();
    *device = listed;
    device->set_pid(static_cast<uint32_t>(pid->second));
  }
  return here;
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
