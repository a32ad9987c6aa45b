// A process of its own for the tests of the control plane. Prints one line on
// standard output.
//
//   device DIR NAME   attaches, fetches its apertures, takes a buffer of each
//                     place and an event kernel, prints "ready" and waits to be
//                     killed
//   parent DIR NAME   as device, and a child of it keeps its connections open
//                     until gpud has closed the hand-over connection
//   ticket DIR HEX    presents a ticket, prints what came of it
//   session DIR HEX   calls ReportReady with a session, prints what came of it
#include <grpcpp/create_channel.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>

#include "base/testbed_paths.h"
#include "proto/devices.grpc.pb.h"
#include "proto/events.grpc.pb.h"
#include "shm/handover.h"
#include "shm/layout.h"

namespace carillon::gpud {
namespace {

constexpr std::chrono::seconds kPatience{20};

std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

void Print(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

template <class Stub, class Request, class Response>
bool Call(Stub& stub,
          grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                       Response*),
          const Request& request, Response* response) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  const grpc::Status status = (stub.*method)(&context, request, response);
  if (!status.ok()) {
    Print(std::to_string(status.error_code()) + " " + status.error_message());
  }
  return status.ok();
}

absl::StatusOr<shm::HandedOver> Fetch(const TestbedPaths& paths,
                                      const std::string& bytes) {
  shm::Ticket ticket{};
  bytes.copy(reinterpret_cast<char*>(ticket.data()), ticket.size());
  return shm::FetchApertures(paths.handover_socket(), ticket, kPatience);
}

int RunTicket(const TestbedPaths& paths, const std::string& ticket) {
  const auto fetched = Fetch(paths, ticket);
  Print(fetched.ok() ? "fetched" : std::string(fetched.status().message()));
  return 0;
}

int RunSession(v1::Devices::Stub& devices, const std::string& session) {
  v1::ReportReadyRequest request;
  request.set_session(session);
  v1::ReportReadyResponse response;
  if (Call(devices, &v1::Devices::Stub::ReportReady, request, &response)) {
    Print("done");
  }
  return 0;
}

// All its descriptors go to the child, which does nothing else.
void LeaveAChild(int handover_connection) {
  if (fork() != 0) return;
  pollfd closed{.fd = handover_connection, .events = POLLRDHUP, .revents = 0};
  poll(&closed, 1, 60'000);
  _exit(0);
}

int RunDevice(const TestbedPaths& paths, v1::Devices::Stub& devices,
              v1::Events::Stub& events, const std::string& name,
              bool leaves_a_child) {
  v1::AttachRequest attach;
  attach.set_name(name);
  attach.set_kind("test");
  attach.set_submission_bytes(64 << 10);
  attach.set_completion_bytes(64 << 10);
  attach.set_layout_version(shm::kLayoutVersion);
  v1::AttachResponse attached;
  if (!Call(devices, &v1::Devices::Stub::Attach, attach, &attached)) return 1;
  const auto fetched = Fetch(paths, attached.ticket());
  if (!fetched.ok()) return RunTicket(paths, attached.ticket());
  for (const auto place : {v1::INPUT, v1::OUTPUT, v1::GPU_MEMORY}) {
    v1::AllocateBufferRequest request;
    request.set_session(attached.session());
    request.set_place(place);
    request.set_bytes(4096);
    v1::AllocateBufferResponse buffer;
    if (!Call(events, &v1::Events::Stub::AllocateBuffer, request, &buffer)) {
      return 1;
    }
  }
  v1::RegisterEventRequest request;
  request.set_session(attached.session());
  request.set_kernel("null_event");
  request.set_max_in_flight(4);
  v1::ParameterBinding* token = request.add_parameters();
  token->set_name("token");
  token->set_writable(true);
  v1::RegisterEventResponse registered;
  if (!Call(events, &v1::Events::Stub::RegisterEvent, request, &registered)) {
    return 1;
  }
  if (leaves_a_child) LeaveAChild(fetched->connection.get());
  Print("ready");
  while (true) pause();
}

int Main(const std::string& mode, const std::string& directory,
         const std::string& argument) {
  const TestbedPaths paths(directory);
  if (mode == "ticket") return RunTicket(paths, FromHex(argument));
  const auto channel = grpc::CreateChannel("unix:" + paths.control_socket(),
                                           grpc::InsecureChannelCredentials());
  const auto devices = v1::Devices::NewStub(channel);
  if (mode == "session") return RunSession(*devices, FromHex(argument));
  const auto events = v1::Events::NewStub(channel);
  return RunDevice(paths, *devices, *events, argument, mode == "parent");
}

}  // namespace
}  // namespace carillon::gpud

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  return carillon::gpud::Main(argv[1], argv[2], argv[3]);
}
