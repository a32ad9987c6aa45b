// Tricks against tickets, the hand-over socket, and connecting to the control
// socket.
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "base/unique_fd.h"
#include "integration_tests/hostile/hostile_tricks.h"

namespace carillon::testing {
namespace {

std::string Hex(const std::string& bytes) {
  std::string hex;
  for (const unsigned char byte : bytes) hex += fmt::format("{:02x}", byte);
  return hex;
}

std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

// May fail, since the tricks provoke gpud's refusals.
UniqueFd Connect(const std::string& path, int type) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  UniqueFd connection(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  if (connect(connection.get(), reinterpret_cast<const sockaddr*>(&address),
              sizeof(address)) != 0) {
    connection.reset();
  }
  return connection;
}

void AllowManyDescriptors() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 8192);
  setrlimit(RLIMIT_NOFILE, &limit);
}

v1::AttachResponse AttachOnly(const WireControl& control,
                              const std::string& name) {
  v1::AttachResponse attached;
  const grpc::Status status = control.Call(&v1::Devices::Stub::Attach,
                                           AttachRequestFor(name), &attached);
  if (!status.ok()) Say("UNEXPECTED: Attach: {}", status.error_message());
  return attached;
}

absl::Status Fetch(const TestbedPaths& paths, const shm::Ticket& ticket) {
  return shm::FetchApertures(paths.handover_socket(), ticket, kPatience)
      .status();
}

void ReplayedTicket(const Scene& scene) {
  auto& device = Keep(new WireDevice(scene.paths, scene.name));
  for (int i = 0; i < 3; ++i) {
    SayOutcome("a ticket for the second time",
               Fetch(scene.paths, TicketOf(device.attached.ticket())));
  }
}

void ForeignTicket(const Scene& scene) {
  auto& control = Keep(new WireControl(scene.paths));
  const v1::AttachResponse attached = AttachOnly(control, scene.name);
  RunSelf({"--dir", scene.paths.directory(), "--present-ticket",
           Hex(attached.ticket())});
}

void ForeignSession(const Scene& scene) {
  auto& device = Keep(new WireDevice(scene.paths, scene.name));
  RunSelf({"--dir", scene.paths.directory(), "--use-session",
           Hex(device.attached.session())});
}

void ExpiredTicket(const Scene& scene) {
  auto& control = Keep(new WireControl(scene.paths));
  const v1::AttachResponse attached = AttachOnly(control, scene.name);
  const auto observer = WireControl::OfOperator(scene.paths);
  Await("the ticket's end", [&] {
    v1::ListDevicesResponse devices;
    return observer
               .Call(&v1::Admin::Stub::ListDevices, v1::ListDevicesRequest(),
                     &devices)
               .ok() &&
           std::none_of(devices.devices().begin(), devices.devices().end(),
                        [&](const auto& one) {
                          return one.device_id() == attached.device_id();
                        });
  });
  SayOutcome("a ticket that nobody fetched in time",
             Fetch(scene.paths, TicketOf(attached.ticket())));
}

void GuessedTickets(const Scene& scene) {
  std::mt19937_64 random(3);
  uint32_t refused = 0;
  std::string why;
  for (int i = 0; i < 3000; ++i) {
    shm::Ticket ticket;
    for (uint8_t& byte : ticket) byte = static_cast<uint8_t>(random());
    const absl::Status status = Fetch(scene.paths, ticket);
    if (status.code() == absl::StatusCode::kPermissionDenied) ++refused;
    why = std::string(status.message());
  }
  Say("{}: {} guessed tickets: {}", refused == 3000 ? "refused" : "UNEXPECTED",
      refused, why);
}

void SilentHandover(const Scene& scene) {
  AllowManyDescriptors();
  auto& connections = Keep(new std::vector<UniqueFd>);
  for (int i = 0; i < 300; ++i) {
    connections.push_back(
        Connect(scene.paths.handover_socket(), SOCK_SEQPACKET));
  }
  // Connections beyond the limit are refused at once; the others hear nothing
  // yet.
  shm::HandoverReply reply{};
  uint32_t refused = 0;
  Await("a refusal", [&] {
    for (const UniqueFd& connection : connections) {
      if (recv(connection.get(), &reply, sizeof(reply), MSG_DONTWAIT) ==
          sizeof(reply)) {
        ++refused;
      }
    }
    return refused > 0;
  });
  Say("refused: silent hand-over connections: {}", reply.message);
}

// Sends a hand-over request of any size, with any number of descriptors.
void SendRequest(int connection, const void* bytes, size_t size,
                 int descriptors) {
  iovec payload{.iov_base = const_cast<void*>(bytes), .iov_len = size};
  std::vector<char> control(CMSG_SPACE(descriptors * sizeof(int)) + 16);
  msghdr message{};
  message.msg_iov = &payload;
  message.msg_iovlen = 1;
  if (descriptors > 0) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(descriptors * sizeof(int));
    cmsghdr* const part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(descriptors * sizeof(int));
    const std::vector<int> zeros(descriptors, 0);
    std::memcpy(CMSG_DATA(part), zeros.data(), descriptors * sizeof(int));
  }
  sendmsg(connection, &message, MSG_NOSIGNAL);
}

