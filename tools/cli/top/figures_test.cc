#include "tools/cli/top/figures.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/temp_directory.h"
#include "proto/admin.pb.h"

namespace carillon::cli::top {
namespace {

// A device that was started by hand: no supervisor knows it.
class StartedByHand : public testing::Test {
 protected:
  StartedByHand() : child_(fork()) {
    if (child_ == 0) {
      for (;;) pause();
    }
    figures_.processes.push_back({.name = "nic0",
                                  .kind = "nic",
                                  .state = "ready",
                                  .pid = static_cast<uint32_t>(child_),
                                  .gpud_state = "ready"});
  }
  ~StartedByHand() override {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }

  void SendAndAwait(int signal, int what) {
    kill(child_, signal);
    siginfo_t info;
    ASSERT_EQ(waitid(P_PID, child_, &info, what | WNOWAIT), 0);
  }
  const Process& Look() {
    looker_.Look(testbed_, &figures_);
    return figures_.processes.at(0);
  }
  void ExpectEnded(const Process& process) {
    EXPECT_EQ(process.state, "ended");
    EXPECT_TRUE(process.bad);
    EXPECT_FALSE(process.cores);
    EXPECT_FALSE(process.resident_bytes);
  }

  const pid_t child_;
  const TempDirectory folder_;
  const testbed::Testbed testbed_{.name = "lab",
                                  .paths = TestbedPaths(folder_.path())};
  Figures figures_;
  ProcessLooker looker_;
};

TEST_F(StartedByHand, KnowsCpuTimeAfterTwoLooks) {
  EXPECT_FALSE(Look().cores);
  const Process& again = Look();
  EXPECT_TRUE(again.cores);
  EXPECT_GT(again.resident_bytes, 0u);
  EXPECT_EQ(again.state, "ready");
  EXPECT_FALSE(again.bad);
}

TEST_F(StartedByHand, IsAsGpudSaysAgainOnceItGoesOn) {
  SendAndAwait(SIGSTOP, WSTOPPED);
  EXPECT_EQ(Look().state, "stopped");
  EXPECT_TRUE(Look().bad);
  SendAndAwait(SIGCONT, WCONTINUED);
  EXPECT_EQ(Look().state, "ready");
  EXPECT_FALSE(Look().bad);
}

TEST_F(StartedByHand, HasEndedWhetherItIsAwaitedOrNot) {
  Look();
  Look();
  SendAndAwait(SIGKILL, WEXITED);
  ExpectEnded(Look());
  waitpid(child_, nullptr, 0);
  ExpectEnded(Look());
}

TEST_F(StartedByHand, IsNotAnotherProgramThatGotItsPid) {
  Look();
  // As if the one that was seen had begun before this one.
  --*figures_.processes[0].start_ticks;
  ExpectEnded(Look());
}

TEST(ShowPicture, KnowsNoPendingEventsOfADoorbellBeyondItsRing) {
  v1::Snapshot message;
  message.set_whole(true);
  message.set_number(1);
  v1::SnapshotEventKernel* const event = message.add_event_kernels();
  event->mutable_entry()->set_ekt_index(3);
  event->mutable_ring()->set_entries(64);
  v1::RingFigures* const ring = message.add_ring_figures();
  ring->set_ekt_index(3);
  ring->set_completed((uint64_t{1} << 32) + 5);
  const auto pending = [&](uint32_t doorbell) {
    ring->set_doorbell(doorbell);
    testbed::SnapshotPicture picture;
    EXPECT_TRUE(picture.Apply(message).ok());
    Figures figures;
    ShowPicture(picture, testbed::SnapshotRates(), &figures);
    return figures.events.at(0).pending;
  };
  EXPECT_EQ(pending(5), 0u);
  EXPECT_EQ(pending(69), 64u);
  EXPECT_FALSE(pending(70));
  EXPECT_FALSE(pending(4));
}

}  // namespace
}  // namespace carillon::cli::top
