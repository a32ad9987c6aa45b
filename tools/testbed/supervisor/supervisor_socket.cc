#include "tools/testbed/supervisor/supervisor_socket.h"

#include <fmt/format.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"
#include "base/json.h"
#include "base/status.h"
#include "base/testbed_paths.h"
#include "base/text.h"

namespace carillon::testbed {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// A supervisor's answer is smaller, whatever the number of its processes.
constexpr size_t kMaxAnswerBytes = 4 << 20;

// `path` must fit.
sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, path.size());
  return address;
}

std::string ToLine(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// Whether all of it could be sent at once.
bool SendAll(int fd, const std::string& text, int flags) {
  size_t sent = 0;
  while (sent < text.size()) {
    const ssize_t more =
        send(fd, text.data() + sent, text.size() - sent, MSG_NOSIGNAL | flags);
    if (more < 0 && errno == EINTR) continue;
    if (more <= 0) return false;
    sent += more;
  }
  return true;
}

Json FailedLine(const absl::Status& status) {
  return {{"failed",
           {{"code", static_cast<int>(status.code())},
            {"message", status.message()},
            {"hint", HintOf(status)}}}};
}

}  // namespace

RequestServer::Limits::Limits() : user(geteuid()) {}

absl::Status RequestServer::Open(const std::string& path) {
  RETURN_IF_ERROR(CheckSocketPath(path));
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const sockaddr_un address = AddressOf(path);
  // The file gets the socket's mode, so there is no moment at which others may
  // connect.
  if (!fd || fchmod(fd.get(), 0600) != 0 ||
      bind(fd.get(), reinterpret_cast<const sockaddr*>(&address),
           sizeof(address)) != 0 ||
      listen(fd.get(), static_cast<int>(limits_.connections)) != 0) {
    return absl::PermissionDeniedError(
        fmt::format("cannot listen on {}: {}", path, strerror(errno)));
  }
  listener_ = std::move(fd);
  return absl::OkStatus();
}

void RequestServer::Close() {
  listener_.reset();
  connections_.clear();
}

void RequestServer::AddTo(std::vector<pollfd>& fds) const {
  if (listener_ && connections_.size() < limits_.connections) {
    fds.push_back({listener_.get(), POLLIN, 0});
  }
  // Clients that have asked are not polled, because nothing that they do
  // matters.
  for (const Connection& connection : connections_) {
    if (!connection.asked) fds.push_back({connection.fd.get(), POLLIN, 0});
  }
}

std::optional<Clock::time_point> RequestServer::NextDeadline() const {
  std::optional<Clock::time_point> next;
  for (const Connection& connection : connections_) {
    if (connection.asked) continue;
    next = std::min(next.value_or(connection.deadline), connection.deadline);
  }
  return next;
}