std::string Answer(int connection) {
  pollfd answer{.fd = connection, .events = POLLIN, .revents = 0};
  if (poll(&answer, 1,
           static_cast<int>(std::chrono::milliseconds(kPatience).count())) <=
      0) {
    return "no answer";
  }
  shm::HandoverReply reply{};
  const ssize_t got = recv(connection, &reply, sizeof(reply), MSG_DONTWAIT);
  return got == sizeof(reply) ? std::string(reply.message) : "hung up";
}

void WrongDescriptors(const Scene& scene) {
  const std::vector<char> zeros(1 << 16);
  shm::HandoverRequest request{.magic = shm::kMagic,
                               .layout_version = shm::kLayoutVersion,
                               .reserved = 0,
                               .ticket = {}};
  const auto attempt = [&](const char* what, const void* bytes, size_t size,
                           int descriptors) {
    const UniqueFd connection =
        Connect(scene.paths.handover_socket(), SOCK_SEQPACKET);
    SendRequest(connection.get(), bytes, size, descriptors);
    Say("refused: {}: {}", what, Answer(connection.get()));
  };
  attempt("a short request", &request, sizeof(request) - 1, 0);
  attempt("a long request", zeros.data(), zeros.size(), 3);
  attempt("a request without magic", zeros.data(), sizeof(request), 0);
  for (int i = 0; i < 20; ++i) {
    attempt("253 descriptors with a request", &request, sizeof(request), 253);
  }
  request.layout_version += 7;
  attempt("a request of another layout", &request, sizeof(request), 1);
  // The same on gRPC's socket, which gives out no descriptors.
  auto& connections = Keep(new std::vector<UniqueFd>);
  for (int i = 0; i < 8; ++i) {
    connections.push_back(Connect(scene.paths.control_socket(), SOCK_STREAM));
    SendRequest(connections.back().get(), "PRI ", 4, 253);
  }
}

void DataOnConnection(const Scene& scene) {
  auto& device = Keep(new WireDevice(scene.paths, scene.name));
  send(device.handed.connection.get(), "hello", 5, MSG_NOSIGNAL);
  SayClosed(device);
}

void FloodConnections(const Scene& scene) {
  AllowManyDescriptors();
  static constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  static constexpr char kHalf[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x12\4";
  static constexpr char kGarbage[] = "GET /metrics HTTP/1.1\r\n";
  const std::vector<std::string> beginnings = {
      "", std::string(kPreface, sizeof(kPreface) - 1),
      std::string(kHalf, sizeof(kHalf) - 1), kGarbage, std::string(1, 'P')};
  auto& connections = Keep(new std::vector<UniqueFd>);
  for (int i = 0; i < 1500; ++i) {
    UniqueFd connection = Connect(scene.paths.control_socket(), SOCK_STREAM);
    const std::string& bytes = beginnings[i % beginnings.size()];
    if (!bytes.empty()) {
      send(connection.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    }
    connections.push_back(std::move(connection));
  }
  const auto closed = [&] {
    return std::count_if(
        connections.begin(), connections.end(), [](const UniqueFd& one) {
          pollfd look{.fd = one.get(), .events = POLLRDHUP, .revents = 0};
          return poll(&look, 1, 0) > 0;
        });
  };
  Await("that most are refused", [&] { return closed() > 1000; });
  Say("refused: most of 1500 connections to the control socket");
}

}  // namespace

void PresentTicket(const TestbedPaths& paths, const std::string& hex) {
  SayOutcome("another process's ticket", Fetch(paths, TicketOf(FromHex(hex))));
}

void UseSession(const TestbedPaths& paths, const std::string& hex) {
  const WireControl control(paths);
  v1::DetachRequest request;
  request.set_session(FromHex(hex));
  SayOutcome("another process's session",
             control.Call(&v1::Devices::Stub::Detach, request));
}

std::vector<Trick> HandoverTricks() {
  return {
      {"replayed-ticket", "fetches its apertures again", ReplayedTicket},
      {"foreign-ticket", "fetches with another process's ticket",
       ForeignTicket},
      {"foreign-session", "detaches another process's device", ForeignSession},
      {"expired-ticket", "fetches when it is too late", ExpiredTicket},
      {"guessed-tickets", "fetches with tickets of its own making",
       GuessedTickets},
      {"silent-handover", "opens hand-over connections and says nothing",
       SilentHandover},
      {"wrong-descriptors", "descriptors and sizes that nobody asked for",
       WrongDescriptors},
      {"data-on-connection", "talks where only the end counts",
       DataOnConnection},
      {"flood-connections", "many connections, silent or half a greeting",
       FloodConnections},
  };
}

}  // namespace carillon::testing
