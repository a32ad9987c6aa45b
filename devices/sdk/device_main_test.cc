#include "devices/sdk/device_main.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <vector>

#include "base/testbed_paths.h"

namespace carillon::edge {
namespace {

using ::testing::ExitedWithCode;
using ::testing::KilledBySignal;

using Body = std::function<absl::Status(const DeviceContext&)>;

// To be called in the child of a death test: signals and the log belong to the
// process.
void Main(std::vector<const char*> arguments, const Body& body) {
  arguments.insert(arguments.begin(), "device");
  CLI::App app("A device.");
  std::exit(DeviceMain(app, static_cast<int>(arguments.size()),
                       const_cast<char**>(arguments.data()), "dev0", body));
}

Body Returning(absl::Status status) {
  return [status](const DeviceContext&) { return status; };
}

class DeviceMainTest : public ::testing::Test {
 protected:
  DeviceMainTest() {
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
    unsetenv(kTestbedDirectoryVariable);
    unsetenv(kDeviceNameVariable);
  }
};

TEST_F(DeviceMainTest, TheStatusDecidesTheExitCode) {
  EXPECT_EXIT(Main({"--dir", "/d"}, Returning(absl::OkStatus())),
              ExitedWithCode(0), "");
  EXPECT_EXIT(Main({"--dir", "/d"}, Returning(absl::InternalError("it broke"))),
              ExitedWithCode(1), "dev0 error it broke");
  EXPECT_EXIT(Main({"--dir", "/d"},
                   Returning(absl::InvalidArgumentError("no such size"))),
              ExitedWithCode(2), "no such size");
  EXPECT_EXIT(
      Main({"--dir", "/d"}, Returning(absl::UnavailableError("PEER_DEAD"))),
      ExitedWithCode(4), "PEER_DEAD");
  EXPECT_EXIT(Main({"--dir", "/d"}, Returning(absl::CancelledError("stopped"))),
              ExitedWithCode(0), "dev0 info stopped");
}

TEST_F(DeviceMainTest, TheTestbedAndTheNameComeFromFlagsAndEnvironment) {
  const Body check = [](const DeviceContext& context) {
    return context.directory == "/d" && context.name == "nic7"
               ? absl::OkStatus()
               : absl::InternalError(context.directory + " " + context.name);
  };
  EXPECT_EXIT(Main({"--dir", "/d", "--name", "nic7"}, check), ExitedWithCode(0),
              "");
  EXPECT_EXIT(
      {
        setenv(kTestbedDirectoryVariable, "/d", 1);
        Main({"--name", "nic7"}, check);
      },
      ExitedWithCode(0), "");
  EXPECT_EXIT(
      {
        setenv(kDeviceNameVariable, "nic7", 1);
        Main({"--dir", "/d"}, check);
      },
      ExitedWithCode(0), "");
  EXPECT_EXIT(
      {
        setenv(kDeviceNameVariable, "other", 1);
        Main({"--dir", "/d", "--name", "nic7"}, check);
      },
      ExitedWithCode(0), "");
  EXPECT_EXIT(Main({}, check), ExitedWithCode(2), "--dir");
}

TEST_F(DeviceMainTest, HowLongToWaitForAnotherGpudIsAFlagOrTheTestbedsWord) {
  const auto waits = [](std::chrono::milliseconds time) {
    return [time](const DeviceContext& context) {
      return context.resume_within == time ? absl::OkStatus()
                                           : absl::InternalError("other");
    };
  };
  using std::chrono::milliseconds;
  EXPECT_EXIT(Main({"--dir", "/d"}, waits(milliseconds(0))), ExitedWithCode(0),
              "");
  EXPECT_EXIT(Main({"--dir", "/d", "--resume-within", "1.5"},
                   waits(milliseconds(1500))),
              ExitedWithCode(0), "");
  EXPECT_EXIT(
      {
        setenv(kResumeWithinVariable, "30", 1);
        Main({"--dir", "/d"}, waits(milliseconds(30'000)));
      },
      ExitedWithCode(0), "");
  EXPECT_EXIT(Main({"--dir", "/d", "--resume-within", "-1"},
                   Returning(absl::OkStatus())),
              ExitedWithCode(2), "--resume-within");
}

TEST_F(DeviceMainTest, UnknownFlagsAndLevelsAreUsageErrors) {
  EXPECT_EXIT(
      Main({"--dir", "/d", "--frobnicate"}, Returning(absl::OkStatus())),
      ExitedWithCode(2), "--frobnicate");
  EXPECT_EXIT(
      Main({"--dir", "/d", "--log-level", "loud"}, Returning(absl::OkStatus())),
      ExitedWithCode(2), "loud");
  EXPECT_EXIT(Main({"--dir", "/d", "--log-level", "off"},
                   Returning(absl::InternalError("quiet"))),
              ExitedWithCode(1), "^$");
}

TEST_F(DeviceMainTest, ASignalIsAStopRequestAndTheSecondTheEnd) {
  for (const int signal : {SIGTERM, SIGINT}) {
    EXPECT_EXIT(
        Main({"--dir", "/d"},
             [signal](const DeviceContext& context) {
               pollfd waiter{
                   .fd = context.stop.fd(), .events = POLLIN, .revents = 0};
               if (context.stop.requested() || poll(&waiter, 1, 0) != 0) {
                 return absl::InternalError("stopped before the signal");
               }
               raise(signal);
               if (!context.stop.requested() || poll(&waiter, 1, 0) != 1) {
                 return absl::InternalError("not stopped after the signal");
               }
               return absl::OkStatus();
             }),
        ExitedWithCode(0), "");
    EXPECT_EXIT(Main({"--dir", "/d"},
                     [signal](const DeviceContext&) {
                       raise(signal);
                       raise(signal);
                       return absl::OkStatus();
                     }),
                KilledBySignal(signal), "");
  }
}

}  // namespace
}  // namespace carillon::edge
