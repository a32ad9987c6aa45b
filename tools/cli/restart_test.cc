// Processes of a real testbed end and come back: because `carillon restart`
// asks, or by their policy. Nothing stays when the testbed ends meanwhile.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
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
using ::testing::SizeIs;

constexpr char kOneOfEach[] = R"(
name: lab
gpu: {backend: cpu, memory: 64MiB}
devices:
  - {name: nic0, kind: nic, udp_port: 0, tcp_port: 0, store_bytes: 1MiB,
     table_entries: 1024}
  - {name: fpga0, kind: fpga, size: 64x64, ring: 32, check: true}
  - {name: host0, kind: cpu_host, kernel: matmul, schedule_event_every_ms: 2}
)";

// A connection to a memcached server; none if it does not listen.
UniqueFd Connect(int port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval limit{.tv_sec = 20, .tv_usec = 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address),
              sizeof(address)) != 0) {
    fd.reset();
  }
  return fd;
}

// The server's answer; empty if it does not answer.
std::string Ask(const UniqueFd& connection, const std::string& command) {
  if (send(connection.get(), command.data(), command.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(command.size())) {
    return "";
  }
  char bytes[512];
  const ssize_t got = recv(connection.get(), bytes, sizeof(bytes), 0);
  return got > 0 ? std::string(bytes, got) : "";
}

class RestartTest : public ::testing::Test {
 protected:
  void TearDown() override {
    const CliResult down = RunCli({"down", "--all"});
    EXPECT_EQ(down.code, 0) << down.err;
    EXPECT_THAT(Marked(), IsEmpty());
    EXPECT_TRUE(fs::is_empty(folder_.path())) << down.err;
  }

  std::string Topology(const std::string& gpu = "",
                       const std::string& nic = "") {
    const std::string path = files_.path() + "/lab.yaml";
    std::ofstream(path) << fmt::format(
        "name: lab\n"
        "gpu: {{backend: cpu, memory: 64MiB{}}}\n"
        "devices:\n"
        "  - {{name: nic0, kind: nic, udp_port: 0, tcp_port: 0, "
        "store_bytes: 1MiB, table_entries: 1024{}}}\n",
        gpu, nic);
    return path;
  }
  void Up(const std::string& file) {
    const CliResult up = RunCli({"up", "-d", "-f", file});
    ASSERT_EQ(up.code, 0) << up.err;
    ExpectService();
  }
  static std::vector<testbed::ProcessIdentity> Marked() {
    return testbed::MarkedProcesses(testbed::PathsOf("lab"));
  }
  static Json Process(const std::string& name) {
    const Json json = RunCli({"ps", "--name", "lab", "-o", "json"}).json();
    for (const Json& process : json["testbeds"][0]["processes"]) {
      if (process["name"] == name) return process;
    }
    ADD_FAILURE() << "no process " << name;
    return Json::object();
  }
  // Reads the port from what the NIC says of itself: "udp ... tcp
  // 127.0.0.1:40001".
  static int Port() {
    const std::string note = Process("nic0")["note"];
    return atoi(note.substr(note.rfind(':') + 1).c_str());
  }
  static bool Serves() {
    const int port = Port();
    const UniqueFd connection = Connect(port);
    return Ask(connection, "set key 0 0 5\r\nvalue\r\n") == "STORED\r\n" &&
           Ask(connection, "get key\r\n") ==
               "VALUE key 0 5\r\nvalue\r\nEND\r\n";
  }
  static void ExpectService() { EXPECT_TRUE(Serves()) << Process("nic0"); }

  // The second folder keeps the tests' files out of the runtime directory.
  testbed::TestFolder files_;
  testbed::TestFolder folder_;
};

TEST_F(RestartTest, ADeviceServesAgain) {
  Up(Topology());
  const pid_t before = Process("nic0")["pid"];
  const pid_t gpud = Process("gpud")["pid"];
  const CliResult restart = RunCli({"restart", "nic0", "-o", "json"});
  ASSERT_EQ(restart.code, 0) << restart.err;
  const Json restarted = restart.json()["restarted"][0];
  EXPECT_EQ(restarted["name"], "nic0");
  EXPECT_EQ(restarted["state"], "ready");
  EXPECT_NE(restarted["pid"], before);
  EXPECT_EQ(restarted["pid"], Process("nic0")["pid"]);
  EXPECT_EQ(Process("gpud")["pid"], gpud);
  ExpectService();
  EXPECT_THAT(
      RunCli({"logs", "nic0"}).out,
      HasSubstr(" supervisor info starts nic0 again (restart 1); it had "
                "ended (exit code 0)\n"));

  const CliResult killed = RunCli({"restart", "nic0", "--kill"});
  EXPECT_EQ(killed.code, 0) << killed.err;
  EXPECT_THAT(killed.err, HasSubstr("nic0 is ready after "));
  ExpectService();
  EXPECT_THAT(RunCli({"logs", "nic0"}).out, HasSubstr("ended (SIGKILL)\n"));
  EXPECT_EQ(RunCli({"down"}).code, 0);
}

TEST_F(RestartTest, GpudServesAgainAndItsDevicesWithIt) {
  Up(Topology());
  for (const std::string how : {"--timeout=30", "--kill"}) {
    const pid_t before = Process("gpud")["pid"];
    const CliResult restart = RunCli({"restart", "nic0", "gpud", how});
    ASSERT_EQ(restart.code, 0) << restart.err;
    EXPECT_NE(Process("gpud")["pid"], before);
    EXPECT_EQ(RunCli({"status"}).code, 0);
    ExpectService();
  }
}

// Stores a value and reads it, again and again, over one connection, which no
// restart of gpud may break: it only gets slow answers and an empty store.
class Client {
 public:
  explicit Client(int port)
      : thread_([this, port] {
          const UniqueFd connection = Connect(port);
          while (!stop_ && why_.empty()) {
            const std::string stored =
                Ask(connection, "set key 0 0 5\r\nvalue\r\n");
            const std::string got = Ask(connection, "get key\r\n");
            if (stored != "STORED\r\n" ||
                (got != "VALUE key 0 5\r\nvalue\r\nEND\r\n" &&
                 got != "END\r\n")) {
              why_ = fmt::format("stored '{}', got '{}'", stored, got);
            }
            ++turns_;
          }
        }) {}
  ~Client() {
    stop_ = true;
    thread_.join();
    EXPECT_EQ(why_, "");
  }
  uint64_t turns() const { return turns_; }

 private:
  std::atomic<bool> stop_{false};   // writer: the test
  std::atomic<uint64_t> turns_{0};  // writer: the thread
  std::string why_;                 // the thread's until it has ended
  std::thread thread_;
};

TEST_F(RestartTest, ARestartOfGpudTakesNoDeviceAlong) {
  const std::string file = files_.path() + "/load.yaml";
  std::ofstream(file) << kOneOfEach << "record: 262144\n";
  Up(file);
  const std::vector<std::string> devices = {"nic0", "fpga0", "host0"};
  const auto pids = [&] {
    std::vector<pid_t> pids;
    for (const std::string& name : devices) {
      pids.push_back(Process(name)["pid"].get<pid_t>());
    }
    return pids;
  };
  const std::vector<pid_t> before = pids();
  // What each has had done in all, whichever gpud did it.
  const auto done = [&](const std::string& name, const std::string& counter) {
    const Json json = RunCli({"devices", "-o", "json"}).json();
    for (const Json& device : json["devices"]) {
      if (device["name"] != name) continue;
      for (const Json& each : device["counters"]) {
        if (each["name"] == counter) return each["value"].get<uint64_t>();
      }
    }
    return uint64_t{0};
  };
  {
    Client client(Port());
    const auto goes_on = [&] {
      const uint64_t turns = client.turns();
      const uint64_t frames = done("fpga0", "frames_done");
      const uint64_t launches = done("host0", "launches");
      const uint64_t echoes = done("host0", "scheduled_events");
      return Eventually([&] {
        return client.turns() > turns + 20 &&
               done("fpga0", "frames_done") > frames + 100 &&
               done("host0", "launches") > launches &&
               done("host0", "scheduled_events") > echoes + 5;
      });
    };
    ASSERT_TRUE(goes_on());
    for (int restart = 0; restart < 3; ++restart) {
      const pid_t gpud = Process("gpud")["pid"];
      const CliResult result = RunCli({"restart", "gpud"});
      ASSERT_EQ(result.code, 0) << result.err;
      EXPECT_NE(Process("gpud")["pid"], gpud);
      EXPECT_EQ(Process("gpud")["last_exit"]["code"], 0);
      ASSERT_TRUE(goes_on()) << RunCli({"logs"}).out;
    }
  }
  EXPECT_EQ(pids(), before);
  EXPECT_EQ(done("fpga0", "mismatches"), 0u);
  EXPECT_EQ(done("host0", "verify_failures"), 0u);
  EXPECT_EQ(done("host0", "scheduled_failures"), 0u);
  // In order, so that their recordings are whole.
  for (const pid_t pid : before) kill(pid, SIGTERM);
  ASSERT_TRUE(Eventually([&] {
    return std::ranges::all_of(devices, [](const std::string& name) {
      return Process(name)["state"] == "ended";
    });
  }));
  const CliResult verdict =
      RunCli({"postmortem", "--name", "lab", "-o", "json"});
  EXPECT_EQ(verdict.code, 0) << verdict.out;
  EXPECT_EQ(verdict.json()["verdict"], "ok");
  EXPECT_GT(verdict.json()["events"]["ok"], 400);
}

TEST_F(RestartTest, SaysWhatItCannotRestart) {
  EXPECT_EQ(RunCli({"restart", "nic0"}).code, 3);
  Up(Topology());
  const CliResult typo = RunCli({"restart", "nci0"});
  EXPECT_EQ(typo.code, 3);
  EXPECT_EQ(typo.err,
            "carillon: testbed 'lab' has no process 'nci0'; did you mean "
            "'nic0'?\n  hint: carillon ps --name lab lists them\n");
  const CliResult other = RunCli({"restart", "nic0", "--name", "lba"});
  EXPECT_EQ(other.code, 3);
  EXPECT_THAT(other.err, HasSubstr("did you mean 'lab'?"));
  EXPECT_EQ(RunCli({"restart"}).code, 2);

  kill(testbed::SupervisorOf(testbed::PathsOf("lab"))->pid, SIGKILL);
  ASSERT_TRUE(Eventually([] { return Marked().empty(); }));
  const CliResult dead = RunCli({"restart", "nic0", "--name", "lab"});
  EXPECT_EQ(dead.code, 4);
  EXPECT_THAT(dead.err, HasSubstr("testbed 'lab' is not up"));
}

TEST_F(RestartTest, DownEndsATestbedInTheMidstOfIt) {
  Up(Topology());
  // A stopped NIC would be woken and end at once. A stopped gpud never says that
  // it has let go of the NIC, so that the restart cannot end before `down`.
  kill(Process("gpud")["pid"].get<pid_t>(), SIGSTOP);
  CliRun restart({"restart", "nic0", "--timeout", "600"});
  ASSERT_TRUE(Eventually([&] {
    return RunCli({"logs", "supervisor"}).out.find("as asked") !=
           std::string::npos;
  }));
  EXPECT_EQ(RunCli({"down"}).code, 0);
  EXPECT_THAT(Marked(), IsEmpty());
  const CliResult result = restart.Wait();
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("testbed 'lab' is going down"));
}

