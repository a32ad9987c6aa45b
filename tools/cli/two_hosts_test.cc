// One topology on two hosts, each brought up by one command: here both are this
// machine, and each has a runtime directory of its own. By each engine of a link.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/json.h"
#include "base/temp_directory.h"
#include "base/testing/eventually.h"
#include "base/testing/tcp_relay.h"
#include "base/testing/test_ca.h"
#include "base/tls_files.h"
#include "base/unique_fd.h"
#include "tools/cli/cli_runner.h"
#include "tools/testbed/supervisor/test_util.h"

namespace carillon::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// A port that was free a moment ago.
uint16_t FreePort() {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{.sin_family = AF_INET,
                      .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(bind(fd.get(), generic, size), 0);
  EXPECT_EQ(getsockname(fd.get(), generic, &size), 0);
  return ntohs(address.sin_port);
}

// One of the two, with its own copy of the topology and its own certificate.
class Host {
 public:
  Host(const std::string& name, const TestCa& ca, const std::string& topology)
      : name_(name) {
    Use(ca.Issue({.name = name,
                  .alternative_names = "URI:carillon:role:link,DNS:" + name}));
    std::ofstream(file()) << topology;
  }
  ~Host() {
    if (up_) Call({"down", "--name", "lab"});
  }

  void Use(const TlsFiles& files) const {
    const auto copy = [&](const std::string& from, const char* to) {
      fs::copy_file(from, folder_.path() + "/" + to,
                    fs::copy_options::overwrite_existing);
    };
    copy(files.certificate, "host.pem");
    copy(files.key, "host.key");
    copy(files.ca, "ca.pem");
  }

  const std::string& folder() const { return folder_.path(); }
  std::string file() const { return folder() + "/lab.yaml"; }
  std::string testbed() const { return folder() + "/run/lab"; }

  CliResult Call(std::vector<std::string> words) const {
    setenv("CARILLON_RUNTIME_DIR", (folder() + "/run").c_str(), 1);
    return RunCli(words);
  }
  CliResult Up() {
    CliResult result =
        Call({"up", "-d", "--host", name_, "-f", file(), "--timeout", "60"});
    up_ |= result.code == 0;
    return result;
  }
  CliResult Down() {
    up_ = false;
    return Call({"down", "--name", "lab"});
  }
  Json Document(std::vector<std::string> words) const {
    words.insert(words.end(), {"-o", "json"});
    const CliResult result = Call(words);
    EXPECT_EQ(result.code, 0) << result.err;
    return Json::parse(result.out, nullptr, false);
  }
  // 0: there is none.
  pid_t PidOf(const std::string& process) const {
    const Json state = Json::parse(testbed::FileText(testbed() + "/state.json"),
                                   nullptr, false);
    if (state.is_discarded()) return 0;
    if (process == "supervisor") return state["supervisor"]["pid"];
    for (const Json& one : state["processes"]) {
      if (one["name"] == process && one["state"] == "ready") return one["pid"];
    }
    return 0;
  }
  uint64_t CounterOf(const std::string& device, const std::string& name) const {
    const CliResult result = Call({"devices", device, "-o", "json"});
    const Json json = Json::parse(result.out, nullptr, false);
    if (result.code != 0 || !json.contains("counters")) return 0;
    for (const Json& counter : json["counters"]) {
      // 64-bit numbers are text in protobuf's JSON.
      if (counter["name"] == name) {
        return std::stoull(counter["value"].is_string()
                               ? counter["value"].get<std::string>()
                               : counter["value"].dump());
      }
    }
    return 0;
  }

  // Kills it, and waits until another one has taken its place.
  ::testing::AssertionResult KillAndAwaitNext(
      const std::string& process) const {
    const pid_t killed = PidOf(process);
    if (killed <= 0) {
      return ::testing::AssertionFailure() << process << " is not ready";
    }
    kill(killed, SIGKILL);
    return Eventually([&] {
      const pid_t now = PidOf(process);
      return now > 0 && now != killed;
    })
               ? ::testing::AssertionSuccess()
               : ::testing::AssertionFailure() << "no other " << process;
  }

 private:
  const std::string name_;
  const TempDirectory folder_ = *TempDirectory::Make();
  bool up_ = false;
};

class TwoHostsTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    a_ = std::make_unique<Host>("a", ca_, topology_);
    b_ = std::make_unique<Host>("b", ca_, topology_);
  }
  void UpBoth() {
    for (Host* const host : {b_.get(), a_.get()}) {
      const CliResult result = host->Up();
      ASSERT_EQ(result.code, 0) << result.err;
    }
  }
  // Waits until the device has taken more events than ever before.
  ::testing::AssertionResult GoesOn() {
    const uint64_t before = taken_;
    return Eventually([&] {
      taken_ = std::max(taken_, a_->CounterOf("echo0", "taken"));
      return taken_ >= before + 200;
    })
               ? ::testing::AssertionSuccess()
               : ::testing::AssertionFailure()
                     << "nothing ends any more after event " << before << ": "
                     << a_->Call({"links"}).out << a_->Call({"status"}).out;
  }
  // The device judges its own events: it counts those that were aborted, and ends
  // with 1 if one is missing, comes twice, or has another answer. `down` says so.
  void ExpectAllWell() const {
    EXPECT_EQ(a_->CounterOf("echo0", "failed"), 0u);
  }
  static void EndWell(Host& host) {
    const CliResult down = host.Down();
    EXPECT_EQ(down.code, 0) << down.err;
    EXPECT_FALSE(fs::exists(host.testbed()));
    EXPECT_THAT(ProcessesOf(host), IsEmpty());
  }
  // Whoever has the host's folder in its command line.
  static std::vector<std::string> ProcessesOf(const Host& host) {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      std::string words = testbed::FileText(entry.path() / "cmdline");
      if (words.find(host.folder()) == std::string::npos) continue;
      std::replace(words.begin(), words.end(), '\0', ' ');
      found.push_back(words);
    }
    return found;
  }

  const uint16_t port_ = FreePort();
  const std::string topology_ = fmt::format(
      R"(name: lab
mesh:
  lease: 120
  engine: {}
  trusted: true
  tls: {{certificate: host.pem, key: host.key, ca: ca.pem}}
hosts:
  a:
  b: {{address: "127.0.0.1:{}"}}
gpu: {{host: b, backend: cpu, workers: 1, restart: on_failure}}
devices:
  - name: echo0
    kind: exec
    host: a
    command: [{}, --pause, 5, --patience, 100000, --resume-within, 60]
  - {{name: fpga0, kind: fpga, host: b, fps: 5}}
)",
      GetParam(), port_,
      fs::absolute("integration_tests/echo_device").string());
  const TempDirectory files_ = *TempDirectory::Make();
  const TestCa ca_{files_.path()};
  std::unique_ptr<Host> a_;
  std::unique_ptr<Host> b_;
  uint64_t taken_ = 0;
};

