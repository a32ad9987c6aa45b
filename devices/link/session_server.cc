#include "devices/link/session_server.h"

#include <grpcpp/create_channel.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "base/incarnation/incarnation.h"
#include "base/status.h"
#include "base/testbed_paths.h"
#include "devices/sdk/unix_target.h"
#include "fmt/format.h"
#include "proto/admin.grpc.pb.h"

namespace carillon::link {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kStartLook{50};
constexpr milliseconds kShowEvery{200};
constexpr milliseconds kListWithin{1000};
constexpr size_t kReadBytes = 64 << 10;
constexpr size_t kMaxConnections = 1024;
// gpud reads what comes; one that does not for so long is stuck.
constexpr timeval kWriteWithin{.tv_sec = 5, .tv_usec = 0};
// No time that a simulation reaches.
constexpr std::chrono::hours kNever{24 * 365 * 100};

absl::StatusOr<UniqueFd> ConnectTo(const std::string& path) {
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  RETURN_IF_ERROR(CheckSocketPath(path));
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &kWriteWithin,
             sizeof(kWriteWithin));
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address),
              sizeof(address)) != 0) {
    return absl::UnavailableError(
        fmt::format("{}: {}", path, std::strerror(errno)));
  }
  return fd;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SessionServer>> SessionServer::Start(
    const edge::DeviceContext& context, const LinkdOptions& options,
    const std::string& simulation) {
  if (!options.engine.Complaint().empty()) {
    return absl::InvalidArgumentError(
        fmt::format("--engine: {}", options.engine.Complaint()));
  }
  std::unique_ptr<SessionServer> server(new SessionServer(context, options));
  for (;;) {
    if (context.stop.requested()) return absl::CancelledError("stopped");
    auto device = edge::Device::Attach(
        {.testbed_directory = context.directory,
         .name = context.name,
         .kind = "link",
         .counter_names = LinkFigures::CounterNames(/*simulated=*/true),
         .takes_simulated_time = true});
    if (device.ok()) {
      server->self_ = *std::move(device);
      break;
    }
    if (!absl::IsUnavailable(device.status()) &&
        !absl::IsAlreadyExists(device.status())) {
      return device.status();
    }
    std::this_thread::sleep_for(kStartLook);
  }
  if (!server->self_->in_simulated_time()) {
    return absl::FailedPreconditionError(
        "--simulation: gpud of this host lives in wall time: start it with "
        "--timing, or leave --simulation out");
  }
  ASSIGN_OR_RETURN(const uint64_t incarnation,
                   NextIncarnation(context.directory + "/" + kIncarnationFile));
  ASSIGN_OR_RETURN(
      server->link_,
      mesh::FarStepLink::Start(
          {.tls = options.tls,
           .address = options.listen,
           .link = {.self = {.testbed = options.testbed,
                             .host = options.host,
                             .build = mesh::OwnBuild(),
                             .catalogue = mesh::SimulatedCatalogue(
                                 server->self_->catalogue(), simulation),
                             .incarnation = incarnation},
                    .peer = options.peer,
                    .times = options.times},
           .engine = options.engine.engine()},
          [self = server.get()] { self->news_.Ring(); }));
  const std::string note = fmt::format("for host {} on {}, in simulated time",
                                       options.peer, server->link_->address());
  spdlog::info("serves {}", note);
  RETURN_IF_ERROR(server->self_->ReportReady(note));
  server->time_ = std::thread([self = server.get()] { self->LetTimeGo(); });
  server->show_ = std::thread([self = server.get()] { self->ShowAll(); });
  return server;
}

SessionServer::~SessionServer() {
  stop_ = true;
  if (time_.joinable()) time_.join();
  if (show_.joinable()) show_.join();
  devices_.clear();
  link_.reset();  // its thread may ring news_
}

void SessionServer::LetTimeGo() {
  self_->WaitForCompletion([this] { return stop_.load(); }, kNever);
}

void SessionServer::ShowAll() {
  const auto admin = v1::Admin::NewStub(grpc::CreateChannel(
      edge::UnixTarget(TestbedPaths(context_.directory).operator_socket()),
      grpc::InsecureChannelCredentials()));
  while (!stop_) {
    figures_.Show(link_->status(), *self_);
    ListDevices(*admin);
    std::this_thread::sleep_for(kShowEvery);
  }
}

void SessionServer::ListDevices(v1::Admin::Stub& admin) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kListWithin);
  v1::ListDevicesResponse all;
  if (!admin.ListDevices(&context, {}, &all).ok()) return;
  v1::ListDevicesResponse theirs;
  for (const v1::Device& device : all.devices()) {
    if (device.pid() != static_cast<uint32_t>(getpid()) ||
        device.name() == context_.name) {
      continue;
    }
    *theirs.add_devices() = device;
  }
  v1::SessionStep step;
  step.set_devices(theirs.SerializeAsString());
  if (!link_->is_full()) link_->Send(step);
}

