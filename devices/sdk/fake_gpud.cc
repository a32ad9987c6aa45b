#include "devices/sdk/fake_gpud.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "base/testbed_paths.h"
#include "devices/sdk/unix_target.h"
#include "fmt/format.h"
#include "shm/handover.h"

namespace carillon::edge {
namespace {

constexpr uint32_t kDeviceId = 7;
constexpr uint64_t kHeapBytes = 1 << 20;
const shm::Generation kGeneration(3);

// A test cannot go on without what it stands on.
template <class T>
T Must(absl::StatusOr<T> made) {
  if (made.ok()) return *std::move(made);
  fmt::print(stderr, "fake gpud: {}\n", std::string(made.status().message()));
  std::abort();
}

}  // namespace

FakeGpud::FakeGpud(const std::string& directory)
    : directory_(directory),
      listener_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)),
      submission_(
          Must(shm::Aperture::Create({.kind = shm::RegionKind::kSubmission,
                                      .heap_bytes = kHeapBytes,
                                      .generation = kGeneration,
                                      .device_id = kDeviceId}))),
      completion_(
          Must(shm::Aperture::Create({.kind = shm::RegionKind::kCompletion,
                                      .heap_bytes = kHeapBytes,
                                      .generation = kGeneration,
                                      .device_id = kDeviceId}))),
      event_(Must(shm::CompletionEvent::Create())),
      bell_(std::make_unique<shm::CompletionBell>(&submission_, &completion_,
                                                  event_.writer.get())) {
  const TestbedPaths paths(directory);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, paths.handover_socket().c_str(),
               sizeof(address.sun_path) - 1);
  unlink(address.sun_path);  // another fake's, before
  if (bind(listener_.get(), reinterpret_cast<sockaddr*>(&address),
           sizeof(address)) != 0 ||
      listen(listener_.get(), 4) != 0) {
    fmt::print(stderr, "fake gpud: {}: {}\n", address.sun_path,
               std::strerror(errno));
    std::abort();
  }
  grpc::ServerBuilder builder;
  builder.AddListeningPort(UnixTarget(paths.control_socket()),
                           grpc::InsecureServerCredentials());
  builder.RegisterService(static_cast<v1::Devices::Service*>(this));
  builder.RegisterService(static_cast<v1::Events::Service*>(this));
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) std::abort();
  handover_ = std::thread([this] { ServeHandover(); });
}

FakeGpud::~FakeGpud() {
  server_->Shutdown(std::chrono::system_clock::now());
  shutdown(listener_.get(), SHUT_RDWR);
  handover_.join();
}

void FakeGpud::Behave(Behaviour behaviour) {
  MutexLock lock(mutex_);
  behaviour_ = std::move(behaviour);
}

void FakeGpud::Close(shm::CloseReason reason) {
  std::atomic_ref<uint32_t>(completion_.completion_control().closed)
      .store(static_cast<uint32_t>(reason), std::memory_order_seq_cst);
  bell_->SignalAlways();
  HangUp();
}

void FakeGpud::HangUp() {
  MutexLock lock(mutex_);
  connection_.reset();
}

std::span<std::byte> FakeGpud::buffer(uint32_t id) const {
  MutexLock lock(mutex_);
  return buffers_.at(id);
}
FakeGpud::Seen FakeGpud::seen() const {
  MutexLock lock(mutex_);
  return seen_;
}

void FakeGpud::ServeHandover() {
  while (true) {
    UniqueFd connection(
        accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!connection) return;
    const auto ticket =
        shm::ReceiveTicket(connection.get(), std::chrono::seconds(5));
    if (!ticket.ok()) continue;
    if ((*ticket)[0] != 't') {
      shm::SendRefusal(connection.get(),
                       absl::PermissionDeniedError("unknown ticket"));
      continue;
    }
    // Held while it sends: who has attached may have HangUp() called at once.
    MutexLock lock(mutex_);
    (void)shm::SendApertures(connection.get(), kDeviceId, kGeneration,
                             submission_.fd(), completion_.fd(),
                             event_.reader.get());
    connection_ = std::move(connection);
  }
}

