#include "devices/link/session_server.h"

#include <grpcpp/create_channel.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/testbed_paths.h"
#include "devices/link/linkd_self.h"
#include "devices/sdk/unix_target.h"
#include "fmt/format.h"
#include "proto/admin.grpc.pb.h"
#include "shm/handover.h"

namespace carillon::link {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kShowEvery{200};
constexpr milliseconds kListWithin{1000};
constexpr milliseconds kFetchWithin{2000};
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
  std::unique_ptr<SessionServer> server(new SessionServer(context, options));
  ASSIGN_OR_RETURN(server->self_, AttachSelf(context, /*simulated=*/true));
  if (!server->self_->in_simulated_time()) {
    return absl::FailedPreconditionError(
        "--simulation: gpud of this host lives in wall time: start it with "
        "--timing, or leave --simulation out");
  }
  ASSIGN_OR_RETURN(const mesh::FarLink::Settings settings,
                   SettingsOf(context, options,
                              mesh::SimulatedCatalogue(
                                  server->self_->catalogue(), simulation)));
  ASSIGN_OR_RETURN(server->link_,
                   mesh::FarStepLink::Start(settings, [self = server.get()] {
                     self->news_.Ring();
                   }));
  server->sessions_.emplace(
      options.peer,
      LinkedSessions::Gpud{
          .connect =
              [path = TestbedPaths(context.directory).control_socket()] {
                return ConnectTo(path);
              },
          .fetch =
              [path = TestbedPaths(context.directory).handover_socket()](
                  const shm::Ticket& ticket) {
                return shm::FetchApertures(path, ticket, kFetchWithin);
              }},
      [self = server.get()](const v1::SessionStep& step) {
        self->link_->Send(step);
      });
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
  sessions_.reset();
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
    // Nobody is asked for what the other host does not take.
    const bool full = link_->is_full();
    if (news_due && !full) {
      news_due = false;
      TakeNews();
    }
    const size_t own = fds.size();
    sessions_->Watch(/*answers=*/!full, &fds);
    if (poll(fds.data(), fds.size(), -1) < 0) continue;
    sessions_->Read(std::span(fds).subspan(own));
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
                 options_.peer, sessions_->devices());
    sessions_->Clear();
  }
  for (const v1::SessionStep& step : news.steps) sessions_->Take(step);
}

}  // namespace carillon::link