// While there is no gpud, its devices wait for the next: their end is asked for.
TEST_F(RestartTest, DownReportsNoDeviceThatWaitsForTheNextGpud) {
  const std::string file = files_.path() + "/all.yaml";
  std::ofstream(file) << kOneOfEach;
  CliRun up({"up", "-f", file});
  ASSERT_TRUE(Eventually([&] {
    return up.err().find("end it with Ctrl-C") != std::string::npos;
  })) << up.err();
  // The next gpud finds no place for its socket, and ends.
  const TestbedPaths paths = testbed::PathsOf("lab");
  kill(Process("gpud")["pid"].get<pid_t>(), SIGSTOP);
  fs::remove(paths.control_socket());
  fs::create_directory(paths.control_socket());
  const CliResult restart = RunCli({"restart", "gpud"});
  EXPECT_EQ(restart.code, 1) << restart.err;
  fs::remove(paths.control_socket());
  for (const char* device : {"nic0", "fpga0", "host0"}) {
    EXPECT_TRUE(Eventually([&] {
      return RunCli({"logs", device}).out.find("waiting for another gpud") !=
             std::string::npos;
    })) << device;
  }
  EXPECT_EQ(RunCli({"down"}).code, 0);
  const CliResult result = up.Wait();
  EXPECT_THAT(result.err, HasSubstr("gpud (exit code 1)"));
  for (const char* device : {"nic0 (", "fpga0 (", "host0 ("}) {
    EXPECT_EQ(result.err.find(device), std::string::npos) << result.err;
  }
}

