// Simulated time over real links: each host comes up by itself, here all on this
// machine with a runtime directory each, and the GPU's host writes the same
// events.csv as one machine that simulates them all.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
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
#include "tools/cli/cli_runner.h"
#include "tools/testbed/supervisor/test_util.h"

namespace carillon::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// "127.0.0.1:PORT" whose port was free a moment ago, and the next one, too.
std::string FreeAddress() {
  for (;;) {
    std::string address;
    const UniqueFd one = ListenOnLoopback(&address);
    const int port = std::stoi(address.substr(address.rfind(':') + 1));
    if (!DialLoopback(fmt::format("127.0.0.1:{}", port + 1))) return address;
  }
}
std::string PortOf(const std::string& address) {
  return address.substr(address.rfind(':') + 1);
}

// Cameras on the hosts `far`, and one beside the GPU on b. Time begins with the
// last device, which has no end: the others are ready by then.
struct Lab {
  std::vector<std::string> far = {"a"};
  int frames = 6;
  std::string latency = "3us";
  std::string fps = "20000";
  std::string restart = "never";  // gpud

  std::vector<std::string> cameras() const {
    std::vector<std::string> names;
    for (const std::string& host : far) names.push_back("camera-" + host);
    names.push_back("near");
    return names;
  }
  // `address`: b's; empty: one machine is all hosts.
  std::string Topology(const std::string& address) const {
    std::string text = "name: lab\n";
    if (!address.empty()) {
      text +=
          "mesh: {lease: 30, timeout: 1, tls: {certificate: host.pem, key: "
          "host.key, ca: ca.pem}}\n";
    }
    text += address.empty()
                ? "hosts: {b: "
                : fmt::format("hosts: {{b: {{address: \"{}\"}}", address);
    for (const std::string& host : far) text += ", " + host + ": ";
    text += "}\nlinks:\n";
    for (const std::string& host : far) {
      text +=
          fmt::format("  - {{from: {}, to: b, latency: {}}}\n", host, latency);
    }
    text +=
        "gpu: {host: b, backend: sim, timing: tiny, event_log: events.csv, "
        "restart: " +
        restart + "}\ndevices:\n";
    const std::string camera =
        fmt::format("kind: fpga, size: 32x32, fps: {}, frames: {}, check: true",
                    fps, frames);
    for (const std::string& host : far) {
      text += fmt::format("  - {{name: camera-{0}, {1}, host: {0}}}\n", host,
                          camera);
    }
    text += fmt::format("  - {{name: near, {}, host: b}}\n", camera);
    text += "  - {name: keeper, kind: fpga, size: 8x8, fps: 1, host: b}\n";
    return text;
  }
};

class Host {
 public:
  Host(const std::string& name, const TestCa& ca) : name_(name) {
    const TlsFiles files =
        ca.Issue({.name = name,
                  .alternative_names = "URI:carillon:role:link,DNS:" + name});
    fs::copy_file(files.certificate, folder_.path() + "/host.pem");
    fs::copy_file(files.key, folder_.path() + "/host.key");
    fs::copy_file(files.ca, folder_.path() + "/ca.pem");
  }
  ~Host() {
    if (up_) Call({"down", "--name", "lab"});
  }

  CliResult Call(const std::vector<std::string>& words) const {
    setenv("CARILLON_RUNTIME_DIR", (folder_.path() + "/run").c_str(), 1);
    return RunCli(words);
  }
  // `host`: or all of them.
  CliResult Up(const std::string& topology, bool part) {
    std::ofstream(file()) << topology;
    std::vector<std::string> words = {"up",   "-d",        "-f",
                                      file(), "--timeout", "60"};
    if (part) words.insert(words.end(), {"--host", name_});
    CliResult result = Call(words);
    up_ = result.code == 0;
    return result;
  }
  void Down() {
    if (!std::exchange(up_, false)) return;
    const CliResult down = Call({"down", "--name", "lab"});
    EXPECT_EQ(down.code, 0) << down.err;
  }
  pid_t PidOf(const std::string& process) const {
    const Json state =
        Json::parse(testbed::FileText(folder_.path() + "/run/lab/state.json"),
                    nullptr, false);
    if (state.is_discarded()) return 0;
    for (const Json& one : state["processes"]) {
      if (one["name"] == process) return one["pid"];
    }
    return 0;
  }
  std::string LogOf(const std::string& process) const {
    return Call({"logs", "-n", "50", process}).out;
  }
  std::string file() const { return folder_.path() + "/lab.yaml"; }
  std::string log() const { return folder_.path() + "/events.csv"; }

 private:
  const std::string name_;
  const TempDirectory folder_ = *TempDirectory::Make();
  bool up_ = false;
};

// Without the keeper's lines, of which there are as many as there was time for.
std::string Events(const Host& host) {
  std::ifstream file(host.log());
  std::string events;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("keeper,")) events += line + '\n';
  }
  return events;
}
// But for the headline.
int Count(const std::string& events) {
  return static_cast<int>(std::count(events.begin(), events.end(), '\n')) - 1;
}

