// Sessions and their table, while calls are under way and while they end.
#include "gpu_daemon/control/sessions/session.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/temp_directory.h"
#include "gpu_daemon/backends/cpu/cpu_backend.h"
#include "gpu_daemon/backends/cpu/cpu_memory.h"
#include "gpu_daemon/backends/cpu/run_block.h"
#include "gpu_daemon/control/error_detail.h"
#include "gpu_daemon/control/sessions/session_table.h"
#include "gpu_daemon/event/refusal.h"

namespace carillon::gpud {
namespace {

using shm::RegionKind;

constexpr Nanoseconds kLeaseNs = 3'600'000'000'000;
// Says only when a test hangs.
constexpr std::chrono::seconds kHang{20};

// Where threads wait for the test.
class Gate {
 public:
  void Pass() {
    MutexLock lock(mutex_);
    if (open_) return;
    ++waiting_;
    changed_.NotifyAll();
    while (!open_) changed_.Wait(mutex_);
    --waiting_;
  }
  void Shut() {
    MutexLock lock(mutex_);
    open_ = false;
  }
  void Open() {
    MutexLock lock(mutex_);
    open_ = true;
    changed_.NotifyAll();
  }
  void AwaitThreads(int count) {
    MutexLock lock(mutex_);
    while (waiting_ < count) changed_.Wait(mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool open_ ABSL_GUARDED_BY(mutex_) = true;
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
};

class GatedMemory final : public CpuMemory {
 public:
  explicit GatedMemory(Gate* gate) : gate_(gate) {}
  absl::StatusOr<std::unique_ptr<HostMapping>> MapHost(
      std::span<std::byte> memory) override {
    gate_->Pass();
    return CpuMemory::MapHost(memory);
  }

 private:
  Gate* const gate_;
};

// What a test does with a SilentPath.
struct PathHooks {
  std::function<void()> on_removal;
  std::atomic<bool> waits{false};  // Add() does, for somebody else
  std::atomic<int> asked{0};       // Add() was, while it waited
  std::atomic<int> removed{0};     // event kernels
};

// Takes every event kernel, and launches none.
class SilentPath final : public LaunchPath {
 public:
  explicit SilentPath(PathHooks* hooks) : hooks_(hooks) {}
  absl::Status Add(std::shared_ptr<EventKernel>) override {
    if (!hooks_->waits) return absl::OkStatus();
    ++hooks_->asked;
    return NotYet();
  }
  void Remove(const std::shared_ptr<EventKernel>&) override {
    ++hooks_->removed;
  }
  std::vector<std::shared_ptr<EventKernel>> RemoveDevice(
      const DeviceMemory*) override {
    if (hooks_->on_removal) hooks_->on_removal();
    return {};
  }
  void Wake(const std::shared_ptr<EventKernel>&) override {}
  void SetTracing(bool) override {}
  std::vector<PathCounter> counters() const override { return {}; }
  void Stop() override {}

 private:
  PathHooks* const hooks_;
};

class TestBackend final : public CpuBackend {
 public:
  TestBackend(Gate* gate, PathHooks* hooks)
      : CpuBackend({.workers = 1}, *MakePolicy("first_come"),
                   std::make_unique<CpuBlockRunner>(),
                   std::make_unique<GatedMemory>(gate),
                   std::make_unique<PtxEngine>(sim::Addresses::kHost)),
        paths_({"silent", "a test's"}, std::make_unique<SilentPath>(hooks),
               false) {}
  PathSet& paths() override { return paths_; }

 private:
  PathSet paths_;
};

class SessionTest : public testing::Test {
 protected:
  struct Device {
    std::shared_ptr<Session> session;
    UniqueFd connection;  // the device's end
  };

  SessionTest() {
    loop_ = *EventLoop::Create();
    bus_ =
        *TelemetryBus::Start({.socket_path = directory_.path() + "/bus.sock"});
    context_.budget = &budget_;
    context_.ekt = &ekt_;
    context_.bus = bus_.get();
    context_.loop = loop_.get();
    context_.backend = &backend_;
    context_.kernels = &kernels_;
    const auto pid = getpid();
    caller_ = std::make_shared<Peer>(Peer{
        .pid = pid,
        .uid = getuid(),
        .pidfd = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)))});
  }

  absl::StatusOr<v1::AttachResponse> Attach(const std::string& name) {
    v1::AttachRequest request;
    request.set_name(name);
    request.set_kind("test");
    request.set_submission_bytes(4096);
    request.set_completion_bytes(4096);
    request.set_layout_version(shm::kLayoutVersion);
    return table_.Attach(request, caller_);
  }
  Device Add(const std::string& name) {
    const auto attached = Attach(name);
    EXPECT_TRUE(attached.ok()) << attached.status();
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    Device device{table_.FindDevice(attached->device_id()), UniqueFd(ends[0])};
    EXPECT_TRUE(device.session->HandOver(UniqueFd(ends[1]), [] {}).ok());
    char reply[sizeof(shm::HandoverReply)];  // the descriptors are dropped
    EXPECT_GT(recv(device.connection.get(), reply, sizeof(reply), 0), 0);
    return device;
  }