grpc::Status FakeGpud::Enter(const std::string& name,
                             grpc::ServerContext* context) {
  Behaviour behaviour;
  {
    MutexLock lock(mutex_);
    seen_.calls.push_back(name);
    behaviour = behaviour_;
  }
  if (behaviour.answer_after.count() > 0) {
    // Ends early when the caller has given up.
    const auto until =
        std::chrono::steady_clock::now() + behaviour.answer_after;
    while (!context->IsCancelled() &&
           std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  const Refusal& refusal = behaviour.refusal;
  if (refusal.code == grpc::StatusCode::OK) return grpc::Status::OK;
  if (!refusal.trailer.empty())
    context->AddTrailingMetadata("carillon-error-bin", refusal.trailer);
  return grpc::Status(refusal.code, refusal.message);
}

uint64_t FakeGpud::Place(uint64_t* heap_used, const shm::Aperture& aperture,
                         uint64_t bytes) {
  const uint64_t offset = aperture.heap_offset() + *heap_used;
  *heap_used += shm::AlignUp(bytes, 128);
  return offset;
}

grpc::Status FakeGpud::Attach(grpc::ServerContext*,
                              const v1::AttachRequest* request,
                              v1::AttachResponse* response) {
  MutexLock lock(mutex_);
  seen_.calls.push_back("Attach");
  seen_.attach = *request;
  response->set_session("session of " + request->name());
  response->set_ticket("ticket of a fake");
  response->set_ticket_valid_ms(5000);
  response->set_device_id(kDeviceId);
  response->set_generation(kGeneration.value());
  if (behaviour_.change_attach) behaviour_.change_attach(response);
  return grpc::Status::OK;
}

grpc::Status FakeGpud::Detach(grpc::ServerContext*,
                              const v1::DetachRequest* request,
                              v1::DetachResponse*) {
  MutexLock lock(mutex_);
  seen_.calls.push_back("Detach " + request->session() +
                        (request->link_lost() ? ", its link is lost" : ""));
  return grpc::Status::OK;
}

grpc::Status FakeGpud::ReportReady(grpc::ServerContext* context,
                                   const v1::ReportReadyRequest* request,
                                   v1::ReportReadyResponse*) {
  return Enter("ReportReady " + request->note(), context);
}

grpc::Status FakeGpud::ListKernels(grpc::ServerContext* context,
                                   const v1::ListKernelsRequest*,
                                   v1::ListKernelsResponse* response) {
  if (auto status = Enter("ListKernels", context); !status.ok()) return status;
  v1::Kernel& kernel = *response->add_kernels();
  kernel.set_name("echo");
  kernel.set_summary("copies a buffer to another");
  return grpc::Status::OK;
}

grpc::Status FakeGpud::AllocateBuffer(grpc::ServerContext* context,
                                      const v1::AllocateBufferRequest* request,
                                      v1::AllocateBufferResponse* response) {
  if (auto status = Enter("AllocateBuffer", context); !status.ok())
    return status;
  MutexLock lock(mutex_);
  response->set_buffer_id(++last_id_);
  if (request->place() != v1::GPU_MEMORY) {
    const bool input = request->place() == v1::INPUT;
    const shm::Aperture& aperture = input ? submission_ : completion_;
    const uint64_t offset = Place(input ? &submission_used_ : &completion_used_,
                                  aperture, request->bytes());
    response->set_offset(offset);
    buffers_[last_id_] = {aperture.At(offset), request->bytes()};
  }
  if (behaviour_.change_buffer) behaviour_.change_buffer(response);
  return grpc::Status::OK;
}

grpc::Status FakeGpud::FreeBuffer(grpc::ServerContext* context,
                                  const v1::FreeBufferRequest*,
                                  v1::FreeBufferResponse*) {
  return Enter("FreeBuffer", context);
}

grpc::Status FakeGpud::RegisterEvent(grpc::ServerContext* context,
                                     const v1::RegisterEventRequest* request,
                                     v1::RegisterEventResponse* response) {
  if (auto status = Enter("RegisterEvent", context); !status.ok())
    return status;
  MutexLock lock(mutex_);
  seen_.registration = *request;
  uint32_t parameter_bytes = 0;
  for (const v1::ParameterBinding& binding : request->parameters()) {
    if (!binding.writable()) continue;
    v1::WritableParameter& writable = *response->add_writable();
    writable.set_name(binding.name());
    writable.set_kind(binding.buffer_id() != 0 ? v1::READ_BUFFER : v1::U64);
    writable.set_offset(parameter_bytes);
    parameter_bytes += binding.buffer_id() != 0 ? 16 : 8;
  }
  layout_ = shm::MakeRingLayout(request->max_in_flight(), parameter_bytes,
                                request->modifyable());
  layout_.doorbell = shm::DoorbellIndex(last_id_++);
  layout_.generation = kGeneration;
  layout_.esq_offset =
      Place(&submission_used_, submission_, layout_.esq_bytes());
  layout_.ecq_offset =
      Place(&completion_used_, completion_, layout_.ecq_bytes());
  layout_.life_offset =
      Place(&completion_used_, completion_, layout_.life_bytes());
  response->set_event_id(layout_.doorbell.value());
  response->set_generation(layout_.generation.value());
  response->set_entries(layout_.entries);
  response->set_entry_bytes(layout_.entry_bytes);
  response->set_parameter_offset(layout_.parameter_offset);
  response->set_parameter_bytes(layout_.parameter_bytes);
  response->set_esq_offset(layout_.esq_offset);
  response->set_ecq_offset(layout_.ecq_offset);
  response->set_life_offset(layout_.life_offset);
  if (behaviour_.change_registration) behaviour_.change_registration(response);
  return grpc::Status::OK;
}

grpc::Status FakeGpud::UnregisterEvent(
    grpc::ServerContext* context, const v1::UnregisterEventRequest* request,
    v1::UnregisterEventResponse*) {
  return Enter(fmt::format("UnregisterEvent {}", request->event_id()), context);
}

grpc::Status FakeGpud::ScheduleEvent(grpc::ServerContext* context,
                                     const v1::ScheduleEventRequest* request,
                                     v1::ScheduleEventResponse*) {
  if (auto status = Enter("ScheduleEvent", context); !status.ok())
    return status;
  MutexLock lock(mutex_);
  seen_.scheduled = request->through();
  return grpc::Status::OK;
}

grpc::Status FakeGpud::ReleaseBarrier(grpc::ServerContext* context,
                                      const v1::ReleaseBarrierRequest*,
                                      v1::ReleaseBarrierResponse*) {
  return Enter("ReleaseBarrier", context);
}

grpc::Status FakeGpud::LaunchKernel(grpc::ServerContext* context,
                                    const v1::LaunchKernelRequest* request,
                                    v1::LaunchKernelResponse* response) {
  if (auto status = Enter("LaunchKernel", context); !status.ok()) return status;
  MutexLock lock(mutex_);
  seen_.launch = *request;
  seen_.launch_deadline = context->deadline();
  response->set_dispatched_ns(100);
  response->set_finished_ns(2000);
  // So that a test can ask for a failure: a kernel named fail_with_N.
  if (request->kernel().rfind("fail_with_", 0) == 0) {
    response->set_status(std::stoul(request->kernel().substr(10)));
  }
  return grpc::Status::OK;
}

grpc::Status FakeGpud::Copy(grpc::ServerContext* context,
                            const v1::CopyRequest* request,
                            v1::CopyResponse* response) {
  if (auto status = Enter("Copy", context); !status.ok()) return status;
  MutexLock lock(mutex_);
  seen_.copy = *request;
  response->set_started_ns(5);
  response->set_finished_ns(70);
  return grpc::Status::OK;
}

}  // namespace carillon::edge
