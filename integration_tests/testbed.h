// For tests that break a testbed on purpose and prove that nothing is lost
// (docs/testing.md):
//
//   FaultTestbed  what `carillon up` brings up from a topology, with a board of
//                 faults and flight recorders; gone with the object
//   Ledger        what the recorders prove: EXPECT_THAT(lab.Ledger(),
//                 NothingLost())
//
// integration_tests/examples/kill_nic_test.cc shows it in 20 lines.
#ifndef CARILLON_INTEGRATION_TESTS_TESTBED_H_
#define CARILLON_INTEGRATION_TESTS_TESTBED_H_

#include <gmock/gmock-matchers.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/temp_directory.h"
#include "base/testbed_paths.h"
#include "integration_tests/testbed_process.h"
#include "shm/faults/board.h"
#include "shm/faults/fault.h"
#include "tools/testbed/ledger/timeline_view.h"
#include "tools/testbed/load/memc_client.h"
#include "tools/testbed/supervisor/state.h"

namespace carillon::testing {

// A judged reading of a testbed's flight recorders.
class LedgerReading {
 public:
  explicit LedgerReading(testbed::Timeline timeline)
      : timeline_(std::move(timeline)) {}

  const ledger::Report& report() const { return timeline_.report; }
  const testbed::Timeline& timeline() const { return timeline_; }
  // How many events ended how, and the first violation with the records around
  // it.
  std::string ToString() const;

 private:
  testbed::Timeline timeline_;
};
void PrintTo(const LedgerReading& reading, std::ostream* stream);

// Works also for a testbed that this library did not start.
LedgerReading ReadLedger(const TestbedPaths& paths);

// Every event that was rung has ended exactly once, in order, and as gpud says,
// as far as anybody could see: what a device had in flight when it was killed
// counts neither way. Also fails if that is not proven: nothing was recorded,
// or a recorder was too small or cannot be read.
::testing::Matcher<const LedgerReading&> NothingLost();

// Methods that return an AssertionResult wait for at most `bound`, and say what
// they found instead: ASSERT_TRUE(lab.WaitForStrike("nic-dies")). For one
// thread, which must live as long as the object.
class FaultTestbed : public TestbedClient {
 public:
  // The records of each process's flight recorder, unless the topology has
  // `record`.
  static constexpr uint64_t kRecords = 262'144;

  // Brings up a topology (docs/cli.md); returns when all processes are ready.
  // The devices' programs must be among the test's data. `flags` are passed to
  // `carillon up`, after the library's own. Errors: Internal, with what
  // `carillon up` says.
  static absl::StatusOr<std::unique_ptr<FaultTestbed>> Up(
      std::string_view topology, const std::vector<std::string>& flags = {});
  static absl::StatusOr<std::unique_ptr<FaultTestbed>> UpFile(
      const std::string& file, const std::vector<std::string>& flags = {});
  // Takes it down. If the test has failed, first keeps everything that may show
  // why (Keep()) and names the folder. The test fails if something is left
  // over, or if a client of StartLoad() got wrong bytes.
  ~FaultTestbed();

  // --- Driving.

  // A process as the supervisor sees it: pid, state, restarts. The test fails
  // if there is none of that name.
  testbed::ProcessRecord ProcessOf(const std::string& name) const;
  // Does what `carillon restart` does; returns when the process is ready again.
  ::testing::AssertionResult Restart(const std::string& name,
                                     bool kill = false);
  // Returns for SIGSTOP when the process has stopped.
  ::testing::AssertionResult Signal(const std::string& name, int signal) const;
  // Waits until the supervisor has restarted it so often and it is ready.
  ::testing::AssertionResult WaitForRestart(
      const std::string& name, uint32_t times = 1,
      std::chrono::milliseconds bound = kBound) const;
  // Waits until the device has taken so many more completions than now. Fails at
  // once for a device that there is not, and when it or gpud has ended and does
  // not come back.
  ::testing::AssertionResult WaitForProgress(
      const std::string& device, uint64_t events = 1,
      std::chrono::milliseconds bound = kBound);
  // Starts a memcached client with `window` requests in flight. It checks every
  // byte and finds the NIC again after its restart. Returns when it is served.
  ::testing::AssertionResult StartLoad(const std::string& nic,
                                       uint32_t window = 16);
  // The client's good replies so far.
  uint64_t Replies(const std::string& nic) const;
  // Ends the client and returns its totals. The test fails if it had no reply.
  testbed::LoadResult StopLoad(const std::string& nic);

  // --- Breaking.

  // Returns when every running process knows of it.
  ::testing::AssertionResult Inject(const faults::Fault& fault);
  // How often the fault has struck. The test fails if no such fault was
  // injected.
  uint64_t Struck(const std::string& fault) const;
  ::testing::AssertionResult WaitForStrike(
      const std::string& fault, uint64_t times = 1,
      std::chrono::milliseconds bound = kBound) const;
  faults::Board& board() { return *board_; }

  // --- Judging.

  LedgerReading Ledger() const { return ReadLedger(paths()); }
  // Stops all processes for a moment and copies recorders, logs, board, state,
  // and what gpud says of its rings into a new folder, which it returns: below
  // $TEST_UNDECLARED_OUTPUTS_DIR, which Bazel keeps, or /tmp. `carillon
  // postmortem --dir` reads it. Errors: Internal, FailedPrecondition (after
  // Down()).
  absl::StatusOr<std::string> Keep();
  // Does now what the destructor does, and names what is left over.
  ::testing::AssertionResult Down();

 private:
  class Load;

  explicit FaultTestbed(TempDirectory runtime_directory);
  absl::Status BringUp(const std::string& file,
                       const std::vector<std::string>& flags);
  absl::Status CopyTo(const TestbedPaths& to) const;
  // Why the device will take nothing any more; empty: it lives or comes back.
  std::string WhyItIsGone(const std::string& device) const;

  const TempDirectory runtime_directory_;
  // `carillon up`: the supervisor, whose death ends all the others.
  std::unique_ptr<Process> supervisor_;
  std::unique_ptr<faults::Board> board_;
  std::map<std::string, std::unique_ptr<Load>> loads_;
};

}  // namespace carillon::testing

#endif  // CARILLON_INTEGRATION_TESTS_TESTBED_H_
