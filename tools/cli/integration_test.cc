// The carillon program with the real gpud and the real devices, as a user runs
// it: what comes up, what it shows, and that nothing stays.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/subprocess.h"
#include "base/unique_fd.h"
#include "devices/sdk/edge.h"
#include "tools/cli/cli_runner.h"
#include "tools/testbed/supervisor/directory.h"
#include "tools/testbed/supervisor/marks.h"
#include "tools/testbed/supervisor/test_util.h"
#include "tools/testbed/topology/keys.h"

namespace carillon::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kTopology[] = R"(
name: lab
gpu: {backend: cpu, memory: 256MiB, trace: true}
devices:
  - {name: nic0, kind: nic, udp_port: 0, tcp_port: 0, store_bytes: 1MiB, table_entries: 1024}
  - {name: fpga0, kind: fpga, size: 64x64, fps: 50, check: true}
  - {name: host0, kind: cpu_host, kernel: matmul, size: 64, gap_us: 5000}
)";
constexpr char kEmptyTopology[] =
    "name: empty\ngpu: {backend: cpu, memory: 16MiB}\n";

class CliIntegration : public ::testing::Test {
 protected:
  void SetUp() override { file_ = Write("lab.yaml", kTopology); }
  void TearDown() override {
    RunCli({"down", "--all"});
    EXPECT_THAT(Marked("lab"), IsEmpty());
    EXPECT_THAT(Marked("empty"), IsEmpty());
  }

  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = files_.path() + "/" + name;
    std::ofstream(path) << text;
    return path;
  }
  static std::vector<testbed::ProcessIdentity> Marked(const std::string& name) {
    return testbed::MarkedProcesses(testbed::PathsOf(name));
  }
  static Json Processes(const std::string& name) {
    const Json json = RunCli({"ps", "--name", name, "-o", "json"}).json();
    return json.is_object() ? json["testbeds"][0]["processes"] : Json();
  }
  static pid_t PidOf(const std::string& testbed, const std::string& process) {
    for (const Json& entry : Processes(testbed)) {
      if (entry["name"] == process) return entry["pid"];
    }
    ADD_FAILURE() << "no process " << process;
    return -1;
  }
  void Up(const std::vector<std::string>& more = {}) {
    std::vector<std::string> line = {"up", "-d", "-f", file_};
    line.insert(line.end(), more.begin(), more.end());
    const CliResult up = RunCli(line);
    ASSERT_EQ(up.code, 0) << up.err;
  }

  // The second folder keeps the tests' files out of the runtime directory.
  testbed::TestFolder files_;
  testbed::TestFolder folder_;
  std::string file_;
};

TEST_F(CliIntegration, UpNarratesAndDownLeavesNothing) {
  const CliResult up = RunCli({"up", "-d", "-f", file_});
  ASSERT_EQ(up.code, 0) << up.err;
  EXPECT_EQ(up.out, "");
  EXPECT_THAT(up.err, AllOf(HasSubstr("gpud"), HasSubstr("cpu back-end"),
                            HasSubstr("nic0"), HasSubstr("fpga0"),
                            HasSubstr("host0"), HasSubstr("up in ")));
  EXPECT_THAT(Marked("lab"), SizeIs(4));
  const Json processes = Processes("lab");
  ASSERT_EQ(processes.size(), 4u);
  for (const Json& process : processes) {
    EXPECT_EQ(process["state"], "ready") << process;
  }

  const CliResult down = RunCli({"down"});
  EXPECT_EQ(down.code, 0);
  EXPECT_EQ(down.err, "testbed 'lab' is down\n");
  EXPECT_THAT(Marked("lab"), IsEmpty());
  EXPECT_TRUE(fs::is_empty(folder_.path()));
  const CliResult again = RunCli({"down"});
  EXPECT_EQ(again.code, 0);
  EXPECT_EQ(again.err, "no testbed is up\n");
}