class SimulatedLinksTest : public ::testing::Test {
 protected:
  ~SimulatedLinksTest() override { DownAll(); }

  static int Expected(const Lab& lab) {
    return lab.frames * static_cast<int>(lab.cameras().size());
  }
  ::testing::AssertionResult RunsToItsEnd(const Lab& lab, const Host& gpu) {
    if (Eventually([&] { return Count(Events(gpu)) == Expected(lab); })) {
      return ::testing::AssertionSuccess();
    }
    return ::testing::AssertionFailure()
           << testbed::FileText(gpu.log()) << gpu.Call({"status"}).out
           << gpu.Call({"ps"}).out << gpu.LogOf("gpud");
  }
  std::string OneMachine(const Lab& lab) {
    Host all("all", ca_);
    const CliResult up = all.Up(lab.Topology(""), /*part=*/false);
    EXPECT_EQ(up.code, 0) << up.err;
    if (up.code != 0) return "";
    EXPECT_TRUE(RunsToItsEnd(lab, all));
    all.Down();
    return Events(all);
  }
  // b first; each other host finds it by a relay.
  void UpAll(
      const Lab& lab,
      const std::function<void(TcpRelay&)>& prepare = [](TcpRelay&) {}) {
    const std::string address = address_ = FreeAddress();
    Host& b = *(hosts_["b"] = std::make_unique<Host>("b", ca_));
    const CliResult up = b.Up(lab.Topology(address), /*part=*/true);
    ASSERT_EQ(up.code, 0) << up.err;
    const int port = std::stoi(PortOf(address));
    for (size_t i = 0; i < lab.far.size(); ++i) {
      const std::string& name = lab.far[i];
      auto& relay = relays_[name] = std::make_unique<TcpRelay>(
          fmt::format("127.0.0.1:{}", port + static_cast<int>(i)));
      prepare(*relay);
      const int at = std::stoi(PortOf(relay->address()));
      Host& host = *(hosts_[name] = std::make_unique<Host>(name, ca_));
      // Its link is the i-th of b's.
      const CliResult result = host.Up(
          lab.Topology(fmt::format("127.0.0.1:{}", at - static_cast<int>(i))),
          /*part=*/true);
      ASSERT_EQ(result.code, 0) << result.err;
    }
  }
  void DownAll() {
    for (auto& [name, host] : hosts_) {
      if (name != "b") host->Down();
    }
    if (hosts_.contains("b")) hosts_["b"]->Down();
  }

  const TempDirectory files_ = *TempDirectory::Make();
  const TestCa ca_{files_.path()};
  std::string address_;  // b's
  std::map<std::string, std::unique_ptr<TcpRelay>> relays_;
  std::map<std::string, std::unique_ptr<Host>> hosts_;
};

TEST_F(SimulatedLinksTest, TwoHostsAreOneMachineToTheByte) {
  const Lab lab;
  const std::string one = OneMachine(lab);
  ASSERT_NO_FATAL_FAILURE(UpAll(lab));
  ASSERT_TRUE(RunsToItsEnd(lab, *hosts_["b"]));
  EXPECT_EQ(Events(*hosts_["b"]), one);
  EXPECT_THAT(one, HasSubstr("camera-a,"));
}

