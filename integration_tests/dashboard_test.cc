// A dashboard that runs with its testbed, and what people do through one.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/testing/eventually.h"
#include "base/unique_fd.h"
#include "integration_tests/testbed.h"
#include "integration_tests/testbed_process.h"
#include "tools/dashboard/test_http_client.h"
#include "tools/testbed/supervisor/dashboard_link.h"

namespace carillon::testing {
namespace {

using dashboard::Client;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Matches;
using ::testing::Not;
using ::testing::Pair;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

std::string ReadFile(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

uint16_t PortOf(const std::string& url) {
  return static_cast<uint16_t>(std::stoul(url.substr(url.rfind(':') + 1)));
}

// A request with a token, and the whole answer.
std::string Ask(uint16_t port, const std::string& token,
                const std::string& line, const std::string& body = "") {
  std::string request = fmt::format(
      "{} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {}\r\n"
      "Connection: close\r\n",
      line, port, token);
  if (!body.empty()) {
    request +=
        fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n",
                    body.size());
  }
  Client client(port);
  client.Send(request + "\r\n" + body);
  return client.ReadAll();
}

class DashboardTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto up = FaultTestbed::Up(R"(
        gpu: {backend: cpu, memory: 64MiB, restart: on_failure}
        dashboard: true
        devices:
          - {name: fpga0, kind: fpga, size: 64x64, fps: 200,
             restart: on_failure})");
    ASSERT_TRUE(up.ok()) << up.status();
    lab_ = *std::move(up);
    const auto link = testbed::ReadDashboardLink(lab_->paths());
    ASSERT_TRUE(link.ok()) << link.status();
    link_ = *link;
  }
  std::string Get(const std::string& target) const {
    return Ask(PortOf(link_.url), link_.token, "GET " + target);
  }

  nlohmann::json GetJson(const std::string& target) const {
    const std::string answer = Get(target);
    return nlohmann::json::parse(answer.substr(answer.find("\r\n\r\n") + 4),
                                 nullptr, false);
  }

  std::unique_ptr<FaultTestbed> lab_;
  testbed::DashboardLink link_;
};

TEST_F(DashboardTest, TheSupervisorTellsItsAddressButNotItsToken) {
  const testbed::ProcessRecord record = lab_->ProcessOf("dashboard");
  EXPECT_EQ(record.note, link_.url);
  EXPECT_EQ(record.identity.pid, link_.pid);
  EXPECT_THAT(link_.url, StartsWith("http://127.0.0.1:"));
  EXPECT_EQ(link_.token.size(), 32u);
  // Neither in what others can read nor in logs.
  for (const std::string& file : {lab_->paths().state_file(), record.log,
                                  fmt::format("/proc/{}/cmdline", link_.pid),
                                  fmt::format("/proc/{}/environ", link_.pid)}) {
    EXPECT_THAT(ReadFile(file), Not(HasSubstr(link_.token))) << file;
  }
  for (const std::string& file :
       {testbed::DashboardTokenFile(lab_->paths()),
        testbed::DashboardAddressFile(lab_->paths())}) {
    struct stat facts {};
    ASSERT_EQ(stat(file.c_str(), &facts), 0) << file;
    EXPECT_EQ(facts.st_mode & 0777, 0600u) << file;
  }
}