std::string NameOfParam(const ::testing::TestParamInfo<std::string>& info) {
  return info.param;
}
INSTANTIATE_TEST_SUITE_P(, TwoHostsTest, ::testing::Values("tls", "ucx"),
                         NameOfParam);

TEST_P(TwoHostsTest, EachHostStartsItsPartAndShowsIt) {
  ASSERT_NO_FATAL_FAILURE(UpBoth());
  ASSERT_TRUE(GoesOn());
  EXPECT_GT(a_->PidOf("echo0"), 0);
  EXPECT_EQ(a_->PidOf("linkd-a"), 0);
  EXPECT_EQ(a_->PidOf("fpga0"), 0);
  EXPECT_GT(b_->PidOf("linkd-a"), 0);
  EXPECT_EQ(b_->PidOf("echo0"), 0);

  EXPECT_THAT(
      a_->Call({"status"}).out,
      HasSubstr(fmt::format("by link to b (127.0.0.1:{}), now up", port_)));
  // What ps shows stays as it is, so it says nothing that changes.
  EXPECT_EQ(a_->Document({"ps"})["testbeds"][0]["processes"][0]["note"],
            fmt::format("remote back-end: by link to b (127.0.0.1:{})", port_));
  EXPECT_THAT(a_->Call({"ps"}).out,
              ::testing::ContainsRegex("lab +a +echo0 +exec +ready"));
  EXPECT_THAT(b_->Call({"ps"}).out,
              ::testing::ContainsRegex("lab +b +linkd-a +link +ready"));
  const Json at_a = a_->Document({"links"})["links"][0];
  EXPECT_EQ(at_a["link"], "a-b");
  EXPECT_EQ(at_a["state"], "up");
  EXPECT_EQ(at_a["engine"], GetParam());
  EXPECT_EQ(at_a["connections"], 1);
  EXPECT_EQ(at_a["replayed"], 0);
  const Json at_b = b_->Document({"links"})["links"][0];
  EXPECT_EQ(at_b["link"], "a-b");
  EXPECT_EQ(at_b["state"], "up");
  EXPECT_EQ(at_b["engine"], GetParam());
  EXPECT_EQ(at_b["connections"], 1);
  EXPECT_EQ(at_b["downs"], 0);
  EXPECT_EQ(at_b["down_ns"], 0);
  EXPECT_EQ(at_b["dropped"], nullptr) << "only the devices' host knows it";
  // Linkd looks at itself twice a second, and pings ten times.
  EXPECT_TRUE(Eventually([&] {
    return b_->Document({"links"})["links"][0]["rtt_ns"].get<uint64_t>() > 0;
  }));
  // One that is stopped cannot say that the link is up.
  const pid_t linkd = b_->PidOf("linkd-a");
  kill(linkd, SIGSTOP);
  EXPECT_TRUE(Eventually([&] {
    const Json link = b_->Document({"links"})["links"][0];
    return link["state"].get<std::string>().starts_with("linkd silent for ") &&
           link["rtt_ns"].is_null() && link["in_flight"].is_null();
  })) << b_->Call({"links"}).out;
  kill(linkd, SIGCONT);
  EXPECT_TRUE(Eventually([&] {
    return b_->Document({"links"})["links"][0]["state"] == "up";
  })) << b_->Call({"links"}).out;
  ASSERT_TRUE(GoesOn());
  EXPECT_THAT(a_->Call({"hosts"}).out,
              AllOf(::testing::ContainsRegex("a +yes +- +no +echo0"),
                    ::testing::ContainsRegex(fmt::format(
                        "b +no +127.0.0.1:{} +yes +fpga0", port_))));
  // What is of the other host is named with that.
  for (const std::string command : {"logs", "restart"}) {
    for (const std::string process : {"fpga0", "linkd-a", "b/gpud"}) {
      const CliResult refused = a_->Call({command, process});
      EXPECT_EQ(refused.code, 3) << refused.err;
      const std::string name = process.substr(process.find('/') + 1);
      EXPECT_THAT(
          refused.err,
          AllOf(HasSubstr("'" + name +
                          "' of testbed 'lab' is on host 'b', and this is "
                          "'a'"),
                HasSubstr("hint: on host 'b': carillon " + command + " " +
                          name + " --name lab")));
    }
    EXPECT_THAT(b_->Call({command, "echo0"}).err, HasSubstr("is on host 'a'"));
    for (const std::string process : {"nobody", "b/nobody"}) {
      EXPECT_THAT(a_->Call({command, process}).err,
                  Not(HasSubstr("is on host")));
    }
  }
  const CliResult logs = a_->Call({"logs", "a/gpud"});
  EXPECT_EQ(logs.code, 0) << logs.err;
  EXPECT_THAT(logs.out, HasSubstr("testbed lab is up"));
  const pid_t before = a_->PidOf("echo0");
  const CliResult restarted = a_->Call({"restart", "a/echo0"});
  EXPECT_EQ(restarted.code, 0) << restarted.err;
  EXPECT_THAT(restarted.err + restarted.out, HasSubstr("echo0 is "));
  EXPECT_NE(a_->PidOf("echo0"), before);
  EndWell(*a_);
  EndWell(*b_);
}