absl::Status SessionServer::Run() {
  bool news_due = false;
  while (!context_.stop.requested()) {
    if (!self_->status().ok()) {
      return absl::UnavailableError(fmt::format(
          "{}; its simulated time is over", self_->status().message()));
    }
    std::vector<pollfd> fds = {{context_.stop.fd(), POLLIN, 0},
                               {news_.fd(), POLLIN, 0},
                               {self_->connection_fd(), POLLIN, 0}};
    std::vector<uint64_t> ids;
    // Nobody is asked for what the other host does not take.
    const bool full = link_->is_full();
    if (news_due && !full) {
      news_due = false;
      TakeNews();
    }
    for (const auto& [id, calls] : calls_) {
      if (full) break;
      fds.push_back({calls.connection.get(), POLLIN, 0});
      ids.push_back(id);
    }
    const size_t calls = ids.size();
    for (const auto& [id, device] : devices_) {
      fds.push_back({device.session->connection_fd(), POLLIN, 0});
      ids.push_back(id);
    }
    constexpr size_t kOwn = 3;
    if (poll(fds.data(), fds.size(), -1) < 0) continue;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (fds[kOwn + i].revents == 0) continue;
      if (i < calls) {
        ReadCalls(ids[i]);
      } else {
        TellEnded(ids[i]);
      }
    }
    if (fds[1].revents == 0) continue;
    news_.Clear();
    news_due = true;
  }
  return absl::CancelledError("stopped");
}

void SessionServer::TakeNews() {
  const mesh::StepNews news = link_->Take();
  if (news.lost) {
    spdlog::warn("the link to host {} is over, and its {} devices end",
                 options_.peer, devices_.size());
    devices_.clear();
    calls_.clear();
  }
  for (const v1::SessionStep& step : news.steps) Take(step);
}

void SessionServer::Take(const v1::SessionStep& step) {
  const auto device_of = [&](uint64_t id) -> LinkedSession* {
    const auto found = devices_.find(id);
    return found == devices_.end() ? nullptr : found->second.session.get();
  };
  switch (step.step_case()) {
    case v1::SessionStep::kOpen:
      return OpenCalls(step.open());
    case v1::SessionStep::kBytes:
      return WriteCalls(step.bytes());
    case v1::SessionStep::kClose:
      calls_.erase(step.close().connection());
      return;
    case v1::SessionStep::kFetch:
      return Fetch(step.fetch());
    case v1::SessionStep::kChanged:
      if (auto* const device = device_of(step.changed().session());
          device != nullptr && !device->Store(step.changed())) {
        spdlog::error("a device of host {} writes where it may not",
                      options_.peer);
        devices_.erase(step.changed().session());
      }
      return;
    case v1::SessionStep::kAnswer:
      if (auto* const device = device_of(step.answer().session())) {
        device->AnswerTurn(step.answer().next_ns());
      }
      return;
    case v1::SessionStep::kEnd:
      devices_.erase(step.end().session());
      return;
    default:
      spdlog::error("host {} says what it may not", options_.peer);
  }
}

void SessionServer::OpenCalls(const v1::OpenCalls& open) {
  if (calls_.size() >= kMaxConnections) return TellClosed(open.connection());
  auto connection =
      ConnectTo(TestbedPaths(context_.directory).control_socket());
  if (!connection.ok()) return TellClosed(open.connection());
  calls_[open.connection()] = {*std::move(connection), open.process()};
}

void SessionServer::WriteCalls(const v1::CallBytes& bytes) {
  const auto found = calls_.find(bytes.connection());
  if (found == calls_.end()) return;
  std::string_view left = bytes.bytes();
  while (!left.empty()) {
    const ssize_t count = send(found->second.connection.get(), left.data(),
                               left.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return TellClosed(bytes.connection());
    left.remove_prefix(static_cast<size_t>(count));
  }
}

void SessionServer::ReadCalls(uint64_t id) {
  static thread_local std::array<char, kReadBytes> buffer;
  const auto found = calls_.find(id);
  const ssize_t count = recv(found->second.connection.get(), buffer.data(),
                             buffer.size(), MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) return TellClosed(id);
  // What gpud answers is about memory as it is by now.
  for (auto& [device_id, device] : devices_) {
    if (device.process == found->second.process) device.session->SendChanges();
  }
  v1::SessionStep step;
  step.mutable_bytes()->set_connection(id);
  step.mutable_bytes()->set_bytes(buffer.data(), static_cast<size_t>(count));
  link_->Send(step);
}

void SessionServer::TellClosed(uint64_t id) {
  calls_.erase(id);
  v1::SessionStep step;
  step.mutable_close()->set_connection(id);
  link_->Send(step);
}

void SessionServer::Fetch(const v1::FetchSession& wanted) {
  auto session = LinkedSession::Open(
      wanted, TestbedPaths(context_.directory).handover_socket(),
      [this](const v1::SessionStep& step) { link_->Send(step); });
  v1::SessionStep step;
  if (!session.ok()) {
    step.mutable_fetched()->set_session(wanted.session());
    step.mutable_fetched()->set_code(
        static_cast<uint32_t>(session.status().code()));
    step.mutable_fetched()->set_refusal(
        std::string(session.status().message()));
    return link_->Send(step);
  }
  *step.mutable_fetched() = (*session)->Describe();
  link_->Send(step);
  (*session)->Start();
  devices_[wanted.session()] = {wanted.process(), *std::move(session)};
}

// gpud has ended it, or has died.
void SessionServer::TellEnded(uint64_t id) {
  const auto found = devices_.find(id);
  found->second.session->SendChanges();
  v1::SessionStep step;
  step.mutable_end()->set_session(id);
  step.mutable_end()->set_reason(
      static_cast<uint32_t>(found->second.session->close_reason()));
  devices_.erase(found);
  link_->Send(step);
}

}  // namespace carillon::link