TEST_F(DashboardTest, TheCommandLinePrintsTheLink) {
  const std::string directory = lab_->directory();
  const size_t slash = directory.rfind('/');
  const std::vector<std::string> environment = {"CARILLON_RUNTIME_DIR=" +
                                                directory.substr(0, slash)};
  const std::string name = "--name=" + directory.substr(slash + 1);
  const std::string carillon = Program("tools/cli/carillon");
  auto link = Process::Start("link", {carillon, "dashboard", name, "--link"},
                             environment);
  ASSERT_TRUE(link.ok()) << link.status();
  EXPECT_EQ((*link)->Wait(), 0);
  EXPECT_EQ((*link)->output(), testbed::LinkOf(link_.url, link_.token) + "\n");

  auto ps = Process::Start("ps", {carillon, "ps", name}, environment);
  ASSERT_TRUE(ps.ok()) << ps.status();
  EXPECT_EQ((*ps)->Wait(), 0);
  EXPECT_THAT((*ps)->output(), HasSubstr(link_.url));
  EXPECT_THAT((*ps)->output(), Not(HasSubstr(link_.token)));

  // It is a process, and no device.
  for (const auto& [command, words] : {std::pair("devices", "fpga0\tfpga\n"),
                                       std::pair("restart",
                                                 "gpud\tgpud\nfpga0\tfpga\n"
                                                 "dashboard\tdashboard\n")}) {
    auto completed = Process::Start(
        "complete", {carillon, "complete", "--", command, name, ""},
        environment);
    ASSERT_TRUE(completed.ok()) << completed.status();
    EXPECT_EQ((*completed)->Wait(), 0);
    EXPECT_EQ((*completed)->output(), words);
  }

  // One that nobody can read the link of does not serve.
  auto full = Process::Start(
      "full",
      {"/bin/sh", "-c", carillon + " dashboard " + name + " >/dev/full"},
      environment);
  ASSERT_TRUE(full.ok()) << full.status();
  EXPECT_EQ((*full)->Wait(), 1);
  EXPECT_THAT((*full)->output(), HasSubstr("cannot print the link"));

  // One beside it has a link of its own.
  auto other =
      Process::Start("dashboard", {carillon, "dashboard", name}, environment);
  ASSERT_TRUE(other.ok()) << other.status();
  ASSERT_TRUE((*other)->WaitForOutput("\n"));
  const std::string words = (*other)->output();
  EXPECT_THAT(words, StartsWith("viewer "));
  EXPECT_THAT(words, Not(HasSubstr(link_.token)));
  (*other)->Signal(SIGTERM);
  EXPECT_EQ((*other)->Wait(), 0);

  auto wrong = Process::Start(
      "wrong", {carillon, "dashboard", name, "--role", "king"}, environment);
  ASSERT_TRUE(wrong.ok()) << wrong.status();
  EXPECT_EQ((*wrong)->Wait(), 2);
}

TEST_F(DashboardTest, ShowsTheTestbedToWhoHasTheToken) {
  ASSERT_TRUE(lab_->WaitForProgress("fpga0", 10));
  // At rest, so that each route can be held against what gpud says.
  ASSERT_TRUE(lab_->Signal("fpga0", SIGSTOP));
  v1::EventCounts events;
  ASSERT_TRUE(Eventually([&] {
    events = lab_->Status().events();
    return events.rung() >= 10 && events.done() == events.rung();
  })) << events.ShortDebugString();
  const uint64_t rung = events.rung();
  nlohmann::json state;
  EXPECT_TRUE(Eventually([&] {
    state = GetJson("/api/v1/state");
    return state["totals"]["events"]["rung"] == rung &&
           state["rings"][0]["consumed"] == rung;
  })) << state;
  EXPECT_EQ(state["testbed"], "lab");
  EXPECT_EQ(state["gpud"]["state"], "live");
  EXPECT_EQ(state["totals"]["events"]["done"], rung);
  EXPECT_EQ(state["totals"]["policy"], lab_->Status().policy());
  ASSERT_EQ(state["rings"].size(), 1u);
  const nlohmann::json& ring = state["rings"][0];
  EXPECT_EQ(ring["device"], "fpga0");
  EXPECT_EQ(ring["kernel"], "dct8x8");
  for (const char* figure : {"doorbell", "launched", "completed"}) {
    EXPECT_EQ(ring[figure], rung) << figure;
  }
  ASSERT_EQ(state["devices"].size(), 1u);
  EXPECT_EQ(state["devices"][0]["pid"], lab_->ProcessOf("fpga0").identity.pid);
  std::map<std::string, pid_t> processes;
  for (const auto& process : state["processes"]) {
    processes[process["name"]] = process["pid"];
  }
  EXPECT_THAT(
      processes,
      UnorderedElementsAre(
          Pair("gpud", lab_->ProcessOf("gpud").identity.pid),
          Pair("fpga0", lab_->ProcessOf("fpga0").identity.pid),
          Pair("dashboard", lab_->ProcessOf("dashboard").identity.pid)));

  EXPECT_THAT(Get("/metrics"),
              HasSubstr(fmt::format(
                  "carillon_events_total{{device=\"fpga0\",event=\"0\","
                  "kernel=\"dct8x8\",label=\"frames 64x64\","
                  "result=\"done\"}} {}\n",
                  rung)));
  // A stopped device has not written what it logged last.
  nlohmann::json logs;
  EXPECT_TRUE(Eventually([&] {
    logs = GetJson("/api/v1/logs")["lines"];
    return std::ranges::any_of(logs, [](const nlohmann::json& one) {
      return one["process"] == "gpud" && one["level"] == "info" &&
             one["line"].get<std::string>().find(
                 "device 'fpga0' (fpga) attaches") != std::string::npos;
    });
  })) << logs;
  nlohmann::json history;
  EXPECT_TRUE(Eventually([&] {
    history = GetJson("/api/v1/history")["pictures"];
    return !history.empty() && history.back()["events"][0] == rung;
  })) << history;
  const nlohmann::json& row = history.back()["rings"][0];
  EXPECT_EQ(row[0], "fpga0");
  for (int figure = 2; figure <= 5; ++figure) EXPECT_EQ(row[figure], rung);

  EXPECT_THAT(Ask(PortOf(link_.url), "x", "GET /api/v1/state"),
              StartsWith("HTTP/1.1 401 "));
  // The link of a topology's dashboard only looks.
  EXPECT_THAT(Ask(PortOf(link_.url), link_.token, "POST /api/v1/policy",
                  R"({"policy": "priority"})"),
              StartsWith("HTTP/1.1 403 "));
}