// The supervisor in the background reads it a second time.
TEST_F(CliIntegration, ATopologyComesFromStdin) {
  for (const bool pipe : {false, true}) {
    auto ends = *MakePipe();
    UniqueFd in(open(Write("empty.yaml", kEmptyTopology).c_str(),
                     O_RDONLY | O_CLOEXEC));
    if (pipe) {
      const std::string text = kEmptyTopology;
      ASSERT_EQ(write(ends.writer.get(), text.data(), text.size()),
                static_cast<ssize_t>(text.size()));
      in = std::move(ends.reader);
    }
    ends.writer.reset();
    const CliResult up = CliRun({"up", "-d", "-f", "-"}, in.get()).Wait();
    ASSERT_EQ(up.code, 0) << up.err;
    EXPECT_EQ(Processes("empty").size(), 1u);
    EXPECT_EQ(RunCli({"down"}).code, 0);
  }
}

TEST_F(CliIntegration, EveryCommandAnswersInJson) {
  const CliResult up = RunCli({"up", "-d", "-f", file_, "-o", "json"});
  ASSERT_EQ(up.code, 0) << up.err;
  EXPECT_EQ(up.json()["testbed"], "lab");
  EXPECT_EQ(up.json()["processes"].size(), 4u);
  for (const std::vector<std::string>& line :
       std::vector<std::vector<std::string>>{{"ps"},
                                             {"status"},
                                             {"devices"},
                                             {"devices", "nic0"},
                                             {"ekt"},
                                             {"rings"},
                                             {"hosts"},
                                             {"links"},
                                             {"queues"},
                                             {"kernels"},
                                             {"kernels", "null_event"},
                                             {"policy"},
                                             {"policy", "priority"},
                                             {"trace"},
                                             {"trace", "on"},
                                             {"trace", "reset"},
                                             {"logs"},
                                             {"logs", "nic0", "-n", "1"},
                                             {"validate", file_},
                                             {"cleanup", "--dry-run"},
                                             {"doctor"},
                                             {"bench", "--list"},
                                             {"down"}}) {
    std::vector<std::string> arguments = line;
    arguments.insert(arguments.end(), {"-o", "json"});
    const CliResult result = RunCli(arguments);
    // The doctor's verdict depends on the machine.
    if (line[0] != "doctor") {
      EXPECT_EQ(result.code, 0) << line[0] << result.err;
    }
    EXPECT_FALSE(result.json().is_discarded()) << line[0] << result.out;
  }
}