TEST_F(SimulatedLinksTest,
       ThreeHostsAreOneMachineToTheByteHoweverTheirLinksAreCut) {
  const Lab lab{.far = {"a", "c"}, .frames = 20};
  const std::string one = OneMachine(lab);
  ASSERT_NO_FATAL_FAILURE(UpAll(lab, [](TcpRelay& relay) { relay.Delay(3); }));
  for (auto& [name, relay] : relays_) {
    relay->CutAfter(60'000);
    relay->Cut();
  }
  EXPECT_LT(Count(Events(*hosts_["b"])), Expected(lab)) << "no cut is amid it";
  for (auto& [name, relay] : relays_) relay->Delay(0);
  ASSERT_TRUE(RunsToItsEnd(lab, *hosts_["b"]));
  EXPECT_EQ(Events(*hosts_["b"]), one);
  for (auto& [name, relay] : relays_) {
    EXPECT_GT(relay->connections(), 1u) << name;
    relay->CutAfter(0);
  }
}

// An event's end comes before its turn, and is not seen before it.
TEST_F(SimulatedLinksTest, ALinkThatStopsBetweenAnEndAndItsTurnIsNoOther) {
  const Lab lab{.fps = "0"};
  const std::string one = OneMachine(lab);
  ASSERT_NO_FATAL_FAILURE(
      UpAll(lab, [](TcpRelay& relay) { relay.PauseBehindRecords(150); }));
  ASSERT_TRUE(RunsToItsEnd(lab, *hosts_["b"]));
  relays_["a"]->PauseBehindRecords(0);
  EXPECT_EQ(Events(*hosts_["b"]), one);
}

TEST_F(SimulatedLinksTest, ACutOfSecondsIsAPauseOfWallTime) {
  const Lab lab{.frames = 300};
  const std::string one = OneMachine(lab);
  ASSERT_NO_FATAL_FAILURE(UpAll(lab, [](TcpRelay& relay) { relay.Delay(3); }));
  ASSERT_TRUE(Eventually([&] { return Count(Events(*hosts_["b"])) > 0; }));
  relays_["a"]->Cut(true);
  std::this_thread::sleep_for(std::chrono::seconds(5));
  EXPECT_LT(Count(Events(*hosts_["b"])), Expected(lab));
  relays_["a"]->Cut(false);
  relays_["a"]->Delay(0);
  ASSERT_TRUE(RunsToItsEnd(lab, *hosts_["b"]));
  EXPECT_EQ(Events(*hosts_["b"]), one);
}

TEST_F(SimulatedLinksTest, AHostShowsItsDevicesAndSaysWhereToAskForTheRest) {
  const Lab lab{.frames = 1'000'000};
  ASSERT_NO_FATAL_FAILURE(UpAll(lab));
  const Host& a = *hosts_["a"];
  EXPECT_THAT(a.Call({"ps"}).out,
              ContainsRegex("lab +a +camera-a +fpga +ready"));
  for (const char* const command : {"status", "ekt"}) {
    EXPECT_THAT(a.Call({command}).err,
                HasSubstr("relays its devices to the GPU's host 'b'"));
  }
  EXPECT_THAT(hosts_["b"]->Call({"ekt"}).out, HasSubstr("camera-a"));
  const auto link = [&] {
    return Json::parse(
        hosts_["b"]->Call({"links", "-o", "json"}).out)["links"][0];
  };
  EXPECT_TRUE(Eventually([&] { return link()["state"] == "up"; })) << link();
  relays_["a"]->Cut(true);
  EXPECT_TRUE(Eventually([&] { return link()["state"] == "down"; })) << link();
  relays_["a"]->Cut(false);
  EXPECT_TRUE(Eventually([&] { return link()["state"] == "up"; })) << link();
  EXPECT_GE(link()["downs"], 1);
}

TEST_F(SimulatedLinksTest, LinkdThatIsStartedAgainIsRefusedAndOthersGoOn) {
  const Lab lab{.frames = 1'000'000};
  ASSERT_NO_FATAL_FAILURE(UpAll(lab));
  const Host& a = *hosts_["a"];
  const Host& b = *hosts_["b"];
  ASSERT_TRUE(Eventually([&] { return Count(Events(b)) > 10; }));
  const pid_t linkd = b.PidOf("linkd-a");
  ASSERT_GT(linkd, 0);
  kill(linkd, SIGKILL);
  EXPECT_TRUE(Eventually([&] {
    return a.LogOf("gpud").find("linkd has been started again") !=
           std::string::npos;
  })) << a.LogOf("gpud");
  EXPECT_THAT(a.LogOf("gpud"),
              HasSubstr("and with it the time of its devices"));
  const int then = Count(Events(b));
  EXPECT_TRUE(Eventually([&] { return Count(Events(b)) > then + 10; }));
}

// Started again it would take the name back, and so on for ever.
TEST_F(SimulatedLinksTest, OfTwoHostsOfOneNameTheOlderEndsAndStaysAway) {
  const Lab lab{.frames = 1'000'000, .restart = "on_failure"};
  ASSERT_NO_FATAL_FAILURE(UpAll(lab));
  const Host& a = *hosts_["a"];
  Host newer("a", ca_);
  // Its devices may come too late; its gpud has the link by then.
  newer.Up(lab.Topology(address_), true);
  const auto gpud = [&] {
    const Json all = Json::parse(a.Call({"ps", "-o", "json"}).out);
    for (const Json& one : all["testbeds"][0]["processes"]) {
      if (one["name"] == "gpud") return one;
    }
    return Json();
  };
  EXPECT_TRUE(Eventually([&] { return gpud()["exit"].is_object(); })) << gpud();
  EXPECT_EQ(gpud()["exit"]["code"], 0);
  EXPECT_EQ(gpud()["restarts"], 0);
  EXPECT_THAT(a.LogOf("gpud"), HasSubstr("the older one no longer serves"));
  EXPECT_THAT(hosts_["b"]->LogOf("linkd-a"),
              HasSubstr("takes the place of one of that name"));
}

TEST_F(SimulatedLinksTest, HostsOfOtherTopologiesHaveNoLink) {
  const Lab lab;
  const Lab slower{.latency = "4us"};
  const std::string address = FreeAddress();
  Host a("a", ca_);
  Host b("b", ca_);
  ASSERT_EQ(b.Up(lab.Topology(address), true).code, 0);
  const CliResult up = a.Up(slower.Topology(address), true);
  EXPECT_NE(up.code, 0);
  EXPECT_THAT(up.err + a.LogOf("gpud"),
              ContainsRegex("simulated [0-9a-f]{16}.*simulated [0-9a-f]{16}"));
}

}  // namespace
}  // namespace carillon::cli