TEST_F(DashboardTest, AStreamTellsOfGpudsDeathAndGoesOnWithTheNextOne) {
  Client client(PortOf(link_.url));
  client.Send(fmt::format(
      "GET /api/v1/stream HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: "
      "Bearer {}\r\n\r\n",
      PortOf(link_.url), link_.token));
  const std::string live = R"("gpud":{"state":"live")";
  const std::string gone = R"("gpud":{"state":"gone")";
  EXPECT_THAT(client.ReadUntil(live), HasSubstr(live));
  ASSERT_TRUE(lab_->Signal("gpud", SIGKILL));
  client.Forget();
  EXPECT_THAT(client.ReadUntil(gone), HasSubstr(gone));
  client.Forget();
  EXPECT_THAT(client.ReadUntil(live), HasSubstr(live));
  // Events come again, too.
  EXPECT_TRUE(lab_->WaitForRestart("gpud"));
  EXPECT_TRUE(lab_->WaitForProgress("fpga0", 10));
}

TEST_F(DashboardTest, AStoppedGpudIsSilent) {
  ASSERT_TRUE(lab_->Signal("gpud", SIGSTOP));
  EXPECT_TRUE(Eventually([&] {
    return Get("/api/v1/state").find("\"state\":\"silent\"") !=
           std::string::npos;
  }));
  ASSERT_TRUE(lab_->Signal("gpud", SIGCONT));
  EXPECT_TRUE(Eventually([&] {
    return Get("/api/v1/state").find("{\"state\":\"live\"") !=
           std::string::npos;
  }));
}

TEST_F(DashboardTest, AnotherOneHasAnotherTokenOnTheSamePort) {
  ASSERT_TRUE(lab_->Signal("dashboard", SIGKILL));
  ASSERT_TRUE(lab_->WaitForRestart("dashboard"));
  const auto link = testbed::ReadDashboardLink(lab_->paths());
  ASSERT_TRUE(link.ok()) << link.status();
  EXPECT_NE(link->token, link_.token);
  EXPECT_EQ(link->url, link_.url);
  EXPECT_EQ(lab_->ProcessOf("dashboard").note, link->url);
  EXPECT_THAT(Ask(PortOf(link->url), link_.token, "GET /api/v1/state"),
              StartsWith("HTTP/1.1 401 "));
  EXPECT_THAT(Ask(PortOf(link->url), link->token, "GET /metrics"),
              StartsWith("HTTP/1.1 200 "));
}

