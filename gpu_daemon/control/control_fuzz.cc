// The control plane's services, called as gRPC calls them once it has a message:
// calls in any order with any fields, from a process that devices attach from.
// What must hold: every call is answered with a code and a sentence, never
// INTERNAL or UNKNOWN; gpud goes on; and after Detach nothing is left: no device,
// no event kernel, no memory, no descriptor.
//
//   calls        u8: which; then the fields, or, from 128 on, the message
//                itself: u8 bytes of it, as protobuf reads them
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/temp_directory.h"
#include "base/testing/eventually.h"
#include "base/testing/fuzz_input.h"
#include "base/unique_fd.h"
#include "gpu_daemon/backends/registry.h"
#include "gpu_daemon/control/net/http2_guard.h"
#include "gpu_daemon/control/rpc/admin_service.h"
#include "gpu_daemon/control/rpc/devices_service.h"
#include "gpu_daemon/control/rpc/events_service.h"
#include "gpu_daemon/control/rpc/snapshot.h"
#include "gpu_daemon/control/rpc/snapshot_changes.h"

namespace carillon::gpud {
namespace {

constexpr size_t kMaxCalls = 40;
// A kernel as long as an argument says is nobody's mistake, but no fuzzing.
constexpr char kUnbounded[] = "busy";

// Every call is this process's.
class OwnCalls final : public Callers {
 public:
  OwnCalls(const PeerTable* peers, const SessionTable* sessions,
           std::shared_ptr<const Peer> own)
      : Callers(peers, sessions), own_(std::move(own)) {}

  absl::StatusOr<std::shared_ptr<const Peer>> PeerOf(
      const grpc::ServerContext&) const override {
    return own_;
  }

 private:
  const std::shared_ptr<const Peer> own_;
};

// What ControlPlane has, but for sockets and gRPC's servers.
class Services {
 public:
  Services() {
    context.budget = &budget;
    context.ekt = &ekt;
    context.bus = bus.get();
    context.loop = loop.get();
    context.backend = backend.get();
    context.kernels = &kernels;
    context.modules = &modules;
    std::thread([this] { loop->Run(); }).detach();
  }

  TempDirectory folder = *TempDirectory::Make();
  MemoryBudget budget{8 << 20};
  EventKernelTable ekt{8};
  PeerTable peers;
  TicketStore tickets;
  SessionContext context;
  std::unique_ptr<EventLoop> loop = *EventLoop::Create();
  std::unique_ptr<TelemetryBus> bus =
      *TelemetryBus::Start({.socket_path = folder.path() + "/bus.sock"});
  std::unique_ptr<Backend> backend = *MakeBackend("cpu", {.workers = 1});
  KernelCatalog kernels;
  ModuleStore modules{folder.path() + "/modules"};
  SessionTable sessions{&context, &tickets, SessionTable::kMaxSessions};
  OwnCalls callers{&peers, &sessions, Own()};
  DevicesService devices{&callers, &sessions};
  EventsService events{&callers, &kernels};
  ChangeLog changes{&peers};
  AdminService admin{{.testbed = "fuzz"},
                     &context,
                     &sessions,
                     &changes,
                     [] {},
                     [](const std::string&) {},
                     [](v1::GetStatusResponse*) {}};

 private:
  std::shared_ptr<const Peer> Own() {
    auto ends = *Http2Guard::MakePair();
    bool is_new = false;
    return *peers.Admit(ends.first.get(), ends.first.get(), &is_new);
  }
};

Services& Gpud() {
  static auto* const services = new Services;
  return *services;
}

// What sessions hold: memory, pipes, sockets, processes. gRPC takes an eventfd
// more whenever one more of its threads polls, and keeps it.
size_t Descriptors() {
  size_t count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string what = std::filesystem::read_symlink(entry, gone);
    if (!gone && !what.starts_with("anon_inode:[event")) ++count;
  }
  return count;
}

class Run {
 public:
  explicit Run(fuzz::FuzzInput input) : input_(input) {}

