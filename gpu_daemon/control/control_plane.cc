#include "gpu_daemon/control/control_plane.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_posix.h>
#include <malloc.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/incarnation/incarnation.h"
#include "base/module_folder.h"
#include "base/status.h"
#include "base/testbed_paths.h"
#include "fmt/format.h"
#include "gpu_daemon/backends/registry.h"
#include "gpu_daemon/control/net/user_access.h"
#include "gpu_daemon/control/run_gpud.h"
#include "gpu_daemon/control/sessions/module_request.h"
#include "gpu_daemon/control/sessions/names.h"
#include "gpu_daemon/control/sessions/registration_table.h"
#include "shm/waiting.h"

namespace carillon::gpud {

static_assert(kHighestPriority == kPriorities - 1);
static_assert(kMostWeight == DeviceShare::kMostWeight);

namespace {

constexpr std::chrono::milliseconds kTick{200};
// A flood over TCP brings some 300 KB a millisecond.
constexpr std::chrono::milliseconds kHoardsTick{20};
// Calls that are still running when gpud goes down get this long.
constexpr std::chrono::milliseconds kLastCalls{500};
// 128 launches, 32 watchers and 16 drains, and some to spare, beside the
// UnregisterEvents of a process with as many devices as it may have: no process
// can keep all of them waiting.
constexpr size_t kThreadsBesideUnregisters = 256;
// What messages that are not whole yet may take at each server; then it ends
// calls. Room for one image.
constexpr size_t kMaxGrpcBytes = 48 << 20;
// Calls at a time over one connection; a device waits for 32 launches at most.
constexpr int kMaxCallsOfAConnection = 64;
// What gRPC reads of a connection at once, 4 MB at most if nobody says less: it
// begins all calls in it before it looks whether there are too many.
constexpr int kReadBytes = 4 << 10;
// A connection over TCP that has not agreed on TLS by then is closed.
constexpr int kHandshakeMs = 5000;
// How often gpud looks for memory to give back, and how much is worth it.
constexpr Nanoseconds kTrimEveryNs = 500'000'000;
constexpr size_t kKeptFreeBytes = 32 << 20;

// Memory that a flood left in one of the allocator's arenas is of no use to the
// others. gpud allocates little beside gRPC.
constexpr int kMaxArenas = 1;

// Otherwise the allocator keeps what was freed after large messages.
void GiveMemoryBack() {
  if (mallinfo2().fordblks > kKeptFreeBytes) malloc_trim(kKeptFreeBytes);
}

void SetLimits(grpc::ServerBuilder& builder, size_t devices_per_process) {
  // Images, and somewhat larger ones, so that their refusal can say more than
  // gRPC's.
  builder.SetMaxReceiveMessageSize(
      static_cast<int>(kMaxImageBytes + kMaxImageBytes / 4));
  builder.SetResourceQuota(
      grpc::ResourceQuota("gpud")
          .Resize(kMaxGrpcBytes)
          .SetMaxThreads(static_cast<int>(kThreadsBesideUnregisters +
                                          devices_per_process *
                                              RegistrationTable::kMaxClosing)));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             kMaxCallsOfAConnection);
  builder.AddChannelArgument(GRPC_ARG_TCP_READ_CHUNK_SIZE, kReadBytes);
  builder.AddChannelArgument(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, kReadBytes);
}

// Reflection is a plugin that gRPC adds to every server of the process.
class WithoutPlugins final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>*
                         plugins) override {
    plugins->clear();
  }
};

