// A device with a user of its own serves as any other, and its process can do
// nothing to the testbed's.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/subprocess.h"
#include "base/testing/eventually.h"
#include "tools/cli/cli_runner.h"
#include "tools/testbed/supervisor/directory.h"
#include "tools/testbed/supervisor/marks.h"
#include "tools/testbed/supervisor/test_util.h"

namespace carillon::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uid_t kNobody = 65534;
constexpr uid_t kDaemon = 1;

class DeviceUserTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
    // Copies, because other users may not look into the build's folder.
    fs::permissions(programs_.path(), fs::perms(0755));
    for (const std::string program :
         {"gpu_daemon/gpud", "devices/fpga/fpga", "tools/cli/trespasser",
          "tools/cli/carillon"}) {
      fs::copy_file(program, Program(fs::path(program).filename()));
    }
    setenv("CARILLON_BIN_DIR", programs_.path().c_str(), 1);
    fs::permissions(runtime_.path(), fs::perms(0711));
  }
  void TearDown() override {
    if (geteuid() != 0) return;
    const CliResult down = RunCli({"down", "--all"});
    EXPECT_EQ(down.code, 0) << down.err;
    EXPECT_THAT(testbed::MarkedProcesses(testbed::PathsOf("lab")), IsEmpty());
    EXPECT_TRUE(fs::is_empty(runtime_.path())) << down.err;
    unsetenv("CARILLON_BIN_DIR");
  }

  std::string Program(const std::string& name) const {
    return programs_.path() + "/" + name;
  }
  std::string Topology(const std::string& devices) const {
    const std::string path = files_.path() + "/lab.yaml";
    std::ofstream(path) << fmt::format(
        "name: lab\n"
        "gpu: {{backend: cpu, memory: 64MiB, restart: on_failure}}\n"
        "devices:\n{}",
        devices);
    return path;
  }
  void UpWithACamera() {
    const CliResult up =
        RunCli({"up", "-d", "-f",
                Topology("  - {name: camera0, kind: fpga, size: 64x32, fps: "
                         "200, check: true, user: nobody}\n")});
    ASSERT_EQ(up.code, 0) << up.err;
  }
  static Json Process(const std::string& name) {
    const Json json = RunCli({"ps", "--name", "lab", "-o", "json"}).json();
    for (const Json& process : json["testbeds"][0]["processes"]) {
      if (process["name"] == name) return process;
    }
    ADD_FAILURE() << "no process " << name;
    return Json::object();
  }
  // Events that gpud has ended well, of all devices.
  static uint64_t Done() {
    const CliResult status = RunCli({"status", "--name", "lab", "-o", "json"});
    return status.code == 0 ? status.json()["events"]["done"].get<uint64_t>()
                            : 0;
  }
  // gpud, a new one perhaps, ends further events.
  static bool Serves() {
    const uint64_t before = Done();
    return Eventually([&] { return Done() > before + 10; });
  }
  static uid_t UserOf(pid_t pid) {
    struct stat facts {};
    stat(fmt::format("/proc/{}", pid).c_str(), &facts);
    return facts.st_uid;
  }

  testbed::TestFolder files_;
  TempDirectory programs_;
  testbed::TestFolder runtime_;
};

TEST_F(DeviceUserTest, ItServesAsThatUserAndComesBackAfterEitherDeath) {
  UpWithACamera();
  const pid_t camera = Process("camera0")["pid"];
  EXPECT_EQ(UserOf(camera), kNobody);
  EXPECT_EQ(UserOf(Process("gpud")["pid"]), 0u);
  EXPECT_TRUE(Serves());

  const CliResult restart = RunCli({"restart", "--kill", "camera0"});
  EXPECT_EQ(restart.code, 0) << restart.err;
  EXPECT_NE(Process("camera0")["pid"], camera);
  EXPECT_EQ(UserOf(Process("camera0")["pid"]), kNobody);
  EXPECT_TRUE(Serves());

  const pid_t gpud = Process("gpud")["pid"];
  ASSERT_EQ(kill(gpud, SIGKILL), 0);
  EXPECT_TRUE(Eventually([&] {
    const Json again = Process("gpud");
    return again["state"] == "ready" && again["pid"] != gpud;
  }));
  EXPECT_TRUE(Serves());
}

TEST_F(DeviceUserTest, ItReachesTwoSocketsAndNothingElse) {
  const CliResult up =
      RunCli({"up", "-d", "-f",
              Topology(fmt::format("  - {{name: thief, kind: exec, wait_ready: "
                                   "false, user: nobody, command: [{}]}}\n",
                                   Program("trespasser")))});
  ASSERT_EQ(up.code, 0) << up.err;
  const std::string log =
      testbed::PathsOf("lab").log_directory() + "/thief.log";
  ASSERT_TRUE(Eventually([&] {
    return testbed::FileText(log).find("end\n") != std::string::npos;
  }));
  EXPECT_EQ(testbed::FileText(log),
            "connect control.sock: done\n"
            "connect handover.sock: done\n"
            "connect operator.sock: EACCES\n"
            "connect bus.sock: EACCES\n"
            "connect supervisor.sock: EACCES\n"
            "read state.json: EACCES\n"
            "write state.json: EACCES\n"
            "read lock: EACCES\n"
            "write lock: EACCES\n"
            "read gpud.lock: EACCES\n"
            "write gpud.lock: EACCES\n"
            "read logs/gpud.log: EACCES\n"
            "write logs/gpud.log: EACCES\n"
            "list the directory: EACCES\n"
            "make a file: EACCES\n"
            "remove control.sock: EACCES\n"
            "signal gpud: EPERM\n"
            "trace gpud: EPERM\n"
            "open gpud's memory: EACCES\n"
            "signal the supervisor: EPERM\n"
            "become root: EPERM\n"
            "open the terminal: ENXIO\n"
            "uid 65534 gid 65534 groups 1\n"
            "no new privileges: 1\n"
            "in /\n"
            "HOME=/nonexistent\n"
            "USER=nobody\n"
            "end\n");
}

