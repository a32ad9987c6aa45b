// Two hosts, each in a network namespace of its own with Linux's TCP in it, and a
// cable between them on which netfilter drops packets.
//
//   host a (10.0.0.1) wire ----- wire host b (10.0.0.2)
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/testing/eventually.h"
#include "base/testing/network_namespace.h"
#include "base/unique_fd.h"
#include "devices/sdk/edge.h"
#include "integration_tests/linked_hosts.h"
#include "integration_tests/testbed_process.h"

namespace carillon {
namespace {

using testing::Message;
using testing::Process;

constexpr const char* kAddressOfA = "10.0.0.1";
constexpr const char* kAddressOfB = "10.0.0.2";

// While it lives, this thread and the processes that it starts are in another
// network namespace.
class InNamespace {
 public:
  explicit InNamespace(pid_t of)
      : home_(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)) {
    const UniqueFd there(
        open(fmt::format("/proc/{}/ns/net", of).c_str(), O_RDONLY | O_CLOEXEC));
    EXPECT_EQ(setns(there.get(), CLONE_NEWNET), 0);
  }
  ~InNamespace() { EXPECT_EQ(setns(home_.get(), CLONE_NEWNET), 0); }
  InNamespace(const InNamespace&) = delete;
  InNamespace& operator=(const InNamespace&) = delete;

 private:
  const UniqueFd home_;
};

// What the program said, if it ended with 0.
std::optional<std::string> Run(const std::vector<std::string>& argv) {
  const auto process = Process::Start(argv[0], argv);
  EXPECT_TRUE(process.ok()) << Message(process.status());
  if (!process.ok() || (*process)->Wait() != 0) return std::nullopt;
  return (*process)->output();
}

// Netfilter of this namespace drops so many per cent of what comes by the wire.
bool DropArriving(int percent) {
  const std::string which =
      percent == 100 ? "" : fmt::format("numgen random mod 100 < {} ", percent);
  return Run({"/usr/sbin/nft",
              "add table ip loss; add counter ip loss dropped; add chain ip "
              "loss arriving { type filter hook input priority 0; }; flush "
              "chain ip loss arriving; add rule ip loss arriving iifname "
              "\"wire\" " +
                  which + "counter name dropped drop"})
      .has_value();
}

// How many it has dropped.
uint64_t Dropped() {
  const auto said =
      Run({"/usr/sbin/nft", "list", "counter", "ip", "loss", "dropped"});
  EXPECT_TRUE(said.has_value());
  unsigned long packets = 0;
  const size_t at = said.value_or("").find("packets ");
  EXPECT_NE(at, std::string::npos);
  if (at != std::string::npos) {
    std::sscanf(said->c_str() + at, "packets %lu", &packets);
  }
  return packets;
}

// A device whose every event adds its number to a word of its slot, in the memory
// of host b, and gets that word back: it shows for ever if an event was lost, or
// ran twice. Rings for a ring full of events at a time.
class Adder {
 public:
  static absl::StatusOr<std::unique_ptr<Adder>> Start(
      const std::string& directory) {
    ASSIGN_OR_RETURN(auto device,
                     edge::Device::Attach({.testbed_directory = directory,
                                           .name = "adder0",
                                           .kind = "test"}));
    std::unique_ptr<Adder> adder(new Adder(std::move(device)));
    RETURN_IF_ERROR(adder->Register());
    adder->thread_ = std::thread([self = adder.get()] { self->Serve(); });
    return adder;
  }
  ~Adder() { Stop(); }

  uint64_t rung() const { return rung_; }
  uint64_t ended() const { return ended_; }
  // When event `number`, which has ended, was taken.
  Nanoseconds WhenTaken(uint64_t number) const {
    MutexLock lock(mutex_);
    return taken_.at(number - 1);
  }
  // Rings no more, and takes the ends of what it has rung. What was wrong first;
  // empty: nothing.
  std::string Stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    return wrong_;
  }

 private:
  static constexpr uint32_t kSlots = 32;

  explicit Adder(std::unique_ptr<edge::Device> device)
      : device_(std::move(device)) {}