TEST_P(TwoHostsTest, WhoeverIsKilledEachEventEndsOnce) {
  ASSERT_NO_FATAL_FAILURE(UpBoth());
  ASSERT_TRUE(GoesOn());
  EXPECT_TRUE(b_->KillAndAwaitNext("linkd-a"));
  ASSERT_TRUE(GoesOn());
  EXPECT_TRUE(b_->KillAndAwaitNext("gpud"));
  ASSERT_TRUE(GoesOn());
  EXPECT_TRUE(a_->KillAndAwaitNext("gpud"));
  ASSERT_TRUE(GoesOn());

  // With the supervisor of the GPU's host all goes that it has started.
  kill(b_->PidOf("supervisor"), SIGKILL);
  ASSERT_TRUE(Eventually([&] { return ProcessesOf(*b_).empty(); }));
  EXPECT_TRUE(Eventually(
      [&] { return a_->Document({"links"})["links"][0]["state"] != "up"; }));
  const CliResult again = b_->Up();
  ASSERT_EQ(again.code, 0) << again.err;
  ASSERT_TRUE(GoesOn());
  ExpectAllWell();
  const CliResult down = a_->Down();
  EXPECT_EQ(down.code, 0) << down.err;

  // The same of the devices' host: its next devices begin anew.
  const CliResult other = a_->Up();
  ASSERT_EQ(other.code, 0) << other.err;
  taken_ = 0;
  ASSERT_TRUE(GoesOn());
  kill(a_->PidOf("supervisor"), SIGKILL);
  ASSERT_TRUE(Eventually([&] { return ProcessesOf(*a_).empty(); }));
  const CliResult third = a_->Up();
  ASSERT_EQ(third.code, 0) << third.err;
  taken_ = 0;
  ASSERT_TRUE(GoesOn());
  ExpectAllWell();
  EndWell(*a_);
  EndWell(*b_);
}