void RequestServer::Accept() {
  while (listener_ && connections_.size() < limits_.connections) {
    UniqueFd fd(accept4(listener_.get(), nullptr, nullptr,
                        SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) return;
    ucred peer{};
    socklen_t size = sizeof(peer);
    if (getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
        peer.uid != limits_.user) {
      (void)SendAll(fd.get(),
                    ToLine(FailedLine(absl::PermissionDeniedError(
                        fmt::format("this testbed belongs to uid {}; uid {} "
                                    "may not steer it",
                                    limits_.user, peer.uid)))),
                    MSG_DONTWAIT);
      continue;
    }
    connections_.push_back({.id = ++last_id_,
                            .fd = std::move(fd),
                            .deadline = Clock::now() + limits_.request_time});
  }
}

bool RequestServer::Read(Connection& connection,
                         std::vector<Request>* requests) {
  char bytes[4096];
  for (;;) {
    const ssize_t got =
        recv(connection.fd.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (got <= 0) return false;
    connection.request.append(bytes, got);
    const size_t end = connection.request.find('\n');
    if (std::min(end, connection.request.size()) > limits_.request_bytes) {
      Write(connection,
            FailedLine(absl::InvalidArgumentError(fmt::format(
                "the request has more than {} bytes", limits_.request_bytes))));
      return false;
    }
    if (end == std::string::npos) continue;
    Json json = Json::parse(connection.request.substr(0, end), nullptr,
                            /*allow_exceptions=*/false);
    if (!json.is_object()) {
      Write(connection, FailedLine(absl::InvalidArgumentError(
                            "the request is no JSON object")));
      return false;
    }
    connection.asked = true;
    requests->push_back({connection.id, std::move(json)});
    return true;
  }
  return Clock::now() < connection.deadline;
}

std::vector<RequestServer::Request> RequestServer::Take() {
  std::vector<Request> requests;
  Accept();
  for (auto it = connections_.begin(); it != connections_.end();) {
    it = it->asked || Read(*it, &requests) ? std::next(it)
                                           : connections_.erase(it);
  }
  return requests;
}

std::list<RequestServer::Connection>::iterator RequestServer::Find(
    uint64_t id) {
  return std::ranges::find(connections_, id, &Connection::id);
}

bool RequestServer::Write(Connection& connection, const Json& line) {
  return SendAll(connection.fd.get(), ToLine(line), MSG_DONTWAIT);
}

void RequestServer::Say(uint64_t id, const std::string& line) {
  const auto connection = Find(id);
  if (connection == connections_.end()) return;
  if (!Write(*connection, {{"say", line}})) connections_.erase(connection);
}

void RequestServer::WriteLast(uint64_t id, const Json& line) {
  const auto connection = Find(id);
  if (connection == connections_.end()) return;
  Write(*connection, line);
  connections_.erase(connection);
}

void RequestServer::Done(uint64_t id, const Json& document) {
  WriteLast(id, {{"done", document}});
}

void RequestServer::Failed(uint64_t id, const absl::Status& status) {
  WriteLast(id, FailedLine(status));
}

namespace {

// The client's side of one request.
class Conversation {
 public:
  Conversation(const SupervisorQuestion& question, int fd)
      : question_(question), fd_(fd) {}

  absl::StatusOr<Json> Run() {
    while (!answer_) {
      Clock::time_point wake =
          start_ + (heard_ ? question_.limit : question_.first_word);
      if (Clock::now() >= wake) return TooLate();
      if (!held_.empty()) wake = std::min(wake, start_ + question_.quiet);
      RETURN_IF_ERROR(Wait(wake));
      if (Clock::now() >= start_ + question_.quiet) Release();
    }
    return *std::move(answer_);
  }

 private:
  absl::Status TooLate() const {
    return absl::DeadlineExceededError(
        heard_ ? fmt::format("the supervisor has not said that it is done "
                             "within {}",
                             FormatSeconds(question_.limit))
               : fmt::format("the supervisor does not answer ({} waited)",
                             FormatSeconds(question_.first_word)));
  }

  absl::Status Wait(Clock::time_point until) {
    pollfd fds[2] = {
        {fd_, POLLIN, 0},
        {question_.interrupt != nullptr ? question_.interrupt->fd() : -1,
         POLLIN, 0}};
    const auto left = std::chrono::ceil<milliseconds>(until - Clock::now());
    poll(fds, 2, static_cast<int>(std::max(left, milliseconds(0)).count()));
    if (fds[1].revents != 0 && question_.interrupt->Take() > 0) {
      return absl::CancelledError(
          "interrupted; what was asked for goes on without you");
    }
    return fds[0].revents != 0 ? Read() : absl::OkStatus();
  }

  absl::Status Read() {
    char bytes[4096];
    const ssize_t got = recv(fd_, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return absl::OkStatus();
    if (got <= 0 || buffer_.size() > kMaxAnswerBytes) {
      return absl::UnavailableError(
          "the supervisor went away before it was done");
    }
    buffer_.append(bytes, got);
    for (size_t end;
         !answer_ && (end = buffer_.find('\n')) != std::string::npos;) {
      TakeLine(buffer_.substr(0, end));
      buffer_.erase(0, end + 1);
    }
    return absl::OkStatus();
  }

  // nlohmann throws; no exception leaves this function.
  void TakeLine(const std::string& line) {
    heard_ = true;
    try {
      const Json json = Json::parse(line);
      if (json.contains("say")) {
        held_.push_back(json.at("say"));
      } else if (json.contains("done")) {
        answer_ = json.at("done");
      } else {
        const Json& failed = json.at("failed");
        int code = failed.at("code");
        if (code == 0) code = static_cast<int>(absl::StatusCode::kInternal);
        answer_ =
            WithHint(absl::Status(static_cast<absl::StatusCode>(code),
                                  failed.at("message").get<std::string>()),
                     failed.at("hint"));
      }
    } catch (const Json::exception& error) {
      answer_ = absl::InternalError(fmt::format(
          "the supervisor's answer is not understood: {}", error.what()));
    }
  }

  void Release() {
    for (const std::string& line : held_) question_.say(line);
    held_.clear();
  }

  const SupervisorQuestion& question_;
  const int fd_;
  const Clock::time_point start_ = Clock::now();
  std::string buffer_;
  std::vector<std::string> held_;
  bool heard_ = false;
  std::optional<absl::StatusOr<Json>> answer_;
};

}  // namespace

absl::StatusOr<Json> AskSupervisor(const SupervisorQuestion& question) {
  RETURN_IF_ERROR(CheckSocketPath(question.socket));
  const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  // The limit holds for connecting, too, because the queue may be full.
  const auto seconds =
      std::chrono::ceil<std::chrono::seconds>(question.first_word);
  const timeval limit{.tv_sec = seconds.count(), .tv_usec = 0};
  const sockaddr_un address = AddressOf(question.socket);
  if (!fd ||
      setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) !=
          0 ||
      connect(fd.get(), reinterpret_cast<const sockaddr*>(&address),
              sizeof(address)) != 0) {
    return absl::UnavailableError(
        fmt::format("the supervisor does not listen on {}: {}", question.socket,
                    strerror(errno)));
  }
  // The server may already have refused and closed the connection; then the
  // conversation below reports it.
  (void)SendAll(fd.get(), ToLine(question.request), 0);
  return Conversation(question, fd.get()).Run();
}

}  // namespace carillon::testbed