TEST_F(RestartTest, AGpudThatIsKilledToMakeWayTakesNoDeviceAlong) {
  Up(Topology());
  const pid_t nic = Process("nic0")["pid"];
  for (int restart = 0; restart < 3; ++restart) {
    const pid_t before = Process("gpud")["pid"];
    const CliResult killed = RunCli({"restart", "gpud", "--kill"});
    ASSERT_EQ(killed.code, 0) << killed.err;
    EXPECT_NE(Process("gpud")["pid"], before);
    EXPECT_TRUE(Eventually(Serves)) << Process("nic0");
    EXPECT_EQ(Process("nic0")["pid"], nic);
  }
  EXPECT_THAT(RunCli({"logs", "nic0"}).out,
              HasSubstr("has begun anew as zeros"));
}

TEST_F(RestartTest, CtrlCEndsATestbedInTheMidstOfIt) {
  CliRun up({"up", "-f", Topology()});
  ASSERT_TRUE(Eventually([&] {
    return up.err().find("end it with Ctrl-C") != std::string::npos;
  })) << up.err();
  // As above, so that the restart cannot end before Ctrl-C.
  kill(Process("gpud")["pid"].get<pid_t>(), SIGSTOP);
  CliRun restart({"restart", "nic0", "--timeout", "600"});
  ASSERT_TRUE(Eventually(
      [&] { return up.err().find("as asked") != std::string::npos; }));
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) kill(up.pid(), signal);
  const CliResult result = up.Wait();
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(Marked(), IsEmpty());
  EXPECT_EQ(restart.Wait().code, 1);
}