TEST_P(TwoHostsTest, ALinkThatIsCutGoesOnAndEachEventEndsOnce) {
  TcpRelay relay(fmt::format("127.0.0.1:{}", port_));
  std::string by_relay = topology_;
  const std::string port = fmt::format(":{}", port_);
  by_relay.replace(by_relay.find(port), port.size(),
                   relay.address().substr(relay.address().find(':')));
  std::ofstream(a_->file()) << by_relay;
  ASSERT_NO_FATAL_FAILURE(UpBoth());
  constexpr uint64_t kCuts = 5;
  for (uint64_t i = 0; i < kCuts; ++i) {
    ASSERT_TRUE(GoesOn());
    const uint64_t before = relay.connections();
    relay.Cut();
    ASSERT_TRUE(Eventually([&] { return relay.connections() > before; }));
  }
  ASSERT_TRUE(GoesOn());
  ExpectAllWell();
  EXPECT_GE(a_->Document({"links"})["links"][0]["connections"], 1 + kCuts);
  EndWell(*a_);
  EndWell(*b_);
}

// For longer than the lease, and than restarts in a row take to be used up.
TEST_P(TwoHostsTest, ADeviceOfALostLinkComesBackWithTheLink) {
  TcpRelay relay(fmt::format("127.0.0.1:{}", port_));
  for (Host* const host : {a_.get(), b_.get()}) {
    std::string text = "record: 65536\n" + topology_;
    const auto replace = [&](const std::string& from, const std::string& to) {
      text.replace(text.find(from), from.size(), to);
    };
    replace("lease: 120", "lease: 2");
    replace("    kind: exec", "    kind: exec\n    restart: on_failure");
    if (host == a_.get()) {
      replace(fmt::format(":{}", port_),
              relay.address().substr(relay.address().find(':')));
    }
    std::ofstream(host->file()) << text;
  }
  ASSERT_NO_FATAL_FAILURE(UpBoth());
  ASSERT_TRUE(GoesOn());
  const pid_t before = a_->PidOf("echo0");
  relay.Cut(true);
  const auto log = [&] {
    return testbed::FileText(a_->testbed() + "/logs/supervisor.log");
  };
  EXPECT_TRUE(Eventually([&] {
    return log().find("echo0 waits for the link to the GPU's host") !=
           std::string::npos;
  })) << log();
  EXPECT_THAT(a_->Call({"ps"}).out, Not(HasSubstr("given up")));
  relay.Cut(false);
  taken_ = 0;
  ASSERT_TRUE(GoesOn()) << log();
  EXPECT_NE(a_->PidOf("echo0"), before);
  // Each event has ended, in the ledger of either host and in the recorders.
  for (const Host* const host : {a_.get(), b_.get()}) {
    const CliResult story =
        host->Call({"postmortem", "--dir", host->testbed(), "-o", "json"});
    const Json json = Json::parse(story.out, nullptr, false);
    ASSERT_TRUE(json.contains("violations")) << story.out << story.err;
    EXPECT_EQ(json["violations"].size(), 0u) << json["violations"];
  }
  EXPECT_EQ(a_->Down().code, 0);
  EndWell(*b_);
}