TEST(DashboardPort, APortOfTheTopologyIsKept) {
  // Somebody else has it.
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  UniqueFd taken(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  socklen_t bytes = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(bind(taken.get(), generic, sizeof(address)), 0);
  ASSERT_EQ(listen(taken.get(), 1), 0);
  ASSERT_EQ(getsockname(taken.get(), generic, &bytes), 0);
  const uint16_t port = ntohs(address.sin_port);
  const std::string topology = fmt::format(
      "gpu: {{backend: cpu, memory: 64MiB}}\ndashboard: {{port: {}}}\n", port);
  const auto refused = FaultTestbed::Up(topology);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.status().message(),
              HasSubstr(fmt::format("cannot listen on 127.0.0.1:{}: ", port)));
  EXPECT_THAT(refused.status().message(), HasSubstr("dashboard: {port: N}"));

  taken.reset();
  auto lab = FaultTestbed::Up(topology);
  ASSERT_TRUE(lab.ok()) << lab.status();
  const std::string url = fmt::format("http://127.0.0.1:{}/", port);
  std::string before;  // the token of the one that was there first
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_EQ((*lab)->ProcessOf("dashboard").note, url);
    const auto link = testbed::ReadDashboardLink((*lab)->paths());
    ASSERT_TRUE(link.ok()) << link.status();
    EXPECT_EQ(link->url, url);
    EXPECT_NE(link->token, before);
    // The dashboard of this testbed is what listens there.
    EXPECT_TRUE(Eventually([&] {
      return Matches(AllOf(StartsWith("HTTP/1.1 200 "),
                           HasSubstr(R"("testbed":"lab")"),
                           HasSubstr(R"("gpud":{"state":"live")")))(
          Ask(port, link->token, "GET /api/v1/state"));
    })) << Ask(port, link->token, "GET /api/v1/state");
    EXPECT_THAT(Ask(port, before, "GET /api/v1/state"),
                StartsWith("HTTP/1.1 401 "));
    before = link->token;
    if (turn > 0) break;
    ASSERT_TRUE((*lab)->Signal("dashboard", SIGKILL));
    ASSERT_TRUE((*lab)->WaitForRestart("dashboard"));
  }
}

TEST_F(DashboardTest, LinksWithRolesChangeTheTestbed) {
  auto own = Process::Start(
      "dashboard",
      {Program("tools/dashboard/dashboard"), "--dir=" + lab_->directory(),
       "--testbed=lab", "--role=operator", "--role=fault-injector", "--json"});
  ASSERT_TRUE(own.ok()) << own.status();
  ASSERT_TRUE((*own)->WaitForOutput("\n}\n"));
  const auto links =
      nlohmann::json::parse((*own)->output(), nullptr, false)["links"];
  ASSERT_EQ(links.size(), 3u) << (*own)->output();
  const auto token = [&](int i) {
    const std::string link = links[i]["link"];
    return link.substr(link.find("#token=") + 7);
  };
  const std::string first = links[0]["link"];
  const uint16_t port = PortOf(first.substr(0, first.find("/#")));

  EXPECT_THAT(
      Ask(port, token(1), "POST /api/v1/policy", R"({"policy": "priority"})"),
      HasSubstr(R"({"previous":"first_come"})"));
  EXPECT_EQ(lab_->Status().policy(), "priority");
  EXPECT_THAT(Ask(port, token(1), "POST /api/v1/tracing", R"({"on": true})"),
              StartsWith("HTTP/1.1 200 "));
  EXPECT_TRUE(lab_->Status().tracing());
  EXPECT_TRUE(Eventually([&] {
    return Ask(port, token(0), "GET /metrics")
               .find("carillon_event_stage_seconds_bucket") !=
           std::string::npos;
  }));
  EXPECT_THAT(Ask(port, token(2), "POST /api/v1/faults",
                  R"({"name": "dies", "process": "fpga0", "action": "kill",
                      "point": "device.ring", "nth": "5"})"),
              StartsWith("HTTP/1.1 200 "));
  EXPECT_TRUE(lab_->WaitForStrike("dies"));
  EXPECT_TRUE(lab_->WaitForRestart("fpga0"));
  EXPECT_THAT(
      Ask(port, token(1), "POST /api/v1/restart", R"({"process": "fpga0"})"),
      HasSubstr("\"state\":\"ready\""));
  EXPECT_EQ(lab_->ProcessOf("fpga0").restarts, 2u);
  // What it may not, and what there is not.
  EXPECT_THAT(Ask(port, token(0), "POST /api/v1/faults/clear", "{}"),
              StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(
      Ask(port, token(1), "POST /api/v1/policy", R"({"policy": "fastest"})"),
      StartsWith("HTTP/1.1 404 "));

  // It ends in order, and nothing of it is left.
  (*own)->Signal(SIGTERM);
  EXPECT_EQ((*own)->Wait(), 0);
}

}  // namespace
}  // namespace carillon::testing
