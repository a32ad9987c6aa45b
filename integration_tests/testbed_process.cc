#include "integration_tests/testbed_process.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"

namespace carillon::testing {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLastOutput{5000};

std::chrono::system_clock::time_point In(milliseconds time) {
  return std::chrono::system_clock::now() + time;
}

std::shared_ptr<grpc::Channel> Connect(const std::string& socket) {
  grpc::ChannelArguments arguments;
  // A test that restarts gpud calls the new one at once.
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 20);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 20);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 20);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(
      "unix:" + socket, grpc::InsecureChannelCredentials(), arguments);
}

// Calls grpc.health.v1.Health/Check for the whole server, with raw bytes,
// because Debian has no C++ library for it.
bool Serves(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  context.set_deadline(In(milliseconds(1000)));
  // A call that fails at once would leave nobody to look after the connection.
  context.set_wait_for_ready(true);
  const grpc::Slice nothing;
  auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check",
                                    grpc::ByteBuffer(&nothing, 1), &queue);
  call->StartCall();
  grpc::ByteBuffer answer;
  grpc::Status status;
  call->Finish(&answer, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  grpc::Slice bytes;
  // The bytes of HealthCheckResponse{status = SERVING}.
  return status.ok() && answer.DumpToSingleSlice(&bytes).ok() &&
         bytes.size() == 2 && bytes.begin()[0] == 0x08 &&
         bytes.begin()[1] == 0x01;
}

template <class Request, class Response>
Response Ask(v1::Admin::Stub& admin,
             grpc::Status (v1::Admin::Stub::*method)(grpc::ClientContext*,
                                                     const Request&,
                                                     Response*)) {
  grpc::ClientContext context;
  context.set_deadline(In(milliseconds(5000)));
  Response response;
  const grpc::Status status = (admin.*method)(&context, Request(), &response);
  EXPECT_TRUE(status.ok()) << "gpud does not answer: "
                           << status.error_message();
  return response;
}

}  // namespace

std::string Program(const std::string& path) {
  if (const char* programs = getenv(kProgramsVariable)) {
    return fmt::format("{}/{}", programs, path.substr(path.rfind('/') + 1));
  }
  return std::filesystem::absolute(path).string();
}

absl::StatusOr<std::unique_ptr<Process>> Process::Start(
    const std::string& name, const std::vector<std::string>& argv,
    const std::vector<std::string>& environment) {
  ASSIGN_OR_RETURN(auto pipe, MakePipe());
  auto process = Subprocess::Start({.argv = argv,
                                    .environment = environment,
                                    .out = pipe.writer.get(),
                                    .err = pipe.writer.get()});
  if (!process.ok()) {
    return absl::InternalError(
        fmt::format("{}: {}", name, process.status().message()));
  }
  return std::unique_ptr<Process>(
      new Process(name, *std::move(process), std::move(pipe.reader)));
}

Process::Process(std::string name, Subprocess process, UniqueFd output)
    : name_(std::move(name)),
      process_(std::move(process)),
      pipe_(std::move(output)),
      reader_([this] { ReadOutput(); }) {}

Process::~Process() {
  Kill();
  reader_.join();
  if (::testing::Test::HasFailure()) {
    fmt::print(stderr, "--- output of {} (pid {})\n{}--- end of {}\n", name_,
               pid(), output_, name_);
  }
}