absl::Status CheckOptions(const ControlPlane::Options& options) {
  if (options.ekt_entries < 1 || options.ekt_entries > shm::kMaxDoorbells) {
    return absl::InvalidArgumentError(
        fmt::format("{} EKT entries: must be from 1 to {}", options.ekt_entries,
                    shm::kMaxDoorbells));
  }
  const uint64_t machine = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                           static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  if (options.memory_bytes > machine) {
    return absl::InvalidArgumentError(
        fmt::format("{} bytes of memory for devices: this machine has {}",
                    options.memory_bytes, machine));
  }
  RETURN_IF_ERROR(CheckText("testbed name", options.testbed, kMaxLabelLength));
  RETURN_IF_ERROR(ReadUids(options.device_users).status());
  RETURN_IF_ERROR(ReadDeviceShares(options.device_shares).status());
  if (options.listen.empty() && options.tls.any()) {
    return absl::InvalidArgumentError(
        "--tls-cert, --tls-key and --tls-client-ca go with --listen: on the "
        "control socket there is no TLS");
  }
  if (!shm::FutexWaitvSupported()) {
    return absl::FailedPreconditionError(
        "this kernel has no futex_waitv: gpud needs Linux 5.16 or newer");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ControlPlane>> ControlPlane::Start(
    Options options) {
  RETURN_IF_ERROR(CheckOptions(options));
  mallopt(M_ARENA_MAX, kMaxArenas);
  std::unique_ptr<ControlPlane> plane(new ControlPlane(std::move(options)));
  RETURN_IF_ERROR(plane->Open());
  return plane;
}

ControlPlane::ControlPlane(Options options)
    : options_(std::move(options)),
      budget_(options_.memory_bytes != 0 ? options_.memory_bytes
                                         : DefaultMemoryBudget()),
      ekt_(options_.ekt_entries),
      peers_(options_.devices_per_process),
      tickets_(options_.ticket_valid_ns.value_or(TicketStore::kValidNs)),
      modules_(fmt::format("{}/{}", options_.directory, kModuleFolder)),
      sessions_(&context_, &tickets_, options_.devices_per_process),
      callers_(&peers_, &sessions_),
      devices_(&callers_, &sessions_),
      events_(&callers_, &kernels_),
      device_gate_(TestbedPaths(options_.directory).operator_socket(),
                   &peers_) {}

ControlPlane::~ControlPlane() {
  ShutDown();
  if (backend_ != nullptr) backend_->Join();
}

absl::Status ControlPlane::Open() {
  const TestbedPaths paths(options_.directory);
  for (const std::string& path :
       {paths.control_socket(), paths.operator_socket(),
        paths.handover_socket(), paths.bus_socket()}) {
    RETURN_IF_ERROR(CheckSocketPath(path));
  }
  RETURN_IF_ERROR(PrepareDirectory(options_.directory));
  ASSIGN_OR_RETURN(const auto users, ReadUids(options_.device_users));
  if (!users.empty()) {
    RETURN_IF_ERROR(
        LetUsers(options_.directory, users, UserAccess::kPassThrough));
  }
  ASSIGN_OR_RETURN(lock_,
                   DaemonLock::Take(options_.directory, options_.testbed));
  context_.BeginAfterDeaths(lock_->deaths());
  // What it says is of devices that an earlier gpud had, which ended in order.
  if (lock_->deaths() == 0) unlink(paths.restart_mark().c_str());

  RETURN_IF_ERROR(OpenBoard());
  if (options_.record != 0) {
    auto recorder = shm::FlightRecorder::Create(paths.recorder_directory(),
                                                "gpud", options_.record);
    if (recorder.ok()) {
      recorder_ = *std::move(recorder);
      context_.recorder = recorder_.get();
    } else if (absl::IsInvalidArgument(recorder.status())) {
      return recorder.status();
    } else {
      // A full disk must not keep devices from their next gpud.
      spdlog::warn("{}: gpud starts without its flight recorder",
                   recorder.status().message());
    }
  }
  ASSIGN_OR_RETURN(loop_, EventLoop::Create());
  ASSIGN_OR_RETURN(bus_, TelemetryBus::Start(
                             {.socket_path = paths.bus_socket(),
                              .watcher_capacity = options_.watcher_capacity}));

  BackendOptions backend_options = options_.backend_options;
  backend_options.remote.testbed = options_.testbed;
  backend_options.remote.incarnation_file =
      fmt::format("{}/{}", paths.directory(), kIncarnationFile);
  backend_options.restart_mark = paths.restart_mark();
  if (options_.record != 0) {
    backend_options.remote.recorder_directory = paths.recorder_directory();
  }
  const auto end_as = [this](SessionEnd ending) {
    return [this, ending](const std::shared_ptr<DeviceMemory>& memory,
                          std::string reason) {
      loop_->Post([this, ending, memory, reason = std::move(reason)] {
        sessions_.EndDevice(memory.get(), ending, reason);
      });
    };
  };
  backend_options.on_violation = end_as(SessionEnd::kEvicted);
  backend_options.on_link_lost = end_as(SessionEnd::kLinkLost);
  backend_options.on_overrun = [this](const EventKernel& event,
                                      Nanoseconds cpu_ns) {
    loop_->Post([this, line = fmt::format(
                           "device '{}': event {} ('{}') took {} us of the "
                           "front-end's thread, which all devices share, and "
                           "may take {}: workers run it from now on",
                           event.memory().name(), event.event_id(),
                           event.kmd().kernel->name, cpu_ns / 1000,
                           ShortPathEstimate::kMaxDuration / 1000)] {
      overruns_.Warn(line, NowNs());
    });
  };
  ASSIGN_OR_RETURN(backend_, MakeBackend(options_.backend, backend_options));
  context_.budget = &budget_;
  context_.ekt = &ekt_;
  context_.bus = bus_.get();
  context_.loop = loop_.get();
  context_.backend = backend_.get();
  context_.kernels = &kernels_;
  context_.max_priority = options_.max_priority;
  ASSIGN_OR_RETURN(const auto shares, ReadDeviceShares(options_.device_shares));
  for (const NamedShare& share : shares) {
    context_.shares.Set(share.device, share.weight, share.max_priority);
  }
  context_.modules = &modules_;
  LoadKeptModules();
  admin_.emplace(
      AdminService::ServerInfo{.testbed = options_.testbed,
                               .started_ns = NowNs()},
      &context_, &sessions_, &changes_, [this] { RequestShutdown(); },
      [this](const std::string& peer) {
        peers_.Cut(peer);
        if (tcp_listener_ != nullptr) tcp_listener_->Cut(peer);
      },
      [this](v1::GetStatusResponse* response) { DescribeTcp(response); });
  RETURN_IF_ERROR(StartServers());
  RETURN_IF_ERROR(OpenSockets());
  RETURN_IF_ERROR(StartClock());
  faults::Reached(faults::State::kReady);
  return absl::OkStatus();
}

// Faults count on when another gpud goes on after one's death; otherwise there
// are none at first.
absl::Status ControlPlane::OpenBoard() {
  const std::string path = TestbedPaths(options_.directory).fault_board();
  if (lock_->deaths() == 0) unlink(path.c_str());
  if (!options_.faults) return absl::OkStatus();
  ASSIGN_OR_RETURN(board_, faults::Board::Create(path));
  ASSIGN_OR_RETURN(member_, faults::Member::Join(path, "gpud"));
  faults_.UseBoard(board_.get());
  return absl::OkStatus();
}

// A gpud that goes on after another has the kernels that the other had, before
// the first device comes back.
void ControlPlane::LoadKeptModules() {
  if (lock_->deaths() == 0) return modules_.Clear();
  modules_.ForEach([&](const std::string& file,
                       const absl::StatusOr<v1::RegisterModuleRequest>& kept) {
    absl::Status status = kept.status();
    if (kept.ok()) {
      const auto source = ReadModuleRequest(*kept);
      status = source.ok() ? kernels_.Load(*source, *backend_).status()
                           : source.status();
      if (!status.ok()) NoteLost(*kept, status);
    }
    if (status.ok()) {
      spdlog::info("the kernels of {} are loaded again", kept->file());
    } else {
      spdlog::error("the kernels in {} are lost: {}", file,
                    std::string(status.message()));
    }
  });
}

void ControlPlane::NoteLost(const v1::RegisterModuleRequest& kept,
                            const absl::Status& why) {
  ModuleSource source{.image = {}, .file = kept.file(), .kernels = {}};
  for (const v1::KernelDeclaration& kernel : kept.kernels()) {
    source.kernels.push_back(
        {.symbol = kernel.symbol(),
         .name = kernel.name().empty() ? kernel.symbol() : kernel.name(),
         .summary = {},
         .parameters = {}});
  }
  kernels_.NoteLost(source, kept.image().empty()
                                ? "there was no room to keep its file"
                                : std::string(why.message()));
}

absl::Status ControlPlane::StartServers() {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  bounded_admin_.emplace(&*admin_);

  grpc::ServerBuilder for_devices;
  SetLimits(for_devices, options_.devices_per_process);
  for_devices.SetOption(std::make_unique<WithoutPlugins>());
  for_devices.RegisterService(&bounded_devices_);
  for_devices.RegisterService(&bounded_events_);
  for_devices.RegisterCallbackGenericService(&device_gate_);
  device_server_ = for_devices.BuildAndStart();

  grpc::ServerBuilder for_operators;
  SetLimits(for_operators, options_.devices_per_process);
  for_operators.RegisterService(&bounded_devices_);
  for_operators.RegisterService(&bounded_events_);
  for_operators.RegisterService(&*bounded_admin_);
  for_operators.RegisterService(&bounded_faults_);
  if (!options_.listen.empty()) {
    RETURN_IF_ERROR(AddTcp(for_operators));
  }
  operator_server_ = for_operators.BuildAndStart();
  if (device_server_ == nullptr || operator_server_ == nullptr) {
    return absl::UnavailableError("cannot start the gRPC servers");
  }
  return absl::OkStatus();
}

// gRPC gets no port of its own: without TcpListener's connections, none is
// served.
absl::Status ControlPlane::AddTcp(grpc::ServerBuilder& builder) {
  auto pems = ReadTlsFiles(options_.tls, "--tls-client-ca");
  if (!pems.ok()) {
    return absl::Status(pems.status().code(),
                        fmt::format("--listen: {}", pems.status().message()));
  }
  // TLS 1.2 at least: gRPC offers nothing older.
  grpc::SslServerCredentialsOptions tls(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  tls.pem_root_certs = std::move(pems->ca);
  tls.pem_key_cert_pairs.push_back(
      {std::move(pems->key), std::move(pems->certificate)});
  const auto credentials = grpc::SslServerCredentials(tls);
  // Called while calls are served, when there is a listener.
  const auto unread = std::make_shared<UnreadCalls>(UnreadCalls::Callbacks{
      .served = [this](
                    const std::string& peer,
                    uint64_t bytes) { tcp_listener_->MarkServed(peer, bytes); },
      .cut =
          [this](const std::string& peer) { tcp_listener_->CutFlood(peer); }});
  gate_ = std::make_shared<RoleGate>(unread);
  credentials->SetAuthMetadataProcessor(gate_);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             kHandshakeMs);
  std::vector<
      std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
      watches;
  watches.push_back(std::make_unique<ArrivalWatch>(unread));
  builder.experimental().SetInterceptorCreators(std::move(watches));
  using Builder = grpc::ServerBuilder::experimental_type;
  tcp_acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      Builder::ExternalConnectionType::FROM_FD, credentials);
  return absl::OkStatus();
}

void ControlPlane::DescribeTcp(v1::GetStatusResponse* response) const {
  if (tcp_listener_ == nullptr) return;
  response->set_listen(tcp_listener_->address());
  response->set_connections(
      static_cast<uint32_t>(tcp_listener_->connections()));
  response->set_refused_connections(tcp_listener_->refused());
  response->set_refused_calls(gate_->refused().count());
}

uint64_t ControlPlane::unread_bytes() const {
  return tcp_listener_ == nullptr ? 0 : tcp_listener_->unread_bytes();
}

std::string ControlPlane::listen_address() const {
  return tcp_listener_ == nullptr ? "" : tcp_listener_->address();
}

absl::Status ControlPlane::OpenSockets() {
  if (tcp_acceptor_ != nullptr) {
    ASSIGN_OR_RETURN(
        tcp_listener_,
        TcpListener::Open(options_.listen, loop_.get(),
                          [this](int listener, int connection) {
                            grpc::experimental::ExternalConnectionAcceptor::
                                NewConnectionParameters accepted;
                            accepted.listener_fd = listener;
                            accepted.fd = connection;
                            tcp_acceptor_->HandleNewConnection(&accepted);
                          }));
  }
  const TestbedPaths paths(options_.directory);
  ASSIGN_OR_RETURN(const auto users, ReadUids(options_.device_users));
  ASSIGN_OR_RETURN(handover_server_,
                   HandoverServer::Open(paths.handover_socket(), users,
                                        loop_.get(), &tickets_, &sessions_));
  // A device that finds its socket finds the others that it needs, and an
  // operator's comes last of all: who finds it may start devices.
  ASSIGN_OR_RETURN(control_listener_,
                   Listen(paths.control_socket(), users, device_server_.get()));
  ASSIGN_OR_RETURN(operator_listener_,
                   Listen(paths.operator_socket(), {}, operator_server_.get()));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ControlListener>> ControlPlane::Listen(
    const std::string& path, std::vector<uid_t> users, grpc::Server* server) {
  return ControlListener::Open(
      path, std::move(users), loop_.get(), &peers_,
      {.on_connection =
           [server](int connection) {
             grpc::AddInsecureChannelFromFd(server, connection);
           },
       .on_death = [this](const Peer& peer) { sessions_.PeerDied(peer); }});
}

absl::Status ControlPlane::StartClock() {
  if (options_.stop_fd >= 0) {
    auto watch = loop_->Watch(options_.stop_fd, [this] { RequestShutdown(); });
    if (!watch.ok()) return watch.status();
  }
  if (tcp_listener_ != nullptr) {
    RETURN_IF_ERROR(
        loop_->Every(kHoardsTick, [this] { tcp_listener_->CutHoards(); }));
  }
  if (options_.restart_fd >= 0) {
    auto watch = loop_->Watch(options_.restart_fd, [this] {
      restarts_ = true;
      RequestShutdown();
    });
    if (!watch.ok()) return watch.status();
  }
  return loop_->Every(kTick, [this] { Tick(); });
}

void ControlPlane::Tick() {
  const Nanoseconds now = NowNs();
  handover_server_->Expire(now);
  control_listener_->Tick(now);
  operator_listener_->Tick(now);
  device_gate_.refused().Tick(now);
  overruns_.Tick(now);
  changes_.Tick(now);
  if (tcp_listener_ != nullptr) {
    tcp_listener_->Tick(now);
    gate_->refused().Tick(now);
  }
  sessions_.Tick(now, options_.lease_ns);
  admin_->CancelStuckStreams(now);
  if (now >= trimmed_ns_ + kTrimEveryNs) {
    trimmed_ns_ = now;
    GiveMemoryBack();
  }
}

void ControlPlane::RequestShutdown() { loop_->Stop(); }

void ControlPlane::Run() {
  spdlog::info(
      "testbed {} is up in {}: {} back-end, {}, {} EKT entries, {} bytes",
      options_.testbed, options_.directory, backend_->name(),
      backend_->description(), ekt_.capacity(), budget_.total());
  if (tcp_listener_ != nullptr) {
    spdlog::info("listens on {}, with TLS", tcp_listener_->address());
  }
  loop_->Run();
}

void ControlPlane::ShutDown() {
  if (std::exchange(down_, true)) return;
  if (operator_listener_ != nullptr) {
    spdlog::info("testbed {} {}", options_.testbed,
                 restarts_ ? "gets another gpud" : "goes down");
  }
  for (const auto* server : {&device_server_, &operator_server_}) {
    if (*server == nullptr) continue;
    (*server)->GetHealthCheckService()->SetServingStatus(false);
  }
  if (tcp_listener_ != nullptr) tcp_listener_->Close();
  for (const auto* listener : {&control_listener_, &operator_listener_}) {
    if (*listener != nullptr) (*listener)->Close();
  }
  handover_server_.reset();
  if (bus_ != nullptr) {
    v1::TelemetryEvent message;
    message.mutable_shutting_down();
    bus_->Publish(std::move(message));
  }
  // Simulated time ends with its gpud.
  const bool restarts =
      restarts_ && backend_ != nullptr && !backend_->simulates_time();
  if (restarts) lock_->KeepFile();
  sessions_.Shutdown(restarts ? SessionEnd::kRestart : SessionEnd::kShutdown);
  // Ends the Watch streams, once they have sent what they have.
  if (bus_ != nullptr) bus_->Close();
  if (admin_) admin_->EndSnapshots();
  if (device_server_ != nullptr && operator_server_ != nullptr) {
    // gRPC waits for the writes to peers that are stopped: these end here.
    std::mutex mutex;
    std::condition_variable changed;
    bool ended = false;
    std::thread cutter([&] {
      std::unique_lock lock(mutex);
      if (!changed.wait_for(lock, 2 * kLastCalls, [&] { return ended; })) {
        peers_.CutAll();
        if (tcp_listener_ != nullptr) tcp_listener_->CutAll();
      }
    });
    const auto end = [](grpc::Server& server) {
      server.Shutdown(std::chrono::system_clock::now() + kLastCalls);
      server.Wait();
    };
    std::thread devices_ended([&] { end(*device_server_); });
    end(*operator_server_);
    devices_ended.join();
    {
      std::lock_guard lock(mutex);
      ended = true;
    }
    changed.notify_one();
    cutter.join();
  }
  if (backend_ != nullptr) backend_->Stop();
  // They carry the last words of all calls.
  control_listener_.reset();
  operator_listener_.reset();
}

absl::Status RunGpud(const GpudOptions& options,
                     const std::function<void()>& ending,
                     const std::function<void()>& closed) {
  ASSIGN_OR_RETURN(const auto plane, ControlPlane::Start(options));
  plane->Run();
  ending();
  plane->ShutDown();
  closed();
  return absl::OkStatus();
}

}  // namespace carillon::gpud