  void Go() {
    for (size_t i = 0; i < kMaxCalls && !input_.empty(); ++i) Step();
    for (const std::string& session : sessions_) {
      v1::DetachRequest request;
      request.set_session(session);
      v1::DetachResponse response;
      Call(Gpud().devices, &DevicesService::Detach, request, &response);
    }
    FUZZ_CHECK(Gpud().sessions.All().empty(), "a device is left");
    // The loop's thread may have a session in hand.
    FUZZ_CHECK(Eventually([] {
                 return Gpud().budget.used() == 0 && Gpud().ekt.used() == 0;
               }),
               "memory or an event kernel is left");
  }

 private:
  void Step() {
    const auto what = input_.Take<uint8_t>();
    const bool raw = what >= 128;
    switch (what % 16) {
      case 0:
      case 1:
        return Attach(raw);
      case 2:
        return ReportReady(raw);
      case 3:
        return Detach(raw);
      case 4:
      case 5:
        return AllocateBuffer(raw);
      case 6:
        return FreeBuffer(raw);
      case 7:
      case 8:
      case 9:
        return RegisterEvent(raw);
      case 10:
        return UnregisterEvent(raw);
      case 11:
        return ScheduleEvent(raw);
      case 12:
        return LaunchKernel(raw);
      case 13:
        return RegisterModule(raw);
      case 15:
        return Copy(raw);
      case 14:
        return Steer();
      default:
        return Look();
    }
  }

  template <class Service, class Request, class Response>
  bool Call(Service& service,
            grpc::Status (Service::*method)(grpc::ServerContext*,
                                            const Request*, Response*),
            const Request& request, Response* response) {
    // Text that is not UTF-8 gets no further than gRPC.
    Request read;
    if (!read.ParseFromString(request.SerializeAsString())) return false;
    grpc::ServerContext context;
    const grpc::Status status = (service.*method)(&context, &read, response);
    if (status.ok()) return true;
    const grpc::StatusCode code = status.error_code();
    const std::string& words = status.error_message();
    FUZZ_CHECK(code != grpc::StatusCode::INTERNAL &&
                   code != grpc::StatusCode::UNKNOWN &&
                   code != grpc::StatusCode::UNAVAILABLE &&
                   code != grpc::StatusCode::DEADLINE_EXCEEDED,
               "code %d: %s", static_cast<int>(code), words.c_str());
    FUZZ_CHECK(!words.empty(), "code %d without a word",
               static_cast<int>(code));
    for (const char c : words) {
      FUZZ_CHECK(static_cast<unsigned char>(c) >= ' ' || c == '\n',
                 "a control character in: %s", words.c_str());
    }
    return false;
  }

  template <class Message>
  Message Raw() {
    Message message;
    const std::string_view bytes = input_.TakeText(input_.Take<uint8_t>());
    message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
    return message;
  }
  // Mostly one that there is.
  std::string Session() {
    const auto which = input_.Take<uint8_t>();
    if (sessions_.empty() || which == 255) {
      return std::string(input_.TakeText(which % 20));
    }
    return sessions_[which % sessions_.size()];
  }
  // Small, or where counters end.
  uint64_t Number() {
    const auto byte = input_.Take<uint8_t>();
    if (byte < 224) return byte;
    const int bits = 2 * (byte - 223);
    return (uint64_t{1} << (bits - 1)) - (byte & 1);
  }
  std::string Text() {
    return std::string(input_.TakeText(input_.Take<uint8_t>() % 80));
  }

