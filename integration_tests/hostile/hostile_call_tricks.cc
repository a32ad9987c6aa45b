// Tricks against the services.
#include <grpcpp/channel.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>

#include <atomic>
#include <limits>
#include <thread>
#include <vector>

#include "integration_tests/hostile/hostile_tricks.h"

namespace carillon::testing {
namespace {

// A stream of any method that says nothing.
class WireStream {
 public:
  WireStream(const std::shared_ptr<grpc::Channel>& channel,
             const std::string& method)
      : stub_(channel) {
    context_.set_deadline(std::chrono::system_clock::now() + kPatience);
    call_ = stub_.PrepareCall(&context_, method, &queue_);
    call_->StartCall(nullptr);
    call_->Finish(&status_, this);
  }
  grpc::Status End() {
    void* tag = nullptr;
    bool ok = false;
    while (tag != this && queue_.Next(&tag, &ok)) {
    }
    return status_;
  }

 private:
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  grpc::Status status_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
};

grpc::Status TryAttach(const WireControl& control,
                       const v1::AttachRequest& request) {
  return control.Call(&v1::Devices::Stub::Attach, request);
}

void ForeignNames(const Scene& scene) {
  auto& control = Keep(new WireControl(scene.paths));
  SayOutcome("the name of another device",
             TryAttach(control, AttachRequestFor(scene.victim)));
  for (const std::string& name :
       {std::string(), std::string("../gpud"), std::string("a/b"),
        std::string("UPPER"), std::string(33, 'a'), std::string("a\nb"),
        std::string("a\0b", 3), std::string(100'000, 'x')}) {
    SayOutcome(fmt::format("a name of {} bytes", name.size()),
               TryAttach(control, AttachRequestFor(name)));
  }
  v1::AttachRequest request = AttachRequestFor(scene.name);
  request.set_layout_version(99);
  SayOutcome("another layout version", TryAttach(control, request));
  request = AttachRequestFor(scene.name);
  for (int i = 0; i < 65; ++i) request.add_counter_names(fmt::format("c{}", i));
  SayOutcome("too many counters", TryAttach(control, request));
}

void GrabMemory(const Scene& scene) {
  auto& control = Keep(new WireControl(scene.paths));
  for (const uint64_t bytes : {std::numeric_limits<uint64_t>::max(),
                               uint64_t{1} << 63, uint64_t{1} << 40}) {
    v1::AttachRequest request = AttachRequestFor(scene.name);
    request.set_submission_bytes(bytes);
    SayOutcome("a huge submission aperture", TryAttach(control, request));
    request = AttachRequestFor(scene.name);
    request.set_completion_bytes(bytes);
    SayOutcome("a huge completion aperture", TryAttach(control, request));
  }
  auto& device = Keep(new WireDevice(scene.paths, scene.name));
  v1::AllocateBufferRequest request;
  request.set_session(device.attached.session());
  for (const v1::BufferPlace place : {v1::INPUT, v1::OUTPUT, v1::GPU_MEMORY}) {
    request.set_place(place);
    for (const uint64_t bytes : {std::numeric_limits<uint64_t>::max(),
                                 uint64_t{1} << 40, uint64_t{0}}) {
      request.set_bytes(bytes);
      SayOutcome(
          fmt::format("a buffer of {} bytes", bytes),
          device.control.Call(&v1::Events::Stub::AllocateBuffer, request));
    }
  }
  // Takes all of gpud's budget, piece by piece.
  request.set_place(v1::GPU_MEMORY);
  grpc::Status status;
  for (uint64_t bytes = uint64_t{1} << 24; bytes >= 4096; bytes /= 2) {
    request.set_bytes(bytes);
    while ((status =
                device.control.Call(&v1::Events::Stub::AllocateBuffer, request))
               .ok()) {
    }
  }
  SayOutcome("GPU memory beyond gpud's", status);
}

void FloodRegistrations(const Scene& scene) {
  auto& device = Keep(new WireDevice(scene.paths, scene.name));
  const WireControl& control = device.control;
  v1::RegisterEventRequest request;
  request.set_session(device.attached.session());
  request.set_kernel("null_event");
  request.set_max_in_flight(1);
  SetOneThread(request);
  v1::ParameterBinding* token = request.add_parameters();
  token->set_name("token");
  token->set_unsigned_value(1);
  grpc::Status status;
  while (
      (status = control.Call(&v1::Events::Stub::RegisterEvent, request)).ok()) {
  }
  SayOutcome("one more event kernel", status);
  v1::AllocateBufferRequest buffer;
  buffer.set_session(device.attached.session());
  buffer.set_place(v1::GPU_MEMORY);
  buffer.set_bytes(1);
  while (
      (status = control.Call(&v1::Events::Stub::AllocateBuffer, buffer)).ok()) {
  }
  SayOutcome("one more buffer", status);
}

// Makes its apertures grow, over and over, and then as far as they go.
void GrowStorm(const Scene& scene) {
  auto& device = Keep(new WireDevice(scene.paths, scene.name));
  const auto used = [control = WireControl::OfOperator(scene.paths)] {
    v1::GetStatusResponse status;
    return control.Call(&v1::Admin::Stub::GetStatus, v1::GetStatusRequest(),
                        &status)
                   .ok()
               ? status.memory_used()
               : 0;
  };
  v1::AllocateBufferRequest request;
  request.set_session(device.attached.session());
  request.set_bytes(uint64_t{2} << 20);
  uint64_t grown = 0;
  for (int i = 0; i < 300; ++i) {
    request.set_place(i % 2 == 0 ? v1::INPUT : v1::OUTPUT);
    v1::AllocateBufferResponse buffer;
    v1::FreeBufferRequest free;
    free.set_session(device.attached.session());
    if (!device.control
             .Call(&v1::Events::Stub::AllocateBuffer, request, &buffer)
             .ok()) {
      return Say("UNEXPECTED: it does not grow");
    }
    free.set_buffer_id(buffer.buffer_id());
    if (!device.control.Call(&v1::Events::Stub::FreeBuffer, free).ok()) {
      return Say("UNEXPECTED: the buffer stays");
    }
    if (i == 1) grown = used();
  }
  if (used() != grown) {
    return Say("UNEXPECTED: {} bytes are used after {}", used(), grown);
  }
  Say("seen: as much after 300 buffers as after two");
  for (const v1::BufferPlace place : {v1::INPUT, v1::OUTPUT}) {
    request.set_place(place);
    grpc::Status status;
    while ((status =
                device.control.Call(&v1::Events::Stub::AllocateBuffer, request))
               .ok()) {
    }
    SayOutcome("one more buffer", status);
  }
  request.set_bytes(uint64_t{300} << 20);
  SayOutcome("a buffer that no aperture can grow to",
             device.control.Call(&v1::Events::Stub::AllocateBuffer, request));
}

void AbsurdRegistrations(const Scene& scene) {
  auto& device = Keep(new WireDevice(scene.paths, scene.name));
  const WireControl& control = device.control;
  const auto try_out =
      [&](const std::string& what,
          const std::function<void(v1::RegisterEventRequest&)>& change) {
        v1::RegisterEventRequest request;
        request.set_session(device.attached.session());
        request.set_kernel("busy");
        request.set_max_in_flight(4);
        SetOneThread(request);
        v1::ParameterBinding* iterations = request.add_parameters();
        iterations->set_name("iterations");
        iterations->set_unsigned_value(1);
        change(request);
        SayOutcome(what,
                   control.Call(&v1::Events::Stub::RegisterEvent, request));
      };
  constexpr uint32_t kMax = std::numeric_limits<uint32_t>::max();
  try_out("no kernel", [](auto& r) { r.set_kernel(""); });
  try_out("no such kernel", [](auto& r) { r.set_kernel("no\1such"); });
  try_out("a kernel's name of a megabyte",
          [](auto& r) { r.set_kernel(std::string(1 << 20, 'k')); });
  try_out("a grid of 2^96", [](auto& r) {
    r.mutable_grid()->set_x(kMax);
    r.mutable_grid()->set_y(kMax);
    r.mutable_grid()->set_z(kMax);
  });
  try_out("a block of 2^32", [](auto& r) { r.mutable_block()->set_x(kMax); });
  try_out("a block of 65536 squared", [](auto& r) {
    r.mutable_block()->set_x(65536);
    r.mutable_block()->set_y(65536);
  });
  try_out("shared memory", [](auto& r) { r.set_shared_bytes(kMax); });
  for (const uint32_t entries : {0u, 3u, 131072u, kMax}) {
    try_out(fmt::format("a ring of {}", entries),
            [&](auto& r) { r.set_max_in_flight(entries); });
  }
  try_out("a priority", [](auto& r) { r.set_priority(kMax); });
  try_out("no parameters", [](auto& r) { r.clear_parameters(); });
  try_out("ten thousand parameters", [](auto& r) {
    for (int i = 0; i < 10'000; ++i) *r.add_parameters() = r.parameters(0);
  });
  try_out("another parameter",
          [](auto& r) { r.mutable_parameters(0)->set_name("x"); });
  try_out("a buffer for a value", [](auto& r) {
    r.mutable_parameters(0)->clear_value();
    r.mutable_parameters(0)->set_buffer_id(1);
  });
  try_out("a launch path", [](auto& r) { r.set_launch_path("../edge"); });
  try_out("a label", [](auto& r) { r.set_label(std::string(65, 'l')); });
  try_out("an event id again", [](auto& r) {
    r.mutable_resumed()->set_event_id(kMax);
    r.mutable_resumed()->set_esq_offset(~uint64_t{0});
    r.mutable_resumed()->set_ecq_offset(~uint64_t{0});
    r.mutable_resumed()->set_consumed(~uint64_t{0});
  });
  try_out("a ring where the control words are", [](auto& r) {
    r.mutable_resumed()->set_esq_offset(0);
    r.mutable_resumed()->set_ecq_offset(0);
  });
}

void TopPriority(const Scene& scene) {
  auto& device = Keep(new WireDevice(scene.paths, scene.name));
  const auto fill_in = [&](auto& request, uint32_t priority) {
    request.set_session(device.attached.session());
    request.set_kernel("busy");
    SetOneThread(request);
    v1::ParameterBinding* iterations = request.add_parameters();
    iterations->set_name("iterations");
    iterations->set_unsigned_value(1);
    request.set_priority(priority);
  };
  for (uint32_t priority = 4; priority <= 7; ++priority) {
    v1::RegisterEventRequest event;
    fill_in(event, priority);
    event.set_max_in_flight(1);
    SayOutcome(fmt::format("an event kernel of priority {}", priority),
               device.control.Call(&v1::Events::Stub::RegisterEvent, event));
    v1::LaunchKernelRequest kernel;
    fill_in(kernel, priority);
    SayOutcome(fmt::format("a kernel of priority {}", priority),
               device.control.Call(&v1::Events::Stub::LaunchKernel, kernel));
  }
}

void ForeignEvents(const Scene& scene) {
  auto& device = Keep(new WireDevice(scene.paths, scene.name));
  const WireControl& control = device.control;
  for (const std::string& session :
       {device.attached.session(), std::string(), std::string(16, '\0'),
        device.attached.session() + "x"}) {
    // The victim's event kernels have these ids, which are the victim's own
    // numbers.
    for (const uint32_t id : {0u, 1u, ~0u}) {
      v1::UnregisterEventRequest unregister;
      unregister.set_session(session);
      unregister.set_event_id(id);
      SayOutcome(fmt::format("unregistering event {}", id),
                 control.Call(&v1::Events::Stub::UnregisterEvent, unregister));
      v1::ScheduleEventRequest schedule;
      schedule.set_session(session);
      schedule.set_event_id(id);
      schedule.set_through(1);
      SayOutcome(fmt::format("scheduling event {}", id),
                 control.Call(&v1::Events::Stub::ScheduleEvent, schedule));
      v1::FreeBufferRequest free;
      free.set_session(session);
      free.set_buffer_id(id);
      SayOutcome(fmt::format("freeing buffer {}", id),
                 control.Call(&v1::Events::Stub::FreeBuffer, free));
    }
  }
  auto& ring = Keep(new WireRing(&device, 8, 32));
  v1::ScheduleEventRequest schedule;
  schedule.set_session(device.attached.session());
  schedule.set_event_id(ring.layout().event_id());
  schedule.set_through(~uint64_t{0});
  SayOutcome("scheduling more than there can be",
             control.Call(&v1::Events::Stub::ScheduleEvent, schedule));
}

void FloodSessions(const Scene& scene) {
  auto& control = Keep(new WireControl(scene.paths));
  grpc::Status status;
  for (int i = 0; status.ok() && i < 1000; ++i) {
    auto request = AttachRequestFor(fmt::format("{}-{}", scene.name, i));
    request.set_submission_bytes(4096);
    request.set_completion_bytes(4096);
    status = TryAttach(control, request);
  }
  SayOutcome("one more session", status);
}

// Makes more long calls than gpud lets wait, for several devices.
void FloodCalls(const Scene& scene) {
  struct Launch {
    grpc::ClientContext context;
    v1::LaunchKernelResponse response;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<v1::LaunchKernelResponse>>
        call;
  };
  auto& queue = Keep(new grpc::CompletionQueue);
  constexpr uint32_t kDevices = 8;
  constexpr uint32_t kLaunches = 64;  // of each
  for (uint32_t i = 0; i < kDevices; ++i) {
    auto& device =
        Keep(new WireDevice(scene.paths, fmt::format("{}-{}", scene.name, i)));
    v1::LaunchKernelRequest request;
    request.set_session(device.attached.session());
    request.set_kernel("busy");
    SetOneThread(request);
    v1::ParameterBinding* const iterations = request.add_parameters();
    iterations->set_name("iterations");
    // Takes a worker some hundredths of a second.
    iterations->set_unsigned_value(30'000'000);
    for (uint32_t k = 0; k < kLaunches; ++k) {
      auto& launch = Keep(new Launch);
      launch.call = device.control.events->PrepareAsyncLaunchKernel(
          &launch.context, request, &queue);
      launch.call->StartCall();
      launch.call->Finish(&launch.response, &launch.status, &launch);
    }
  }
  uint32_t refused = 0;
  std::string why = "none was refused";
  void* tag = nullptr;
  bool ok = false;
  for (uint32_t i = 0; i < kDevices * kLaunches; ++i) {
    if (queue.AsyncNext(&tag, &ok,
                        std::chrono::system_clock::now() + kPatience) !=
        grpc::CompletionQueue::GOT_EVENT) {
      return Say("UNEXPECTED: {} launches do not end",
                 kDevices * kLaunches - i);
    }
    const auto* const launch = static_cast<Launch*>(tag);
    if (launch->status.error_code() != grpc::StatusCode::RESOURCE_EXHAUSTED) {
      continue;
    }
    ++refused;
    why = launch->status.error_message();
  }
  Say("{}: launches: {}", refused > 0 ? "refused" : "UNEXPECTED", why);
}

// What an operator may, asked for as a device.
void SteerTestbed(const Scene& scene) {
  auto& control = Keep(new WireControl(scene.paths));
  v1::SetPolicyRequest policy;
  policy.set_policy("priority");
  SayOutcome("SetPolicy", control.Call(&v1::Admin::Stub::SetPolicy, policy));
  SayOutcome("ResetStatistics", control.Call(&v1::Admin::Stub::ResetStatistics,
                                             v1::ResetStatisticsRequest()));
  v1::SetTracingRequest tracing;
  tracing.set_on(true);
  SayOutcome("SetTracing", control.Call(&v1::Admin::Stub::SetTracing, tracing));
  v1::DrainRequest drain;
  drain.set_timeout_ms(1);
  SayOutcome("Drain", control.Call(&v1::Admin::Stub::Drain, drain));
  v1::RegisterModuleRequest module;
  for (const size_t bytes : {1u, 60u << 20, 100u << 20}) {
    module.set_image(std::string(bytes, 'm'));
    SayOutcome(fmt::format("RegisterModule of {} bytes", bytes),
               control.Call(&v1::Admin::Stub::RegisterModule, module));
  }
  for (int i = 0; i < 500; ++i) {
    SayOutcome(fmt::format("Shutdown {}", i),
               control.Call(&v1::Admin::Stub::Shutdown, v1::ShutdownRequest()));
  }
}

void InjectFaults(const Scene& scene) {
  auto& control = Keep(new WireControl(scene.paths));
  v1::InjectRequest inject;
  v1::Fault* const fault = inject.add_faults();
  fault->set_name("end-gpud");
  fault->mutable_target()->set_process("gpud");
  fault->mutable_when()->set_point("gpud.ring_seen");
  fault->mutable_action()->set_kind("kill");
  SayOutcome("Inject", control.Call(&v1::Faults::Stub::Inject, inject));
  SayOutcome("List",
             control.Call(&v1::Faults::Stub::List, v1::ListFaultsRequest()));
  SayOutcome("Clear",
             control.Call(&v1::Faults::Stub::Clear, v1::ClearFaultsRequest()));
}

// What a viewer may.
void LookAround(const Scene& scene) {
  auto& control = Keep(new WireControl(scene.paths));
  SayOutcome("GetStatus",
             control.Call(&v1::Admin::Stub::GetStatus, v1::GetStatusRequest()));
  SayOutcome("ListDevices", control.Call(&v1::Admin::Stub::ListDevices,
                                         v1::ListDevicesRequest()));
  SayOutcome("ListEkt",
             control.Call(&v1::Admin::Stub::ListEkt, v1::ListEktRequest()));
  SayOutcome("ListRings",
             control.Call(&v1::Admin::Stub::ListRings, v1::ListRingsRequest()));
  SayOutcome("ListQueues", control.Call(&v1::Admin::Stub::ListQueues,
                                        v1::ListQueuesRequest()));
  // More streams than there are places and threads.
  for (const char* method :
       {"/carillon.v1.Admin/Watch", "/carillon.v1.Admin/StreamSnapshots",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"}) {
    for (int i = 0; i < 600; ++i) {
      auto& stream = Keep(new WireStream(control.channel, method));
      SayOutcome(fmt::format("{} {}", method, i), stream.End());
    }
  }
}

void HugeMessages(const Scene& scene) {
  auto& control = Keep(new WireControl(scene.paths));
  v1::AttachRequest request = AttachRequestFor(scene.name);
  request.set_kind(std::string(100 << 20, 'k'));
  SayOutcome("a message of 100 MiB", TryAttach(control, request));
  request.set_kind(std::string(60 << 20, 'k'));
  SayOutcome("a kind of 60 MiB", TryAttach(control, request));
  std::vector<std::thread> threads;
  std::atomic<uint32_t> refused{0};  // writers: the threads
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 3; ++k) {
        if (!TryAttach(control, request).ok()) ++refused;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Say("{}: {} more of them at a time", refused == 18 ? "refused" : "UNEXPECTED",
      refused.load());
  // A larger list of headers than any call has.
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  for (int i = 0; i < 64; ++i) {
    context.AddMetadata(fmt::format("h{}", i), std::string(4096, 'h'));
  }
  v1::ListKernelsResponse response;
  SayOutcome("headers of 256 KiB",
             control.events->ListKernels(&context, v1::ListKernelsRequest(),
                                         &response));
}

}  // namespace

std::vector<Trick> CallTricks() {
  return {
      {"foreign-names", "takes the name of another, or of no device",
       ForeignNames},
      {"grab-memory", "takes all memory, and more", GrabMemory},
      {"flood-registrations", "fills the table and its heap",
       FloodRegistrations},
      {"grow-storm", "makes its apertures grow as often as it can", GrowStorm},
      {"absurd-registrations", "registers what cannot be", AbsurdRegistrations},
      {"top-priority", "asks for more priority than the operator allows",
       TopPriority},
      {"foreign-events", "uses ids, buffers and sessions of others",
       ForeignEvents},
      {"flood-sessions", "attaches and fetches nothing", FloodSessions},
      {"flood-calls", "more calls that take long than gpud lets wait",
       FloodCalls},
      {"steer-testbed", "ends, drains and changes the testbed", SteerTestbed},
      {"inject-faults", "puts a fault on gpud", InjectFaults},
      {"look-around", "looks at the other devices", LookAround},
      {"huge-messages", "messages and headers that are too long", HugeMessages},
  };
}

}  // namespace carillon::testing