  // Calls for which an aperture of so small a device grows.
  static absl::Status Allocate(Session& session) {
    v1::AllocateBufferRequest request;
    request.set_place(v1::OUTPUT);
    request.set_bytes(1 << 20);
    return session.AllocateBuffer(request).status();
  }
  static absl::Status Register(Session& session) {
    return RegisterWith(session, 1024).status();
  }
  static absl::StatusOr<v1::RegisterEventResponse> RegisterWith(
      Session& session, uint32_t entries) {
    v1::RegisterEventRequest request;
    request.set_kernel("null_event");
    request.mutable_block()->set_x(32);
    request.mutable_block()->set_y(1);
    request.mutable_block()->set_z(1);
    request.set_max_in_flight(entries);
    v1::ParameterBinding* token = request.add_parameters();
    token->set_name("token");
    token->set_writable(true);
    return session.RegisterEvent(request);
  }
  static constexpr auto kGrowingCalls = {&Allocate, &Register};

  // Runs it in another thread, and opens the gate if it waits there for ever.
  void RunWhileGrowing(const std::function<void()>& run) {
    auto done = std::async(std::launch::async, run);
    EXPECT_EQ(done.wait_for(kHang), std::future_status::ready);
    gate_.Open();
  }

  TempDirectory directory_;
  Gate gate_;
  PathHooks path_;
  MemoryBudget budget_{256 << 20};
  EventKernelTable ekt_{64};
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<TelemetryBus> bus_;
  KernelCatalog kernels_;
  TestBackend backend_{&gate_, &path_};
  SessionContext context_;
  TicketStore tickets_;
  std::shared_ptr<const Peer> caller_;
  SessionTable table_{&context_, &tickets_, SessionTable::kMaxSessions};
};

TEST_F(SessionTest, TheMainLoopWaitsForNoGrowth) {
  for (const auto call : kGrowingCalls) {
    std::vector<Device> devices;
    for (int i = 0; i < 16; ++i) {
      devices.push_back(Add("device" + std::to_string(i)));
    }
    gate_.Shut();
    std::vector<std::future<absl::Status>> calls;
    for (const Device& device : devices) {
      calls.push_back(
          std::async(std::launch::async, call, std::ref(*device.session)));
    }
    gate_.AwaitThreads(16);
    RunWhileGrowing([&] {
      table_.Tick(NowNs(), kLeaseNs);
      for (const Device& device : devices) {
        EXPECT_EQ(device.session->ReadConnection(),
                  Session::ConnectionNews::kNone);
        EXPECT_EQ(device.session->state(), SessionState::kAttached);
        EXPECT_EQ(device.session->events().size(), 0u);
      }
    });
    for (auto& one : calls) EXPECT_TRUE(one.get().ok());
    for (const Device& device : devices) {
      table_.End(device.session, SessionEnd::kDetached);
    }
  }
}

TEST_F(SessionTest, ASessionThatEndsWhileItGrowsEndsAtOnceAndLeavesNothing) {
  for (const auto call : kGrowingCalls) {
    Device device = Add("device");
    gate_.Shut();
    auto growing =
        std::async(std::launch::async, call, std::ref(*device.session));
    gate_.AwaitThreads(1);
    RunWhileGrowing([&] { table_.End(device.session, SessionEnd::kDied); });
    const absl::Status status = growing.get();
    EXPECT_EQ(DetailOf(status).reason(), reason::kSessionEnded) << status;
    EXPECT_EQ(ekt_.used(), 0u);
    EXPECT_TRUE(device.session->events().empty());
    device.session.reset();
    EXPECT_EQ(budget_.used(), 0u);
  }
}

TEST_F(SessionTest, ARingThatComesTooLateClearsNoCompletionsOfAnEarlierOne) {
  Device device = Add("device");
  const auto earlier = RegisterWith(*device.session, 16);
  ASSERT_TRUE(earlier.ok()) << earlier.status();
  std::byte* const completions =
      device.session->memory().completion().At(earlier->ecq_offset());
  *completions = std::byte{7};
  // The next ESQ fits nowhere.
  v1::AllocateBufferRequest request;
  request.set_place(v1::INPUT);
  request.set_bytes(
      device.session->space().free_bytes(RegionKind::kSubmission));
  ASSERT_TRUE(device.session->AllocateBuffer(request).ok());
  gate_.Shut();
  auto late = std::async(std::launch::async, [&] {
    return RegisterWith(*device.session, 16).status();
  });
  gate_.AwaitThreads(1);
  RunWhileGrowing([&] { table_.End(device.session, SessionEnd::kDetached); });
  EXPECT_EQ(DetailOf(late.get()).reason(), reason::kSessionEnded);
  EXPECT_EQ(*completions, std::byte{7}) << "the device has yet to read it";
}

TEST_F(SessionTest, CallsOfOneDeviceThatGrowItComeOneAfterTheOther) {
  constexpr uint32_t kCalls = 8;
  Device device = Add("device");
  gate_.Shut();
  std::latch started(2 * kCalls);
  std::vector<std::future<absl::Status>> calls;
  for (uint32_t i = 0; i < kCalls; ++i) {
    for (const auto call : kGrowingCalls) {
      calls.push_back(std::async(std::launch::async, [&, call] {
        started.count_down();
        return call(*device.session);
      }));
    }
  }
  gate_.AwaitThreads(1);
  started.wait();
  gate_.Open();
  for (auto& call : calls) EXPECT_TRUE(call.get().ok());
  EXPECT_EQ(device.session->events().size(), kCalls);
  EXPECT_EQ(ekt_.used(), kCalls);
  for (uint32_t id = 1; id <= kCalls; ++id) {
    EXPECT_TRUE(device.session->FreeBuffer(id).ok()) << id;
  }
}

TEST_F(SessionTest, ANameIsTakenAsLongAsItsDoorbells) {
  Device device = Add("device");
  ASSERT_TRUE(Register(*device.session).ok());
  bool looked = false;
  path_.on_removal = [&] {
    looked = true;
    EXPECT_EQ(DetailOf(Attach("device").status()).reason(),
              reason::kDeviceNameTaken);
    // Nobody has heard of the end.
    EXPECT_NE(table_.FindDevice(device.session->identity().device_id), nullptr);
    EXPECT_EQ(device.session->memory().completion().completion_control().closed,
              0u);
    char byte;
    EXPECT_EQ(recv(device.connection.get(), &byte, 1, MSG_DONTWAIT), -1);
  };
  table_.End(device.session, SessionEnd::kEvicted, "a test");
  path_.on_removal = nullptr;
  EXPECT_TRUE(looked);
  EXPECT_EQ(table_.FindDevice(device.session->identity().device_id), nullptr);
  char byte;
  EXPECT_EQ(recv(device.connection.get(), &byte, 1, MSG_DONTWAIT), 0);
  EXPECT_TRUE(Attach("device").ok());
}

TEST_F(SessionTest, WhoHasHeardOfTheEndFindsTheNameAndTheTableFree) {
  for (int round = 0; round < 100; ++round) {
    Device device = Add("device");
    ASSERT_TRUE(Register(*device.session).ok());
    // As a device that looks there without a pause.
    auto told = std::async(std::launch::async, [&] {
      const std::atomic_ref<uint32_t> closed(
          device.session->memory().completion().completion_control().closed);
      while (closed.load(std::memory_order_acquire) == 0) {
      }
      EXPECT_EQ(ekt_.used(), 0u);
      return Attach("device");
    });
    table_.End(device.session, SessionEnd::kEvicted, "a test");
    const auto attached = told.get();
    ASSERT_TRUE(attached.ok()) << round << ": " << attached.status();
    table_.EndDevice(attached->device_id(), SessionEnd::kDetached);
  }
}

TEST_F(SessionTest, ARegistrationThatWaitsForAnotherHostHoldsNobodyUp) {
  const Device device = Add("device");
  path_.waits = true;
  auto registration =
      std::async(std::launch::async, [&] { return Register(*device.session); });
  while (path_.asked < 2) std::this_thread::yield();
  auto look = std::async(std::launch::async,
                         [&] { device.session->Tick(NowNs(), false); });
  EXPECT_EQ(look.wait_for(kHang), std::future_status::ready)
      << "the main loop waits for a registration";
  path_.waits = false;
  EXPECT_EQ(registration.get(), absl::OkStatus());
  EXPECT_EQ(path_.removed, 0);
}

TEST_F(SessionTest, ASessionThatEndsWhileARegistrationWaitsLeavesNothing) {
  const Device device = Add("device");
  path_.waits = true;
  auto registration =
      std::async(std::launch::async, [&] { return Register(*device.session); });
  while (path_.asked < 2) std::this_thread::yield();
  device.session->End(shm::CloseReason::kEvicted,
                      shm::EventStatus::kDeviceGone);
  path_.waits = false;
  EXPECT_TRUE(absl::IsFailedPrecondition(registration.get()));
  EXPECT_EQ(path_.removed, 1);
  EXPECT_TRUE(device.session->events().empty());
}

}  // namespace
}  // namespace carillon::gpud