// What does not depend on the engine.
class TwoHostsByTlsTest : public TwoHostsTest {};
INSTANTIATE_TEST_SUITE_P(, TwoHostsByTlsTest, ::testing::Values("tls"),
                         NameOfParam);

TEST_P(TwoHostsByTlsTest, AGpudThatDiesWhileTheLinkIsSilentWaitsForIt) {
  ASSERT_NO_FATAL_FAILURE(UpBoth());
  ASSERT_TRUE(GoesOn());
  const pid_t linkd = b_->PidOf("linkd-a");
  kill(linkd, SIGSTOP);
  kill(a_->PidOf("gpud"), SIGKILL);
  const auto restarts = [&] {
    const Json state = Json::parse(
        testbed::FileText(a_->testbed() + "/state.json"), nullptr, false);
    if (state.is_discarded()) return -1;
    return state["processes"][0]["restarts"].get<int>();
  };
  EXPECT_TRUE(Eventually([&] { return restarts() == 1; }));
  // A testbed's first one would end after 5 s.
  std::this_thread::sleep_for(std::chrono::seconds(6));
  EXPECT_EQ(restarts(), 1);
  for (const char* const command : {"links", "devices"}) {
    EXPECT_THAT(a_->Call({command}).err,
                HasSubstr("gpud is starting again: carillon logs gpud"));
  }
  kill(linkd, SIGCONT);
  ASSERT_TRUE(GoesOn());
  ExpectAllWell();
  // linkd itself could not look meanwhile.
  Json link;
  EXPECT_TRUE(Eventually([&] {
    link = b_->Document({"links"})["links"][0];
    return link["state"] == "up" && link["downs"] > 0;
  })) << link;
  EXPECT_GE(link["down_ns"], 6'000'000'000u);
  EndWell(*a_);
  EndWell(*b_);
}

TEST_P(TwoHostsByTlsTest, PostmortemTellsOneStoryOfBothHosts) {
  for (const Host* const host : {a_.get(), b_.get()}) {
    std::string text = "record: 65536\n" + topology_;
    text.replace(text.find("backend: cpu"), 0, "trace: true, ");
    std::ofstream(host->file()) << text;
  }
  ASSERT_NO_FATAL_FAILURE(UpBoth());
  ASSERT_TRUE(GoesOn());
  EXPECT_TRUE(b_->KillAndAwaitNext("linkd-a"));
  ASSERT_TRUE(GoesOn());
  const auto postmortem = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"postmortem", "--dir", a_->testbed(), "--dir",
                                 b_->testbed()});
    return b_->Call(words);
  };
  Json json;
  ASSERT_TRUE(Eventually([&] {
    json = Json::parse(postmortem({"-o", "json", "--last", "300000"}).out,
                       nullptr, false);
    return json.contains("clocks");
  }));
  // Both are this machine, and have one clock.
  ASSERT_EQ(json["clocks"].size(), 1u);
  const Json& clock = json["clocks"][0];
  EXPECT_EQ(clock["host"], "a");
  EXPECT_EQ(clock["gpu_host"], "b");
  EXPECT_LE(std::abs(clock["offset_ns"].get<int64_t>()),
            clock["error_ns"].get<int64_t>());
  EXPECT_EQ(json["violations"].size(), 0u) << json["violations"];
  EXPECT_GE(json["events"]["ok"].get<uint64_t>(), 200u);

  // Who did what with one of the first events, in the order in which it was told.
  // A ring of several has the last one's sequence.
  Json sequence;
  std::vector<std::string> story;
  for (const Json& step : json["story"]) {
    if (step["ring"].is_null() || step["ring"]["device"] != "echo0") continue;
    if (sequence.is_null() && step["step"] == "rung") {
      sequence = step["sequence"];
    }
    if (step["sequence"] != sequence) continue;
    const std::string line = step["process"].get<std::string>() + " " +
                             step["step"].get<std::string>();
    if (std::ranges::count(story, line) == 0) story.push_back(line);
  }
  // What the clocks' error may put elsewhere is looked for by host.
  const auto of = [&](const std::string& host) {
    std::vector<std::string> lines;
    for (const std::string& line : story) {
      if (line.starts_with(host)) lines.push_back(line);
    }
    return lines;
  };
  EXPECT_THAT(of("a/"), ::testing::ElementsAre(
                            "a/echo0 rung", "a/gpud seen", "a/gpud dispatched",
                            "a/gpud ended", "a/echo0 taken"));
  EXPECT_THAT(of("b/"), ::testing::ElementsAre(
                            "b/echo0 rung", "b/gpud seen", "b/gpud dispatched",
                            "b/gpud ended", "b/echo0 taken"));
  EXPECT_THAT(postmortem({}).out,
              HasSubstr("times are host b's; the clock of host a is "));
  const CliResult twice =
      b_->Call({"postmortem", "--dir", a_->testbed(), "--dir", a_->testbed()});
  EXPECT_THAT(twice.err, HasSubstr("give each host once"));
  EndWell(*a_);
  EndWell(*b_);
}