TEST_F(DeviceUserTest, AUserWhomNoDeviceHasReachesNothing) {
  UpWithACamera();
  const std::string out = files_.path() + "/out";
  auto other =
      Subprocess::Start({.argv = {"setpriv", fmt::format("--reuid={}", kDaemon),
                                  "--clear-groups", "--", Program("trespasser"),
                                  testbed::PathsOf("lab").directory()},
                         .log_path = out});
  ASSERT_TRUE(other.ok()) << other.status();
  ASSERT_TRUE(Eventually([&] {
    return testbed::FileText(out).find("end\n") != std::string::npos;
  }));
  EXPECT_THAT(testbed::FileText(out),
              AllOf(HasSubstr("connect control.sock: EACCES\n"),
                    HasSubstr("connect handover.sock: EACCES\n")));
}

// The change of user must not untie the device's life from the supervisor's.
TEST_F(DeviceUserTest, ItEndsWithItsSupervisor) {
  UpWithACamera();
  const auto supervisor = testbed::SupervisorOf(testbed::PathsOf("lab"));
  ASSERT_TRUE(supervisor.has_value());
  ASSERT_EQ(kill(supervisor->pid, SIGKILL), 0);
  EXPECT_TRUE(Eventually([] {
    return testbed::MarkedProcesses(testbed::PathsOf("lab")).empty();
  }));
}

TEST_F(DeviceUserTest, OnlyRootCanGiveOne) {
  const std::string file =
      Topology("  - {name: camera0, kind: fpga, user: nobody}\n");
  fs::permissions(files_.path(), fs::perms(0755));
  const std::string out = files_.path() + "/out";
  const TempDirectory theirs;
  ASSERT_EQ(chown(theirs.path().c_str(), kDaemon, kDaemon), 0);
  auto up = Subprocess::Start(
      {.argv = {"setpriv", fmt::format("--reuid={}", kDaemon), "--clear-groups",
                "--", Program("carillon"), "up", "-f", file},
       .environment = {"CARILLON_RUNTIME_DIR=" + theirs.path()},
       .log_path = out});
  ASSERT_TRUE(up.ok()) << up.status();
  EXPECT_EQ(up->Reap().code, 5);
  EXPECT_THAT(testbed::FileText(out),
              AllOf(HasSubstr("device camera0: only root can start it as user "
                              "nobody, and this is uid 1"),
                    HasSubstr("sudo carillon up")));
}

TEST_F(DeviceUserTest, RootLooksIntoAUsersTestbed) {
  const TempDirectory theirs;
  ASSERT_EQ(chown(theirs.path().c_str(), kDaemon, kDaemon), 0);
  const std::string directory = theirs.path() + "/tb";
  auto gpud = Subprocess::Start(
      {.argv = {"setpriv", fmt::format("--reuid={}", kDaemon), "--clear-groups",
                "--", Program("gpud"), "--dir", directory, "--backend", "cpu",
                "--memory", "16MiB"},
       .log_path = files_.path() + "/gpud.log"});
  ASSERT_TRUE(gpud.ok()) << gpud.status();
  CliResult status;
  EXPECT_TRUE(Eventually([&] {
    status = RunCli({"status", "--dir", directory});
    return status.code == 0;
  })) << status.err;
  gpud->Signal(SIGTERM);
  EXPECT_TRUE(gpud->Reap().ok());
}

TEST_F(DeviceUserTest, FaultsAndRecordersGoWithoutOne) {
  const std::string file =
      Topology("  - {name: camera0, kind: fpga, user: nobody}\n");
  const CliResult faults = RunCli({"up", "-d", "--faults", "-f", file});
  EXPECT_EQ(faults.code, 1);
  EXPECT_THAT(faults.err, HasSubstr("device camera0: user: faults goes without "
                                    "a user of its own"));
  setenv("CARILLON_RECORD", "4096", 1);
  const CliResult record = RunCli({"up", "-d", "-f", file});
  unsetenv("CARILLON_RECORD");
  EXPECT_EQ(record.code, 1);
  EXPECT_THAT(record.err,
              HasSubstr("device camera0: CARILLON_RECORD goes without a user"));
}

TEST_F(DeviceUserTest, AFolderThatIsClosedToThatUserIsNamed) {
  fs::permissions(runtime_.path(), fs::perms(0700));
  const CliResult up =
      RunCli({"up", "-d", "-f",
              Topology("  - {name: camera0, kind: fpga, user: nobody}\n")});
  EXPECT_EQ(up.code, 1);
  EXPECT_THAT(up.err,
              AllOf(HasSubstr("camera0 ended during bring-up"),
                    HasSubstr("a folder above it lets nobody of uid 65534")));
}

}  // namespace
}  // namespace carillon::cli