void Process::ReadOutput() {
  std::array<char, 4096> bytes;
  while (true) {
    const ssize_t got = read(pipe_.get(), bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    std::lock_guard lock(mutex_);
    if (got <= 0) {
      output_ended_ = true;
      more_.notify_all();
      return;
    }
    output_.append(bytes.data(), got);
    more_.notify_all();
  }
}

void Process::Stop() const {
  Signal(SIGSTOP);
  siginfo_t stopped;
  while (waitid(P_PID, static_cast<id_t>(pid()), &stopped, WSTOPPED) != 0 &&
         errno == EINTR) {
  }
}

std::chrono::nanoseconds Process::CpuTime() const {
  std::lock_guard lock(mutex_);
  return std::chrono::nanoseconds(process_.CpuNs());
}

std::optional<Process::Exit> Process::Wait(milliseconds bound) {
  if (!process_.AwaitEnd(bound)) return std::nullopt;
  std::unique_lock lock(mutex_);
  const ExitReport report = process_.Reap();
  // The last output is still in the pipe; a child that was left behind may hold
  // the pipe open.
  more_.wait_for(lock, kLastOutput, [this] { return output_ended_; });
  return report.signal != 0 ? -report.signal : report.code;
}

void Process::Kill() {
  Signal(SIGKILL);
  Wait();
}

std::string Process::output() const {
  std::lock_guard lock(mutex_);
  return output_;
}

bool Process::WaitForOutput(const std::string& text, milliseconds bound) {
  std::unique_lock lock(mutex_);
  const auto found = [&] { return output_.find(text) != std::string::npos; };
  more_.wait_for(lock, bound, [&] { return found() || output_ended_; });
  return found();
}

TestbedClient::TestbedClient(std::string directory,
                             std::vector<std::string> environment)
    : paths_(std::move(directory)),
      environment_(std::move(environment)),
      channel_(Connect(paths_.operator_socket())),
      admin_(v1::Admin::NewStub(channel_)) {}

absl::StatusOr<std::unique_ptr<Testbed>> Testbed::Start(
    const std::vector<std::string>& flags) {
  ASSIGN_OR_RETURN(auto directory, TempDirectory::Make());
  std::unique_ptr<Testbed> testbed(new Testbed(std::move(directory)));
  RETURN_IF_ERROR(testbed->RestartGpud(flags));
  return testbed;
}

absl::Status Testbed::RestartGpud(const std::vector<std::string>& flags) {
  gpud_.reset();
  std::vector<std::string> argv = {Program("gpu_daemon/gpud"), "--dir",
                                   directory()};
  if (const char* backend = getenv(kBackendVariable)) {
    argv.insert(argv.end(), {"--backend", backend});
  }
  argv.insert(argv.end(), flags.begin(), flags.end());
  ASSIGN_OR_RETURN(gpud_, Process::Start("gpud", argv));
  const bool up =
      Eventually([&] { return gpud_->ended() || Serves(channel()); });
  if (up && !gpud_->ended()) return absl::OkStatus();
  return absl::InternalError(
      fmt::format("gpud {}:\n{}", up ? "ended at once" : "does not serve",
                  gpud_->output()));
}

absl::StatusOr<std::unique_ptr<Process>> TestbedClient::StartDevice(
    const std::string& name, const std::string& program,
    const std::vector<std::string>& flags) {
  std::vector<std::string> argv = {Program(program), "--name", name};
  argv.insert(argv.end(), flags.begin(), flags.end());
  std::vector<std::string> environment = environment_;
  environment.push_back(
      fmt::format("{}={}", kTestbedDirectoryVariable, directory()));
  environment.push_back(fmt::format("{}={}", kDeviceNameVariable, name));
  ASSIGN_OR_RETURN(auto process, Process::Start(name, argv, environment));
  started_[name] = process->pid();
  return process;
}

pid_t TestbedClient::StartedAs(const std::string& name) const {
  const auto started = started_.find(name);
  return started == started_.end() ? 0 : started->second;
}

v1::GetStatusResponse TestbedClient::Status() {
  return Ask(*admin_, &v1::Admin::Stub::GetStatus);
}
v1::ListDevicesResponse TestbedClient::Devices() {
  return Ask(*admin_, &v1::Admin::Stub::ListDevices);
}
v1::ListEktResponse TestbedClient::Ekt() {
  return Ask(*admin_, &v1::Admin::Stub::ListEkt);
}
v1::ListRingsResponse TestbedClient::Rings() {
  return Ask(*admin_, &v1::Admin::Stub::ListRings);
}

v1::Device TestbedClient::DeviceOf(const std::string& name) {
  const v1::ListDevicesResponse devices = Devices();
  for (const v1::Device& device : devices.devices()) {
    if (device.name() == name) return device;
  }
  return {};
}

uint64_t TestbedClient::Counter(const std::string& device,
                                const std::string& counter) {
  const v1::Device found = DeviceOf(device);
  for (const v1::Counter& known : found.counters()) {
    if (known.name() == counter) return known.value();
  }
  return 0;
}

uint64_t TestbedClient::Samples(const std::string& device,
                                const std::string& histogram) {
  const v1::Device found = DeviceOf(device);
  for (const v1::Histogram& known : found.histograms()) {
    if (known.name() != histogram) continue;
    return std::accumulate(known.count().begin(), known.count().end(),
                           uint64_t{0});
  }
  return 0;
}

}  // namespace carillon::testing