TEST_F(RestartTest, ADeviceThatIsKilledComesBackByItsPolicy) {
  Up(Topology("", ", restart: on_failure"));
  const pid_t before = Process("nic0")["pid"];
  kill(before, SIGKILL);
  ASSERT_TRUE(Eventually([&] {
    const Json process = Process("nic0");
    return process["state"] == "ready" && process["pid"] != before;
  }));
  ExpectService();
  const Json process = Process("nic0");
  EXPECT_EQ(process["restart"], "on_failure");
  EXPECT_EQ(process["restarts"], 1);
  EXPECT_EQ(process["last_exit"]["signal"], SIGKILL);
  EXPECT_THAT(RunCli({"ps"}).out, HasSubstr("1 (last: SIGKILL)"));
  EXPECT_THAT(RunCli({"status"}).out, HasSubstr("nic0 1 time (last: SIGKILL)"));
  EXPECT_EQ(RunCli({"down"}).code, 0);
}

TEST_F(RestartTest, AGpudThatIsKilledComesBackByItsPolicyAndServes) {
  Up(Topology(", restart: on_failure"));
  const pid_t before = Process("gpud")["pid"];
  const pid_t nic = Process("nic0")["pid"];
  kill(before, SIGKILL);
  ASSERT_TRUE(Eventually([&] {
    const Json gpud = Process("gpud");
    return gpud["state"] == "ready" && gpud["pid"] != before;
  }));
  EXPECT_TRUE(Eventually(
      [&] { return Process("nic0")["state"] == "ready" && Serves(); }));
  EXPECT_EQ(Process("nic0")["pid"], nic) << "it has waited for this one";
  EXPECT_EQ(RunCli({"status"}).code, 0);
  EXPECT_EQ(Process("gpud")["last_exit"]["signal"], SIGKILL);
}

TEST_F(RestartTest, DownEndsATestbedWhoseGpudComesBack) {
  Up(Topology(", restart: on_failure", ", restart: on_failure"));
  kill(Process("gpud")["pid"].get<pid_t>(), SIGKILL);
  ASSERT_TRUE(Eventually([&] {
    return RunCli({"logs", "supervisor"}).out.find("gpud is started again") !=
           std::string::npos;
  }));
  EXPECT_EQ(RunCli({"down"}).code, 0);
  EXPECT_THAT(Marked(), IsEmpty());
}

TEST_F(RestartTest, CtrlCOnTheCommandEndsTheWaitOnly) {
  Up(Topology());
  const pid_t nic = Process("nic0")["pid"];
  const pid_t gpud = Process("gpud")["pid"];
  // As above, so that the restart cannot end before Ctrl-C.
  kill(gpud, SIGSTOP);
  CliRun restart({"restart", "nic0", "--timeout", "600"});
  ASSERT_TRUE(Eventually([&] {
    return RunCli({"logs", "supervisor"}).out.find("as asked") !=
           std::string::npos;
  }));
  kill(restart.pid(), SIGINT);
  const CliResult result = restart.Wait();
  EXPECT_EQ(result.code, 130) << result.err;
  kill(gpud, SIGCONT);
  EXPECT_TRUE(Eventually([&] {
    const Json process = Process("nic0");
    return process["state"] == "ready" && process["pid"] != nic;
  }));
  ExpectService();
}

}  // namespace
}  // namespace carillon::cli