TEST_F(CliIntegration, ShowsWhatTheDevicesDo) {
  Up();
  // Once frames have gone through, the ledger has changed.
  ASSERT_TRUE(Eventually([&] {
    const Json status = RunCli({"status", "-o", "json"}).json();
    return status["events"]["done"] > 3;
  }));
  const Json status = RunCli({"status", "-o", "json"}).json();
  EXPECT_EQ(status["devices"], 3);
  EXPECT_EQ(status["backend"], "cpu");
  EXPECT_EQ(status["events"]["failed"], 0);
  EXPECT_EQ(status["events"]["rung"],
            status["events"]["done"].get<uint64_t>() +
                status["events"]["in_flight"].get<uint64_t>());
  EXPECT_GT(status["stages"]["rung_to_finished"]["count"], 0);
  const CliResult text = RunCli({"status"});
  EXPECT_THAT(text.out, AllOf(HasSubstr("rung = "), HasSubstr("fpga0 dct8x8"),
                              HasSubstr("dispatched_to_finished")));
  EXPECT_THAT(RunCli({"ekt"}).out, HasSubstr("memc_get"));
  EXPECT_THAT(RunCli({"rings"}).out, HasSubstr("DOORBELL"));
  // The documents contain what the tables show.
  const Json ekt = RunCli({"ekt", "-o", "json"}).json();
  ASSERT_FALSE(ekt["entries"].empty());
  for (const Json& entry : ekt["entries"]) {
    const Json& counts = entry["counts"];
    ASSERT_TRUE(counts.contains("in_flight")) << entry;
    const auto count = [&](const char* name) {
      return counts[name].get<uint64_t>();
    };
    EXPECT_EQ(count("rung"), count("done") + count("failed") +
                                 count("aborted") + count("in_flight"))
        << entry;
  }
  const Json rings = RunCli({"rings", "-o", "json"}).json();
  ASSERT_FALSE(rings["rings"].empty());
  for (const Json& ring : rings["rings"]) {
    ASSERT_TRUE(ring["free"].is_number_unsigned()) << ring;
    EXPECT_LE(ring["free"], ring["entries"]);
  }
  EXPECT_THAT(RunCli({"devices", "fpga0"}).out, HasSubstr("frames_done"));
  EXPECT_THAT(RunCli({"kernels"}).out, HasSubstr("dct8x8"));
  EXPECT_THAT(RunCli({"logs", "fpga0"}).out, HasSubstr("streaming"));
  const CliResult typo = RunCli({"kernels", "memc_gte"});
  EXPECT_EQ(typo.code, 3);
  EXPECT_EQ(typo.err,
            "carillon: there is no kernel 'memc_gte'; did you mean "
            "'memc_get'?\n");
  // All of it is refused.
  for (const auto& [name, weight] :
       {std::pair("priorty", "77"), std::pair("priority", "101")}) {
    const CliResult policy =
        RunCli({"policy", name, "--device", "fpga0", "--weight", weight});
    EXPECT_NE(policy.code, 0) << policy.err;
  }
  EXPECT_EQ(
      RunCli({"devices", "fpga0", "-o", "json"}).json()["share"]["weight"], 1);
  EXPECT_EQ(RunCli({"policy", "-o", "json"}).json()["policy"], "first_come");
  EXPECT_THAT(RunCli({"policy", "--device", "nix", "--weight", "3"}).err,
              HasSubstr("no device of this name is attached"));
}