TEST_P(TwoHostsByTlsTest, WhatIsWrongIsOneClearLine) {
  const auto up = [](Host& host, std::vector<std::string> words) {
    words.insert(words.begin(), {"up", "-d", "-f", host.file()});
    return host.Call(words);
  };
  EXPECT_THAT(up(*a_, {}).err, HasSubstr("say which of them this one is, as "
                                         "--host a (of a, b)"));
  EXPECT_THAT(up(*a_, {"--host", "x"}).err,
              HasSubstr("--host: 'x' is no host of this topology (a, b)"));
  const auto once = [](const std::string& text, const std::string& what) {
    const size_t at = text.find(what);
    return at != text.npos && text.find(what, at + 1) == text.npos;
  };
  // Nobody is there yet.
  const std::string alone = a_->Up().err;
  EXPECT_THAT(alone, HasSubstr("Connection refused; is linkd there? carillon "
                               "up --host b there first"));
  EXPECT_TRUE(once(alone, "no link to host 'b'")) << alone;
  // Host b would wait for ever: nobody takes such a certificate.
  const TlsFiles good = ca_.Issue(
      {.name = "b", .alternative_names = "URI:carillon:role:link,DNS:b"});
  const TlsFiles viewer =
      ca_.Issue({.name = "v",
                 .alternative_names = "URI:carillon:role:viewer,DNS:a,DNS:b"});
  b_->Use(viewer);
  EXPECT_THAT(b_->Up().err,
              AllOf(HasSubstr("--tls-cert " + b_->folder() + "/host.pem: "),
                    HasSubstr("CN=v is not for links of host b: it has ")));
  b_->Use(good);
  {
    const UniqueFd other(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in address{.sin_family = AF_INET,
                              .sin_port = htons(port_),
                              .sin_addr = {htonl(INADDR_LOOPBACK)}};
    ASSERT_EQ(bind(other.get(), reinterpret_cast<const sockaddr*>(&address),
                   sizeof(address)),
              0);
    ASSERT_EQ(listen(other.get(), 1), 0);
    EXPECT_THAT(b_->Up().err,
                HasSubstr(fmt::format("127.0.0.1:{}: Address already in use: "
                                      "host b is to wait there for host a: ",
                                      port_)));
  }
  ASSERT_EQ(b_->Up().code, 0);
  EXPECT_THAT(b_->Call({"links"}).out,
              HasSubstr("down: host a has not come yet"));
  EXPECT_THAT(up(*b_, {"--host", "a"}).err, HasSubstr("is already up"));
  const std::string other = up(*a_, {"--host", "a", "--name", "other"}).err;
  EXPECT_TRUE(once(other, "testbed 'other', and 'lab' is expected")) << other;
  EXPECT_TRUE(Eventually([&] {
    return b_->Call({"links"}).out.find(": carillon logs linkd-a") !=
           std::string::npos;
  })) << b_->Call({"links"}).out;
  EXPECT_THAT(b_->Call({"links"}).out,
              ::testing::ContainsRegex("down, refused [0-9]+ times?: carillon "
                                       "logs linkd-a"));
  EXPECT_THAT(a_->Call({"doctor", "-f", a_->file()}).out,
              HasSubstr("/host.pem is of host a"));
  for (const TlsFiles& files : {good, viewer}) {
    a_->Use(files);
    EXPECT_THAT(a_->Up().err,
                AllOf(HasSubstr("--link-cert " + a_->folder() + "/host.pem: "),
                      HasSubstr(" is not for links of host a: it has ")));
  }
  fs::remove(a_->folder() + "/host.key");
  EXPECT_THAT(a_->Up().err,
              AllOf(HasSubstr("--link-key"), HasSubstr("host.key")));
  EXPECT_THAT(a_->Call({"doctor", "-f", a_->file()}).out,
              HasSubstr("/host.key: No such file"));
  EndWell(*b_);
}

// Its table stays readable, and has all of it as JSON.
TEST_P(TwoHostsByTlsTest, LinksCutsALongReason) {
  ASSERT_NO_FATAL_FAILURE(UpBoth());
  EXPECT_EQ(b_->Down().code, 0);
  std::string other = topology_;
  other.replace(other.find("engine: tls"), 11, "engine: ucx");
  std::ofstream(b_->file()) << other;
  ASSERT_EQ(b_->Up().code, 0);
  const std::string why =
      "down: host b refuses the link: the other end's engine is 'tls', and "
      "'ucx' is expected: say the same in mesh: engine on both hosts";
  EXPECT_TRUE(Eventually([&] {
    return a_->Document({"links"})["links"][0]["state"] == why;
  })) << a_->Call({"links"}).out;
  const std::string table = a_->Call({"links"}).out;
  EXPECT_THAT(table,
              AllOf(HasSubstr("down: host b refuses the link: the other "),
                    HasSubstr("... (all: -o json)"), Not(HasSubstr("mesh:"))));
  EndWell(*b_);
  EXPECT_EQ(a_->Down().code, 0);
}

}  // namespace
}  // namespace carillon::cli