  absl::Status Register() {
    ASSIGN_OR_RETURN(in_, device_->AllocateBuffer(edge::Place::kInput,
                                                  kSlots * sizeof(uint32_t)));
    ASSIGN_OR_RETURN(sum_, device_->AllocateBuffer(edge::Place::kOutput,
                                                   kSlots * sizeof(uint64_t)));
    ASSIGN_OR_RETURN(
        queue_,
        edge::edgeRegisterEvent(
            *device_,
            {.kernel = "reduce",
             .max_in_flight = kSlots,
             .parameters = {edge::Fixed("in", in_,
                                        {.length = sizeof(uint32_t),
                                         .slot_stride = sizeof(uint32_t)}),
                            edge::Fixed("sum", sum_,
                                        {.length = sizeof(uint64_t),
                                         .slot_stride = sizeof(uint64_t)})}}));
    return absl::OkStatus();
  }

  void Serve() {
    while (!stop_ && wrong_.empty()) {
      for (uint32_t i = 0; i < kSlots; ++i) {
        const auto number = static_cast<uint32_t>(rung_ + 1 + i);
        std::memcpy(&in_.bytes[queue_->next_slot() * sizeof(number)], &number,
                    sizeof(number));
        queue_->Commit();
      }
      rung_ += kSlots;
      queue_->RingCommitted();
      while (ended_ < rung_ && wrong_.empty()) wrong_ = TakeOne();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  // What is wrong.
  std::string TakeOne() {
    const auto done = queue_->Wait(testing::kBound);
    if (!done.ok()) return Message(done.status());
    const uint64_t number = ended_ + 1;
    if (done->sequence.value() != number) {
      return fmt::format("event {} ends where {} was next",
                         done->sequence.value(), number);
    }
    if (done->state != edge::EventState::kDone) {
      return fmt::format("event {} failed: status {}", number, done->status);
    }
    const uint32_t slot = queue_->SlotOf(done->sequence);
    uint64_t sum = 0;
    std::memcpy(&sum, &sum_.bytes[slot * sizeof(sum)], sizeof(sum));
    expected_[slot] += number;
    if (sum != expected_[slot]) {
      return fmt::format("event {}: the sum of its slot is {}, not {}", number,
                         sum, expected_[slot]);
    }
    queue_->Free();
    {
      MutexLock lock(mutex_);
      taken_.push_back(NowNs());
    }
    ended_ = number;
    return "";
  }

  const std::unique_ptr<edge::Device> device_;
  edge::Buffer in_;
  edge::Buffer sum_;
  edge::EventQueue* queue_ = nullptr;
  uint64_t expected_[kSlots] = {};
  std::string wrong_;  // of thread_, until it has ended
  std::atomic<bool> stop_ = false;
  std::atomic<uint64_t> rung_ = 0;   // written by thread_
  std::atomic<uint64_t> ended_ = 0;  // written by thread_
  mutable Mutex mutex_;
  std::vector<Nanoseconds> taken_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

class LossyLinkTest : public testing::LinkedHostsTest {
 protected:
  // Before there is any thread.
  static void SetUpTestSuite() {
    signal(SIGPIPE, SIG_IGN);
    entered_ = EnterNetworkNamespace();
    LinkedHostsTest::SetUpTestSuite();
  }

  void SetUp() override {
    if (!entered_) GTEST_SKIP() << "no network namespace here";
    ASSERT_EQ(access("/usr/sbin/nft", X_OK), 0)
        << "there is no nft: apt-get install nftables";
    if (!DropArriving(0)) GTEST_SKIP() << "no netfilter with numgen here";
    auto holder = Process::Start("namespace of b",
                                 {"/usr/bin/unshare", "-n", "/bin/sh", "-c",
                                  "echo entered; exec sleep infinity"});
    ASSERT_TRUE(holder.ok()) << Message(holder.status());
    holder_ = *std::move(holder);
    ASSERT_TRUE(holder_->WaitForOutput("entered"));
    const auto up = [](const char* address) {
      return fmt::format(
          "link set lo up\naddr add {}/24 dev wire\nlink set wire up\n",
          address);
    };
    ASSERT_TRUE(RunIp(
        "", fmt::format("link add wire type veth peer name wire netns {}\n",
                        holder_->pid()) +
                up(kAddressOfA)));
    const InNamespace there(holder_->pid());
    ASSERT_TRUE(RunIp("", up(kAddressOfB)));
  }
  void TearDown() override {
    a_.reset();
    adder_.reset();
    // Its peer goes with it.
    if (holder_) RunIp("", "link del wire\n");
  }

  // Both directions. Nobody is told: no packet comes back for one that is dropped.
  void Drop(int percent) {
    ASSERT_TRUE(DropArriving(percent));
    ASSERT_TRUE(DropAtB(percent));
  }
  bool DropAtB(int percent) {
    const InNamespace there(holder_->pid());
    return DropArriving(percent);
  }
  uint64_t DroppedAtB() {
    const InNamespace there(holder_->pid());
    return Dropped();
  }

  void StartHosts() {
    {
      const InNamespace there(holder_->pid());
      ASSERT_NO_FATAL_FAILURE(StartHostB(fmt::format("{}:4711", kAddressOfB)));
    }
    StartHostA(linkd_address_);
  }
  void StartAdder() {
    auto adder = Adder::Start(a_->directory());
    ASSERT_TRUE(adder.ok()) << Message(adder.status());
    adder_ = *std::move(adder);
    ASSERT_TRUE(GoesOn(100));
  }
  bool GoesOn(uint64_t events) {
    const uint64_t before = adder_->ended();
    return Eventually([&] { return adder_->ended() >= before + events; });
  }
  // Each event that the adder has rung ended once, and ran once.
  void EndWell() {
    EXPECT_EQ(adder_->Stop(), "");
    const uint64_t events = adder_->ended();
    EXPECT_EQ(adder_->rung(), events);
    adder_.reset();
    ExpectEachEndedOnce(*a_, events);
    ExpectEachEndedOnce(*b_, events);
    fmt::print("{} events, each ended once and ran once\n", events);
  }

  static bool entered_;
  std::unique_ptr<Process> holder_;  // of the namespace of host b
  std::unique_ptr<Adder> adder_;     // ends before host a
};
bool LossyLinkTest::entered_ = false;

TEST_F(LossyLinkTest, PacketsThatAreDroppedLoseAndDoubleAndRunNothingTwice) {
  ASSERT_NO_FATAL_FAILURE(StartHosts());
  ASSERT_NO_FATAL_FAILURE(StartAdder());
  for (const int percent : {2, 10}) {
    ASSERT_NO_FATAL_FAILURE(Drop(percent));
    const uint64_t at_a = Dropped();
    const uint64_t at_b = DroppedAtB();
    ASSERT_TRUE(GoesOn(500));
    // More of both, if these were not met.
    ASSERT_TRUE(Eventually(
        [&] { return Dropped() >= at_a + 10 && DroppedAtB() >= at_b + 10; }));
  }
  ASSERT_NO_FATAL_FAILURE(Drop(0));
  ASSERT_TRUE(GoesOn(100));
  EndWell();
}

TEST_F(LossyLinkTest,
       ASilenceWithinTheLeaseLosesAndDoublesAndRunsNothingTwice) {
  ASSERT_NO_FATAL_FAILURE(StartHosts());
  ASSERT_NO_FATAL_FAILURE(StartAdder());
  // Completions are lost where host a hears nothing first, and else events.
  for (const auto& [ms, first] : {std::pair(300, 'a'), std::pair(1500, 'b'),
                                  std::pair(5000, 'b'), std::pair(5000, 'a')}) {
    const Nanoseconds begin = NowNs();
    if (first == 'b') {
      ASSERT_TRUE(DropAtB(100));
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    ASSERT_NO_FATAL_FAILURE(Drop(100));
    const uint64_t before = adder_->ended();
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    // A whole ring full waits, and the one before may have been under way.
    EXPECT_LE(adder_->ended(), before + 64);
    const uint64_t waiting = adder_->rung();
    const Nanoseconds end = NowNs();
    ASSERT_NO_FATAL_FAILURE(Drop(0));
    ASSERT_TRUE(Eventually([&] { return adder_->ended() >= waiting; }));
    const auto seconds = [&](Nanoseconds until) {
      return static_cast<double>(until - begin) / 1e9;
    };
    fmt::print(
        "silent for {:.2f} s: the last of {} events that waited ends {:.2f} s "
        "after the cut\n",
        seconds(end), waiting - before, seconds(adder_->WhenTaken(waiting)));
    ASSERT_TRUE(GoesOn(100));
  }
  EndWell();
}

TEST_F(LossyLinkTest, ASilenceBeyondTheLeaseIsTheReasonOfItsEventsOnBothHosts) {
  lease_s_ = far_lease_s_ = "2";
  ASSERT_NO_FATAL_FAILURE(StartHosts());
  ExpectALostLinkIsTheReasonOnBothHosts([&] { Drop(100); });
  // And host a begins another link.
  ASSERT_NO_FATAL_FAILURE(Drop(0));
  EXPECT_TRUE(Eventually([&] {
    return a_->Status().backend_description().ends_with(linkd_address_ +
                                                        "), now up");
  })) << a_->Status().backend_description();
}

}  // namespace
}  // namespace carillon