  void Attach(bool raw) {
    v1::AttachRequest request;
    if (raw) {
      request = Raw<v1::AttachRequest>();
    } else {
      const auto how = input_.Take<uint8_t>();
      request.set_name("dev" + std::to_string(how & 3));
      request.set_kind("test");
      request.set_submission_bytes(64 << 10);
      request.set_completion_bytes(64 << 10);
      request.set_layout_version(shm::kLayoutVersion);
      if ((how & 4) != 0) request.set_name(Text());
      if ((how & 8) != 0) request.set_kind(Text());
      if ((how & 16) != 0) request.set_submission_bytes(Number());
      if ((how & 32) != 0) request.set_completion_bytes(Number());
      if ((how & 64) != 0) {
        for (auto n = input_.Take<uint8_t>() % 70; n > 0; --n) {
          request.add_counter_names("c" + std::to_string(n));
        }
        request.add_histogram_names(Text());
      }
      if ((how & 128) != 0) request.set_layout_version(Number());
    }
    v1::AttachResponse response;
    if (!Call(Gpud().devices, &DevicesService::Attach, request, &response)) {
      return;
    }
    sessions_.push_back(response.session());
    if (input_.TakeBool()) return;
    // As HandoverServer does; what is sent goes with the connection.
    auto ends = *Http2Guard::MakePair();
    const auto session = Gpud().sessions.FindDevice(response.device_id());
    FUZZ_CHECK(session != nullptr);
    FUZZ_CHECK(session->HandOver(std::move(ends.first), [] {}).ok());
    connections_.push_back(std::move(ends.second));
  }
  void ReportReady(bool raw) {
    auto request =
        raw ? Raw<v1::ReportReadyRequest>() : v1::ReportReadyRequest();
    request.set_session(Session());
    if (!raw) request.set_note(Text());
    v1::ReportReadyResponse response;
    Call(Gpud().devices, &DevicesService::ReportReady, request, &response);
  }
  void Detach(bool raw) {
    auto request = raw ? Raw<v1::DetachRequest>() : v1::DetachRequest();
    if (!raw) request.set_session(Session());
    v1::DetachResponse response;
    Call(Gpud().devices, &DevicesService::Detach, request, &response);
  }
  void AllocateBuffer(bool raw) {
    auto request =
        raw ? Raw<v1::AllocateBufferRequest>() : v1::AllocateBufferRequest();
    request.set_session(Session());
    if (!raw) {
      const auto how = input_.Take<uint8_t>();
      request.set_place(static_cast<v1::BufferPlace>(how % 5));
      request.set_bytes((how & 32) != 0 ? Number() : 256);
      if ((how & 64) != 0) {
        request.mutable_resumed()->set_buffer_id(Number());
        request.mutable_resumed()->set_offset(Number() * 128);
      }
    }
    v1::AllocateBufferResponse response;
    Call(Gpud().events, &EventsService::AllocateBuffer, request, &response);
  }
  void FreeBuffer(bool raw) {
    auto request = raw ? Raw<v1::FreeBufferRequest>() : v1::FreeBufferRequest();
    request.set_session(Session());
    if (!raw) request.set_buffer_id(Number());
    v1::FreeBufferResponse response;
    Call(Gpud().events, &EventsService::FreeBuffer, request, &response);
  }