TEST_F(CliIntegration, TwoTestbedsAreUpAtOnce) {
  Up();
  Up({"--name", "lab2"});
  EXPECT_EQ(RunCli({"status"}).code, 2);
  EXPECT_EQ(RunCli({"status", "--name", "lab"}).code, 0);
  EXPECT_EQ(RunCli({"status", "--name", "lab2"}).code, 0);
  EXPECT_EQ(RunCli({"down", "--name", "lab"}).code, 0);
  // The other testbed is not affected.
  const CliResult status = RunCli({"status", "-o", "json"});
  EXPECT_EQ(status.code, 0);
  EXPECT_EQ(status.json()["testbed"], "lab2");
  EXPECT_EQ(status.json()["devices"], 3);
  EXPECT_EQ(RunCli({"down", "--all"}).code, 0);
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(CliIntegration, ASecondOfTheSameNameIsRefusedAndHarmsNobody) {
  Up();
  const CliResult second = RunCli({"up", "-d", "-f", file_});
  EXPECT_EQ(second.code, 1);
  EXPECT_THAT(second.err, HasSubstr("testbed 'lab' is already up (pid "));
  EXPECT_THAT(second.err, HasSubstr("hint: carillon down --name lab"));
  EXPECT_EQ(RunCli({"status"}).json().is_discarded(), true);
  EXPECT_EQ(RunCli({"status"}).code, 0);
  EXPECT_THAT(Marked("lab"), SizeIs(4));
}

TEST_F(CliIntegration, InTheForegroundCtrlCEndsItInOrder) {
  CliRun up({"up", "-f", file_});
  ASSERT_TRUE(Eventually([&] {
    return up.err().find("end it with Ctrl-C") != std::string::npos;
  })) << up.err();
  kill(up.pid(), SIGINT);
  const CliResult result = up.Wait();
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("down in "));
  EXPECT_LT(result.err.rfind("nic0 "), result.err.rfind("gpud "));
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(CliIntegration, ADeviceThatDiesIsReportedAndTheRestGoesOn) {
  Up();
  kill(PidOf("lab", "host0"), SIGKILL);
  ASSERT_TRUE(Eventually([&] {
    return RunCli({"status"}).out.find("host0 (SIGKILL)") != std::string::npos;
  }));
  for (const Json& process : Processes("lab")) {
    EXPECT_EQ(process["state"], process["name"] == "host0" ? "ended" : "ready");
  }
  EXPECT_THAT(RunCli({"logs", "supervisor"}).out,
              HasSubstr("host0 has ended (SIGKILL)"));
  EXPECT_EQ(RunCli({"down"}).code, 0);
}

TEST_F(CliIntegration, AGpudThatDiesLeavesCommandsThatSaySo) {
  Up();
  kill(PidOf("lab", "gpud"), SIGKILL);
  ASSERT_TRUE(Eventually([&] { return RunCli({"status"}).code == 4; }));
  const CliResult status = RunCli({"status", "-o", "json"});
  EXPECT_EQ(status.code, 4);
  EXPECT_EQ(status.json()["error"]["code"], "unavailable");
  EXPECT_EQ(RunCli({"down"}).code, 0);
  EXPECT_THAT(Marked("lab"), IsEmpty());
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(CliIntegration, NothingOutlivesAKilledSupervisor) {
  Up();
  const auto supervisor = testbed::SupervisorOf(testbed::PathsOf("lab"));
  ASSERT_TRUE(supervisor);
  kill(supervisor->pid, SIGKILL);
  EXPECT_TRUE(Eventually([&] { return Marked("lab").empty(); }));
  EXPECT_THAT(RunCli({"ps"}).out, HasSubstr("lab (dead)"));
  const CliResult dry = RunCli({"cleanup", "--dry-run"});
  EXPECT_THAT(dry.err, HasSubstr("would remove 'lab'"));
  EXPECT_FALSE(fs::is_empty(folder_.path()));
  EXPECT_EQ(RunCli({"cleanup"}).code, 0);
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(CliIntegration, ATestbedComesUpOverTheRemainsOfADeadOne) {
  Up();
  kill(testbed::SupervisorOf(testbed::PathsOf("lab"))->pid, SIGKILL);
  EXPECT_TRUE(Eventually([&] { return Marked("lab").empty(); }));
  Up();
  EXPECT_EQ(RunCli({"status"}).code, 0);
}

TEST_F(CliIntegration, EveryKeyIsAFlagOfItsProgram) {
  const auto check = [&](std::string_view program,
                         std::span<const Option> keys) {
    const std::string path(program);
    const std::string log = files_.path() + "/help.log";
    std::remove(log.c_str());
    auto child = testbed::ChildProcess::Spawn(
        {.argv = {path, "--help"}, .log_path = log});
    ASSERT_TRUE(child.ok()) << child.status();
    EXPECT_TRUE(testbed::WaitForExit(*child).ok());
    for (const Option& key : keys) {
      EXPECT_THAT(testbed::FileText(log),
                  HasSubstr(fmt::format("{} ", key.flag)))
          << program;
    }
  };
  check("gpu_daemon/gpud", testbed::GpuKeys());
  check("gpu_daemon/gpud", testbed::GpuKeys(testbed::kModelSection));
  for (const testbed::DeviceKind& kind : testbed::DeviceKinds()) {
    if (!kind.program.empty()) check(kind.program, kind.keys);
  }
}

// The test is that the CLI carries a device's own words to the user.
TEST_F(CliIntegration, AFailedBringUpSaysWhyAndLeavesNoProcess) {
  const UniqueFd taken(socket(AF_INET, SOCK_DGRAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(taken.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(
      getsockname(taken.get(), reinterpret_cast<sockaddr*>(&address), &size),
      0);
  const int port = ntohs(address.sin_port);
  file_ = Write("taken.yaml",
                fmt::format("name: lab\ngpu: {{backend: cpu}}\ndevices:\n"
                            "  - {{name: nic0, kind: nic, udp_port: {}, "
                            "tcp_port: 0}}\n",
                            port));
  for (const bool detached : {true, false}) {
    std::vector<std::string> line = {"up", "-f", file_, "-o", "json"};
    if (detached) line.push_back("-d");
    const CliResult up = RunCli(line);
    EXPECT_EQ(up.code, 1) << up.err;
    EXPECT_THAT(up.err, HasSubstr("nic0 ended during bring-up (exit code 1)"));
    EXPECT_THAT(up.err, HasSubstr(fmt::format("{}", port)));
    EXPECT_EQ(up.json()["error"]["code"], "failed");
    EXPECT_THAT(Marked("lab"), IsEmpty());
    EXPECT_THAT(RunCli({"ps"}).out, HasSubstr("lab (failed)"));
    EXPECT_THAT(RunCli({"logs", "--name", "lab", "nic0"}).out,
                HasSubstr(fmt::format("{}", port)));
  }
}

TEST_F(CliIntegration, ASupervisorThatDoesNotAnswerHoldsNobody) {
  file_ = Write("never.yaml",
                "name: lab\ngpu: {backend: cpu, memory: 16MiB}\ndevices:\n"
                "  - {name: own, kind: exec, command: [sleep, '1000']}\n");
  CliRun up({"up", "-d", "-f", file_, "--timeout", "600"});
  ASSERT_TRUE(Eventually([] { return Marked("lab").size() == 2; })) << up.err();
  kill(testbed::SupervisorOf(testbed::PathsOf("lab"))->pid, SIGSTOP);
  ASSERT_TRUE(Eventually([&] {
    kill(up.pid(), SIGINT);
    return up.err().find("killing the supervisor") != std::string::npos;
  })) << up.err();
  EXPECT_NE(up.Wait().code, 0);
  EXPECT_TRUE(Eventually([] { return Marked("lab").empty(); }));
}

TEST_F(CliIntegration, DownRemovesTheOnlyTestbedDeadOrAlive) {
  Up();
  kill(testbed::SupervisorOf(testbed::PathsOf("lab"))->pid, SIGKILL);
  ASSERT_TRUE(Eventually(
      [] { return !testbed::SupervisorOf(testbed::PathsOf("lab")); }));
  const CliResult down = RunCli({"down"});
  EXPECT_EQ(down.code, 0) << down.err;
  EXPECT_THAT(down.err, HasSubstr("testbed 'lab' was dead"));
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(CliIntegration, AnOwnDeviceIsStartedByItsCommand) {
  file_ = Write("own.yaml",
                "name: lab\ngpu: {backend: cpu}\ndevices:\n"
                "  - {name: own, kind: exec, wait_ready: false, "
                "command: [sh, -c, 'echo $CARILLON_TESTBED_DIR "
                "$CARILLON_DEVICE_NAME; exec sleep 1000']}\n");
  Up();
  ASSERT_TRUE(Eventually([&] {
    return RunCli({"logs", "own"}).out ==
           testbed::PathsOf("lab").directory() + " own\n";
  }));
  EXPECT_EQ(RunCli({"down"}).code, 0);
}

TEST_F(CliIntegration, AnOwnDevicesDaemonEndsWithItsTestbed) {
  file_ = Write("daemon.yaml",
                "name: lab\ngpu: {backend: cpu, memory: 16MiB}\ndevices:\n"
                "  - {name: own, kind: exec, wait_ready: false, "
                "command: [sh, -c, 'setsid sleep 1000 & exec sleep 2000']}\n");
  const auto daemon_is_up = [] {
    const auto marked = Marked("lab");
    return std::any_of(marked.begin(), marked.end(), [](const auto& process) {
      return getsid(process.pid) == process.pid;
    });
  };
  Up();
  ASSERT_TRUE(Eventually(daemon_is_up));
  EXPECT_EQ(RunCli({"down"}).code, 0);
  EXPECT_THAT(Marked("lab"), IsEmpty());

  // A dead supervisor's daemon is killed when the testbed comes up again.
  Up();
  ASSERT_TRUE(Eventually(daemon_is_up));
  const std::vector<testbed::ProcessIdentity> before = Marked("lab");
  kill(testbed::SupervisorOf(testbed::PathsOf("lab"))->pid, SIGKILL);
  ASSERT_TRUE(Eventually([] { return Marked("lab").size() == 1; }));
  Up();
  for (const testbed::ProcessIdentity& process : before)
    EXPECT_FALSE(testbed::IsAlive(process));
}

TEST_F(CliIntegration, ABadTopologyIsAUsageError) {
  file_ = Write("bad.yaml", "devices: [{name: nic0, kind: nix}]\n");
  const CliResult up = RunCli({"up", "-d", "-f", file_});
  EXPECT_EQ(up.code, 2);
  EXPECT_EQ(up.err, "carillon: " + file_ +
                        ":1:30: kind: 'nix' is not known; did you mean 'nic'? "
                        "(allowed: nic, fpga, cpu_host, router, exec)\n");
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(CliIntegration, PolicySaysWhichEventKernelsItDoesNotReach) {
  file_ = Write("empty.yaml", kEmptyTopology);
  Up();
  const CliResult reaches_all = RunCli({"policy", "priority"});
  EXPECT_EQ(reaches_all.err, "policy priority instead of first_come\n");
  auto device = edge::Device::Attach(
      {.testbed_directory = testbed::PathsOf("empty").directory(),
       .name = "urgent",
       .kind = "test"});
  ASSERT_TRUE(device.ok()) << device.status().message();
  const auto in = *(*device)->AllocateBuffer(edge::Place::kInput, 64);
  const auto out = *(*device)->AllocateBuffer(edge::Place::kOutput, 64);
  for (const auto& [path, priority] :
       {std::pair("edge", 7), std::pair("persistent", 2),
        std::pair("pagoda", 5), std::pair("pagoda", 0)}) {
    const auto queue = edge::edgeRegisterEvent(
        **device, {.kernel = "echo",
                   .priority = static_cast<uint32_t>(priority),
                   .launch_path = path,
                   .parameters = {edge::Fixed("in", in, {.length = 64}),
                                  edge::Fixed("out", out, {.length = 64})}});
    ASSERT_TRUE(queue.ok()) << queue.status().message();
  }
  EXPECT_EQ(RunCli({"policy", "exclusive"}).err,
            "policy exclusive instead of priority\n"
            "no policy decides about 3 event kernels on pagoda, persistent\n");
  EXPECT_THAT(
      RunCli({"policy", "--device", "urgent", "--max-priority", "3"}).err,
      HasSubstr("2 event kernels that it has registered at a higher one: of "
                "priority 3 from now on\n"));
}

TEST_F(CliIntegration, WatchStreamsChanges) {
  file_ = Write("empty.yaml", kEmptyTopology);
  Up();
  CliRun watch({"watch", "-o", "json"});
  // The stream must carry this change, however late it starts.
  ASSERT_TRUE(Eventually([&] {
    RunCli({"policy", "priority"});
    const std::string text =
        testbed::FileText(fmt::format("/proc/{}/fd/1", watch.pid()));
    return text.find("\"policy_changed\"") != std::string::npos;
  }));
  kill(watch.pid(), SIGINT);
  const CliResult result = watch.Wait();
  EXPECT_EQ(result.code, 0) << result.err;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_FALSE(Json::parse(line, nullptr, false).is_discarded()) << line;
  }
}

TEST_F(CliIntegration, WatchSaysWhenGpudIsStoppedAndWhenItGoesOn) {
  file_ = Write("empty.yaml", kEmptyTopology);
  Up();
  const pid_t gpud = PidOf("empty", "gpud");
  CliRun watch({"watch", "-o", "json"});
  const auto said = [&](const std::string& words) {
    return Eventually([&] {
      return watch.err().find(fmt::format("gpud (pid {}) {}", gpud, words)) !=
             std::string::npos;
    });
  };
  ASSERT_TRUE(Eventually([&] {
    RunCli({"policy", "priority"});
    return testbed::FileText(fmt::format("/proc/{}/fd/1", watch.pid()))
               .find("\"policy_changed\"") != std::string::npos;
  }));
  ASSERT_EQ(kill(gpud, SIGSTOP), 0);
  EXPECT_TRUE(said("is stopped: nothing comes")) << watch.err();
  ASSERT_EQ(kill(gpud, SIGCONT), 0);
  EXPECT_TRUE(said("goes on")) << watch.err();
  kill(watch.pid(), SIGINT);
  EXPECT_EQ(watch.Wait().code, 0) << watch.err();
}

TEST_F(CliIntegration, WatchGoesOnWithTheNextGpud) {
  file_ = Write("again.yaml",
                "name: lab\ngpu: {backend: cpu, memory: 16MiB, "
                "restart: on_failure}\n");
  Up();
  const std::string directory = RunCli({"ps", "--directory"}).out;
  EXPECT_EQ(directory, testbed::PathsOf("lab").directory() + "\n");
  CliRun watch({"watch", "-o", "json"});
  const auto deaths = [&] {
    const std::string err = watch.err();
    int found = 0;
    for (size_t at = 0; (at = err.find("another one", at)) != err.npos; ++at) {
      ++found;
    }
    return found;
  };
  for (int death = 1; death <= 2; ++death) {
    // A watch that has not begun yet sees no death, so there is another one.
    ASSERT_TRUE(Eventually([&] {
      const Json gpud = Processes("lab").at(0);
      if (gpud["state"] == "ready") kill(gpud["pid"], SIGKILL);
      return deaths() >= death;
    })) << watch.err();
  }
  kill(watch.pid(), SIGINT);
  const CliResult result = watch.Wait();
  EXPECT_EQ(result.code, 0) << result.err;
}

TEST_F(CliIntegration, LogsOfAllProcessesAreOneInOneFormat) {
  Up();
  ASSERT_EQ(RunCli({"restart", "nic0"}).code, 0);
  const CliResult all = RunCli({"logs", "--since", "60min", "-o", "json"});
  ASSERT_EQ(all.code, 0) << all.err;
  const Json lines = all.json()["lines"];
  std::set<std::string> processes;
  size_t first_of_nic = lines.size();
  size_t last_of_gpud = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    const Json& line = lines[i];
    ASSERT_TRUE(line["time_ns"].is_number()) << line;
    EXPECT_EQ(line["level"], "info") << line;
    processes.insert(line["process"]);
    if (line["process"] == "nic0") first_of_nic = std::min(first_of_nic, i);
    if (line["process"] == "gpud") last_of_gpud = i;
  }
  // gpud has begun before nic0, and told of its restart: by time, not by name.
  EXPECT_EQ(lines[0]["process"], "supervisor");
  EXPECT_LT(first_of_nic, last_of_gpud);
  EXPECT_EQ(processes, (std::set<std::string>{"fpga0", "gpud", "host0", "nic0",
                                              "supervisor"}));
  // From the time of a line on, that line and those after it.
  const std::string first = lines[0]["line"];
  const std::string time = first.substr(0, first.find(' ', 11));
  EXPECT_EQ(
      RunCli({"logs", "--since", time, "-o", "json"}).json()["lines"].size(),
      lines.size());
  EXPECT_EQ(RunCli({"logs", "--since", "yesterday"}).code, 2);
  EXPECT_EQ(RunCli({"logs", "-n", "x"}).code, 2);
  for (const char* const option : {"--since", "--lines"}) {
    const CliResult empty = RunCli({"logs", option, ""});
    EXPECT_EQ(empty.code, 2) << option;
    EXPECT_THAT(empty.err, HasSubstr(std::string(option)));
    EXPECT_THAT(empty.err, HasSubstr("must not be empty"));
  }
}

TEST_F(CliIntegration, WhatADeviceWritesToItsLogSteersNoTerminal) {
  file_ = Write("own.yaml",
                "name: lab\ngpu: {backend: cpu, memory: 16MiB}\ndevices:\n"
                "  - {name: own, kind: exec, wait_ready: false, "
                "command: [sh, -c, 'printf \"\\\\033[2Jgone\\\\n\"; "
                "exec sleep 1000']}\n");
  Up();
  ASSERT_TRUE(Eventually([&] {
    return RunCli({"logs", "own"}).out == "\\x1b[2Jgone\n";
  })) << RunCli({"logs", "own"}).out;
  const Json line = RunCli({"logs", "own", "-o", "json"}).json()["lines"][0];
  EXPECT_EQ(line["line"], "\x1b[2Jgone");
  EXPECT_TRUE(line["time_ns"].is_null());
  EXPECT_TRUE(line["level"].is_null());
}

TEST_F(CliIntegration, ATopologysControlCharactersSteerNoTerminal) {
  file_ = Write("lab.yaml",
                "name: lab\ngpu: {backend: cpu, memory: 16MiB}\ndevices:\n"
                "  - {name: fpga0, kind: fpga, source: \"\\e[2Jgone.pgm\"}\n");
  const CliResult up = RunCli({"up", "-d", "-f", file_});
  EXPECT_EQ(up.code, 2);
  EXPECT_THAT(up.err, HasSubstr("\\x1b[2Jgone.pgm"));
  EXPECT_EQ(up.err.find('\x1b'), up.err.npos) << up.err;
}

TEST_F(CliIntegration, CompletesWhatTheTestbedHas) {
  Up({"--faults"});
  ASSERT_EQ(RunCli({"fault", "inject", "nic0", "delay", "--for", "1ms", "--at",
                    "device.ring", "--nth", "1000000000", "--as", "slow"})
                .code,
            0);
  const auto completed = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"complete", "--"});
    const CliResult result = RunCli(words);
    EXPECT_EQ(result.code, 0);
    EXPECT_EQ(result.err, "");
    std::set<std::string> found;
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) {
      found.insert(line.substr(0, line.find('\t')));
    }
    return found;
  };
  using Found = std::set<std::string>;
  EXPECT_EQ(completed({"logs", ""}),
            (Found{"fpga0", "gpud", "host0", "nic0", "supervisor"}));
  EXPECT_EQ(completed({"restart", ""}),
            (Found{"gpud", "nic0", "fpga0", "host0"}));
  EXPECT_EQ(completed({"restart", "nic0", "f"}), Found{"fpga0"});
  EXPECT_EQ(completed({"devices", ""}), (Found{"nic0", "fpga0", "host0"}));
  EXPECT_EQ(completed({"status", "--name", ""}), Found{"lab"});
  EXPECT_EQ(completed({"fault", "clear", ""}), Found{"slow"});
  EXPECT_EQ(completed({"fault", "inject", "n"}), (Found{"nic0", ":files"}));
  EXPECT_EQ(completed({"kernels", "null_"}), Found{"null_event"});
  EXPECT_THAT(completed({"policy", ""}), ::testing::Contains("priority"));
  EXPECT_EQ(completed({"logs", "--name", "other", ""}), Found{});
  // A gpud that does not answer costs no more than a moment.
  ASSERT_EQ(kill(PidOf("lab", "gpud"), SIGSTOP), 0);
  EXPECT_EQ(completed({"kernels", "null_"}), Found{});
  EXPECT_EQ(completed({"logs", "n"}), Found{"nic0"});
}

TEST_F(CliIntegration, LogsAreFollowedToTheTestbedsEnd) {
  Up();
  CliRun logs({"logs", "-f", "fpga0"});
  ASSERT_EQ(RunCli({"down"}).code, 0);
  const CliResult result = logs.Wait();
  EXPECT_EQ(result.code, 0) << result.err;
}

}  // namespace
}  // namespace carillon::cli