  // One of a few kernels and bindings that it takes, spoilt here and there.
  template <class Request>
  void Launch(Request& request) {
    constexpr std::array<const char*, 5> kKernels = {
        "null_event", "echo", "vector_add", "reduce", "crc32"};
    constexpr std::array<std::array<const char*, 3>, 5> kParameters = {
        {{"token"},
         {"in", "out"},
         {"a", "b", "c"},
         {"in", "sum"},
         {"messages", "message_bytes", "crcs"}}};
    const auto how = input_.Take<uint8_t>();
    const size_t kernel = how % kKernels.size();
    request.set_kernel((how & 128) != 0 ? Text() : kKernels[kernel]);
    const auto spoilt = input_.Take<uint8_t>();
    request.mutable_block()->set_x((spoilt & 1) != 0 ? Number() : 32);
    request.mutable_block()->set_y((spoilt & 2) != 0 ? Number() : 1);
    request.mutable_block()->set_z(1);
    if ((spoilt & 4) != 0) {
      request.mutable_grid()->set_x(Number());
      request.mutable_grid()->set_y(Number());
      request.mutable_grid()->set_z(1);
    }
    if ((spoilt & 8) != 0) request.set_shared_bytes(Number());
    if ((spoilt & 16) != 0) request.set_priority(Number());
    for (const char* name : kParameters[kernel]) {
      if (name == nullptr) break;
      v1::ParameterBinding* const binding = request.add_parameters();
      const auto of = input_.Take<uint8_t>();
      binding->set_name((of & 128) != 0 ? Text() : name);
      binding->set_writable((of & 1) != 0);
      if ((of & 2) != 0) binding->set_unsigned_value(Number());
      if ((of & 4) != 0) binding->set_signed_value(input_.Take<int8_t>());
      if ((of & 8) != 0) binding->set_float_value(input_.Take<float>());
      if ((of & 16) != 0) binding->set_buffer_id(1 + Number());
      if ((of & 32) != 0) {
        binding->set_offset(Number());
        binding->set_length(Number());
      }
      if ((of & 64) != 0) binding->set_slot_stride(Number());
    }
  }
  std::string DeviceName() {
    const auto which = input_.Take<uint8_t>();
    return which < 128 ? "dev" + std::to_string(which & 3) : Text();
  }
  // Lets a parameter be that of an event kernel of another device.
  void Take(v1::RegisterEventRequest& request) {
    constexpr std::array<const char*, 4> kTaken = {"out", "in", "c", "sum"};
    const auto which = input_.Take<uint8_t>();
    auto* const binding =
        request.mutable_parameters(which % request.parameters_size());
    const std::string name = binding->name();
    if ((which & 64) == 0) binding->Clear();
    binding->set_name(name);
    binding->set_taken((which & 128) != 0 ? Text() : kTaken[which / 16 % 4]);
  }
  void RegisterEvent(bool raw) {
    auto request =
        raw ? Raw<v1::RegisterEventRequest>() : v1::RegisterEventRequest();
    request.set_session(Session());
    if (!raw) {
      Launch(request);
      const auto how = input_.Take<uint8_t>();
      request.set_max_in_flight((how & 1) != 0 ? Number() : 4);
      request.set_modifyable((how & 2) != 0);
      if ((how & 4) != 0) request.set_label(Text());
      if ((how & 8) != 0) request.set_launch_path(Text());
      if ((how & 16) != 0) {
        auto* const resumed = request.mutable_resumed();
        resumed->set_event_id(Number());
        resumed->set_esq_offset(shm::kSubmissionHeapOffset + Number() * 128);
        resumed->set_ecq_offset(shm::kCompletionHeapOffset + Number() * 128);
        resumed->set_consumed(Number());
      }
      if ((how & 32) != 0) request.set_hands_to(DeviceName());
      if ((how & 64) != 0) request.set_takes_from(DeviceName());
      if ((how & 128) != 0 && request.parameters_size() != 0) Take(request);
    }
    v1::RegisterEventResponse response;
    Call(Gpud().events, &EventsService::RegisterEvent, request, &response);
  }
  void UnregisterEvent(bool raw) {
    auto request =
        raw ? Raw<v1::UnregisterEventRequest>() : v1::UnregisterEventRequest();
    request.set_session(Session());
    if (!raw) request.set_event_id(Number());
    // Nobody waits here for what does not end.
    request.set_drain_ms(1);
    v1::UnregisterEventResponse response;
    Call(Gpud().events, &EventsService::UnregisterEvent, request, &response);
  }
  void ScheduleEvent(bool raw) {
    auto request =
        raw ? Raw<v1::ScheduleEventRequest>() : v1::ScheduleEventRequest();
    request.set_session(Session());
    if (!raw) {
      request.set_event_id(Number());
      request.set_through(Number());
    }
    v1::ScheduleEventResponse response;
    Call(Gpud().events, &EventsService::ScheduleEvent, request, &response);
    v1::ReleaseBarrierRequest release;
    release.set_session(request.session());
    release.set_event_id(request.event_id());
    v1::ReleaseBarrierResponse released;
    Call(Gpud().events, &EventsService::ReleaseBarrier, release, &released);
  }
  void LaunchKernel(bool raw) {
    auto request =
        raw ? Raw<v1::LaunchKernelRequest>() : v1::LaunchKernelRequest();
    request.set_session(Session());
    if (!raw) Launch(request);
    // What is allowed and long is nobody's mistake either.
    const v1::Dim3& grid = request.grid();
    if (request.kernel() == kUnbounded ||
        uint64_t{std::max(grid.x(), 1u)} * std::max(grid.y(), 1u) > 64 ||
        grid.z() > 1) {
      return;
    }
    v1::LaunchKernelResponse response;
    Call(Gpud().events, &EventsService::LaunchKernel, request, &response);
  }
  void Copy(bool raw) {
    auto request = raw ? Raw<v1::CopyRequest>() : v1::CopyRequest();
    request.set_session(Session());
    if (!raw) {
      request.set_from_buffer(Number());
      request.set_to_buffer(Number());
      request.set_from_offset(Number());
      request.set_to_offset(Number());
      request.set_bytes(Number());
      request.set_priority(Number());
    }
    v1::CopyResponse response;
    Call(Gpud().events, &EventsService::Copy, request, &response);
  }
  void RegisterModule(bool raw) {
    auto request =
        raw ? Raw<v1::RegisterModuleRequest>() : v1::RegisterModuleRequest();
    if (!raw) {
      request.set_image(Text());
      request.set_file(Text());
      request.add_kernels()->set_symbol(Text());
    }
    v1::RegisterModuleResponse response;
    FUZZ_CHECK(
        !Call(Gpud().admin, &AdminService::RegisterModule, request, &response));
  }
  void Steer() {
    const auto how = input_.Take<uint8_t>();
    if ((how & 1) != 0) {
      v1::SetPolicyRequest request;
      request.set_policy((how & 2) != 0   ? "priority"
                         : (how & 4) != 0 ? "first_come"
                                          : Text());
      v1::SetPolicyResponse response;
      Call(Gpud().admin, &AdminService::SetPolicy, request, &response);
    }
    if ((how & 8) != 0) {
      v1::SetTracingRequest request;
      request.set_on((how & 16) != 0);
      v1::SetTracingResponse response;
      Call(Gpud().admin, &AdminService::SetTracing, request, &response);
    }
    if ((how & 32) != 0) {
      v1::ResetStatisticsResponse response;
      Call(Gpud().admin, &AdminService::ResetStatistics,
           v1::ResetStatisticsRequest(), &response);
    }
  }
  void Look() {
    v1::ListRingsResponse rings;
    FUZZ_CHECK(Call(Gpud().admin, &AdminService::ListRings,
                    v1::ListRingsRequest(), &rings));
    v1::ListEktResponse ekt;
    FUZZ_CHECK(
        Call(Gpud().admin, &AdminService::ListEkt, v1::ListEktRequest(), &ekt));
    FUZZ_CHECK(ekt.entries_size() <= 8);
    v1::ListDevicesResponse devices;
    FUZZ_CHECK(Call(Gpud().admin, &AdminService::ListDevices,
                    v1::ListDevicesRequest(), &devices));
    FUZZ_CHECK(static_cast<size_t>(devices.devices_size()) <= sessions_.size());
    v1::ListQueuesResponse queues;
    FUZZ_CHECK(Call(Gpud().admin, &AdminService::ListQueues,
                    v1::ListQueuesRequest(), &queues));
    Sample now = TakeSample(Gpud().context, Gpud().sessions,
                            {.histograms = true, .first = false}, seen_);
    const v1::Snapshot changes = ChangesBetween(seen_, now);
    FUZZ_CHECK(changes.devices_size() <= devices.devices_size());
    FUZZ_CHECK(changes.ring_figures_size() <= rings.rings_size());
    seen_ = std::move(now);
  }

  fuzz::FuzzInput input_;
  std::vector<std::string> sessions_;
  std::vector<UniqueFd> connections_;
  Sample seen_;
};

}  // namespace
}  // namespace carillon::gpud

// A sanitizer's: starts the program that knows functions' names, and has two
// pipes to it, for good.
extern "C" __attribute__((weak)) void __sanitizer_symbolize_pc(void* pc,
                                                               const char* how,
                                                               char* out,
                                                               size_t size);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // What a test would only note ends this process.
  GTEST_FLAG_SET(break_on_failure, true);
  // Their complaints are answers here.
  spdlog::set_level(spdlog::level::off);
  google::protobuf::SetLogHandler(nullptr);
  carillon::gpud::Run({data, size}).Go();
  static const size_t open = [] {
    char name[64];
    if (__sanitizer_symbolize_pc != nullptr) {
      __sanitizer_symbolize_pc(__builtin_return_address(0), "%f", name,
                               sizeof(name));
    }
    return carillon::gpud::Descriptors();
  }();
  // A connection that is closed here is closed there a moment later.
  FUZZ_CHECK(carillon::Eventually(
                 [] { return carillon::gpud::Descriptors() <= open; }),
             "descriptors are left");
  return 0;
}
