// `carillon --gpud`: a real gpud over TCP, as people on other machines use it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include "base/testing/test_ca.h"
#include "base/unique_fd.h"
#include "tools/cli/cli_runner.h"
#include "tools/testbed/supervisor/test_util.h"

namespace carillon::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

class RemoteTest : public testing::Test {
 protected:
  // Lets `up` run the gpud, so that its ready line is checked, too.
  void Start(const TlsFiles& tls) {
    const std::string topology = folder_.path() + "/lab.yaml";
    std::ofstream(topology) << fmt::format(
        "name: lab\nfaults: true\ngpu:\n  backend: cpu\n  workers: 1\n  "
        "memory: 64MiB\n  listen: 127.0.0.1:0\n  tls:\n    certificate: {}\n   "
        " key: {}\n    client_ca: ca/ca.pem\n",
        tls.certificate, tls.key);
    up_ = std::make_unique<CliRun>(
        std::vector<std::string>{"up", "-f", topology});
    ASSERT_TRUE(Eventually([&] {
      std::smatch match;
      const std::string said = up_->err();
      if (!std::regex_search(said, match,
                             std::regex(R"(listens on ([0-9.]+:(\d+)))"))) {
        return false;
      }
      address_ = match[1];
      port_ = match[2];
      return true;
    })) << up_->err();
  }
  void TearDown() override {
    if (up_ == nullptr) return;
    kill(up_->pid(), SIGTERM);
    EXPECT_EQ(up_->Wait().code, 0);
  }

  CliResult Call(std::vector<std::string> words, const TlsFiles& files,
                 const std::string& address = "") {
    words.insert(words.end(), {"--gpud", address.empty() ? address_ : address,
                               "--tls-ca", files.ca, "--tls-cert",
                               files.certificate, "--tls-key", files.key});
    return RunCli(words);
  }

  testbed::TestFolder folder_;
  TestCa ca_{folder_.path()};
  std::unique_ptr<CliRun> up_;
  std::string address_;
  std::string port_;
};

constexpr const char* kNoLocalhost = "no /etc/hosts here names localhost";

bool KnowsLocalhost() {
  addrinfo* found = nullptr;
  if (getaddrinfo("localhost", nullptr, nullptr, &found) != 0) return false;
  freeaddrinfo(found);
  return true;
}

TEST_F(RemoteTest, EachRoleDoesItsOwn) {
  Start(ca_.IssueGpud());
  const TlsFiles viewer = ca_.IssueRole("viewer");
  const TlsFiles steers = ca_.IssueRole("operator");
  const TlsFiles breaks = ca_.IssueRole("fault-injector");

  const CliResult status = Call({"status", "-o", "json"}, viewer);
  EXPECT_EQ(status.code, 0) << status.err;
  EXPECT_EQ(status.json()["testbed"], "lab");
  EXPECT_EQ(status.json()["listen"], address_);
  for (const char* command :
       {"status", "devices", "ekt", "rings", "queues", "kernels", "policy"}) {
    EXPECT_EQ(Call({command}, viewer).code, 0) << command;
  }

  const CliResult refused = Call({"policy", "priority"}, viewer);
  EXPECT_EQ(refused.code, 5);
  EXPECT_THAT(
      refused.err,
      HasSubstr("carillon: Admin.SetPolicy needs the role operator; the "
                "certificate of CN=viewer carries viewer: ask the owner of the "
                "CA for "
                "one with URI:carillon:role:operator\n"));
  EXPECT_EQ(Call({"policy", "priority"}, steers).code, 0);
  EXPECT_EQ(Call({"status", "-o", "json"}, viewer).json()["policy"],
            "priority");

  // A role that may break things changes a board elsewhere; one that may look
  // sees it.
  EXPECT_EQ(Call({"fault", "inject", "gpud", "stop", "--for", "1ms", "--after",
                  "1000s", "--as", "later"},
                 viewer)
                .code,
            5);
  const CliResult injected = Call({"fault", "inject", "gpud", "stop", "--for",
                                   "1ms", "--after", "1000s", "--as", "later"},
                                  breaks);
  EXPECT_EQ(injected.code, 0) << injected.err;
  const CliResult listed = Call({"fault", "list", "-o", "json"}, viewer);
  ASSERT_EQ(listed.json()["faults"].size(), 1u) << listed.out << listed.err;
  EXPECT_EQ(listed.json()["faults"][0]["name"], "later");
  EXPECT_EQ(listed.json()["processes"][0]["process"], "gpud");
  // The board itself shows the same.
  EXPECT_EQ(RunCli({"fault", "list", "-o", "json"}).json()["faults"],
            listed.json()["faults"]);
  EXPECT_EQ(Call({"fault", "clear", "nobody"}, breaks).code, 3);
  EXPECT_EQ(Call({"fault", "clear", "later"}, breaks).code, 0);
  EXPECT_EQ(
      Call({"fault", "list", "-o", "json"}, viewer).json()["faults"].size(),
      0u);
}

TEST_F(RemoteTest, WhyItDoesNotGetThroughIsSaid) {
  Start(ca_.IssueGpud());
  const TestCa stranger(folder_.path(), "stranger");
  const TlsFiles viewer = ca_.IssueRole("viewer");
  const auto words = [&](const TlsFiles& files, const std::string& address,
                         int code) {
    const CliResult result = Call({"status"}, files, address);
    EXPECT_EQ(result.code, code) << result.err;
    return result.err;
  };
  TlsFiles wary = viewer;
  wary.ca = stranger.file();
  EXPECT_THAT(words(wary, "", 5),
              HasSubstr("is not to be trusted by the CA in " + wary.ca));
  TlsFiles foreign = stranger.IssueRole("operator");
  foreign.ca = ca_.file();
  EXPECT_THAT(words(foreign, "", 5),
              HasSubstr("refuses the certificate in " + foreign.certificate));
  EXPECT_THAT(words(viewer, "127.0.0.2:" + port_, 4), HasSubstr("--listen"));
  EXPECT_THAT(words(viewer, "nowhere.invalid:1", 4),
              HasSubstr("cannot reach gpud at nowhere.invalid:1: "));
  TlsFiles expired = ca_.Issue({.name = "old", .ends = "20210101000000Z"});
  EXPECT_THAT(words(expired, "", 2), HasSubstr("expired on"));

  // A port with no listener, and one whose listener is no gpud.
  const UniqueFd silent(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(here);
  ASSERT_EQ(
      bind(silent.get(), reinterpret_cast<sockaddr*>(&here), sizeof(here)), 0);
  getsockname(silent.get(), reinterpret_cast<sockaddr*>(&here), &size);
  const std::string other = fmt::format("127.0.0.1:{}", ntohs(here.sin_port));
  EXPECT_THAT(
      words(viewer, other, 4),
      HasSubstr("Connection refused; does it run there with --listen?"));
  ASSERT_EQ(listen(silent.get(), 8), 0);
  EXPECT_THAT(words(viewer, other, 4), HasSubstr("did not answer"));
}

TEST_F(RemoteTest, AnotherNameThanTheCertificatesIsRefused) {
  Start(ca_.Issue(
      {.name = "gpud", .alternative_names = "DNS:lab.example,IP:10.9.8.7"}));
  const TlsFiles viewer = ca_.IssueRole("viewer");
  const CliResult by_number = Call({"status"}, viewer);
  EXPECT_EQ(by_number.code, 5);
  EXPECT_THAT(by_number.err, HasSubstr("is not for the name 127.0.0.1"));
}

TEST_F(RemoteTest, ByNameAHostIsReached) {
  if (!KnowsLocalhost()) GTEST_SKIP() << kNoLocalhost;
  Start(ca_.IssueGpud());
  EXPECT_EQ(
      Call({"status"}, ca_.IssueRole("viewer"), "localhost:" + port_).code, 0);
}

TEST_F(RemoteTest, ByNameAnotherThanTheCertificatesIsRefused) {
  if (!KnowsLocalhost()) GTEST_SKIP() << kNoLocalhost;
  Start(ca_.Issue({.name = "gpud", .alternative_names = "IP:127.0.0.1"}));
  const CliResult by_name =
      Call({"status"}, ca_.IssueRole("viewer"), "localhost:" + port_);
  EXPECT_EQ(by_name.code, 5);
  EXPECT_THAT(by_name.err, HasSubstr("is not for the name localhost"));
}

TEST_F(RemoteTest, OptionsGoTogether) {
  const TlsFiles viewer = ca_.IssueRole("viewer");
  const auto words = [](const std::vector<std::string>& line) {
    const CliResult result = RunCli(line);
    EXPECT_EQ(result.code, 2) << result.err;
    return result.err;
  };
  EXPECT_THAT(words({"status", "--gpud", "127.0.0.1:1"}),
              HasSubstr("missing: --tls-cert, --tls-key, --tls-ca"));
  EXPECT_THAT(words({"status", "--gpud", "127.0.0.1", "--tls-ca", viewer.ca}),
              HasSubstr("--gpud: '127.0.0.1' has no port"));
  EXPECT_THAT(words({"status", "--tls-ca", viewer.ca}),
              HasSubstr("go with --gpud"));
  EXPECT_THAT(words({"fault", "list", "--tls-key", viewer.key}),
              HasSubstr("go with --gpud"));
  EXPECT_THAT(words({"status", "--gpud", "127.0.0.1:1", "--name", "lab"}),
              HasSubstr("--name"));
}

TEST_F(RemoteTest, TheEnvironmentNamesTheFiles) {
  Start(ca_.IssueGpud());
  const TlsFiles viewer = ca_.IssueRole("viewer");
  setenv("CARILLON_TLS_CA", viewer.ca.c_str(), 1);
  setenv("CARILLON_TLS_CERT", viewer.certificate.c_str(), 1);
  setenv("CARILLON_TLS_KEY", viewer.key.c_str(), 1);
  const CliResult remote = RunCli({"status", "--gpud", address_});
  // A testbed of this machine does not need it.
  const CliResult local = RunCli({"status"});
  unsetenv("CARILLON_TLS_CA");
  unsetenv("CARILLON_TLS_CERT");
  unsetenv("CARILLON_TLS_KEY");
  EXPECT_EQ(remote.code, 0) << remote.err;
  EXPECT_EQ(local.code, 0) << local.err;
  EXPECT_THAT(local.out, HasSubstr(address_ + ", with TLS"));
}

TEST(Gpud, AnEndWithASentenceWhenItsCertificateIsWrong) {
  testbed::TestFolder folder;
  const TestCa ca(folder.path());
  const TlsFiles tls = ca.IssueGpud();
  const std::string topology = folder.path() + "/lab.yaml";
  std::ofstream(topology) << fmt::format(
      "name: lab\ngpu: {{backend: cpu, listen: '127.0.0.1:0', tls: "
      "{{certificate: {}, key: {}, client_ca: {}}}}}\n",
      tls.certificate, tls.ca, tls.ca);
  const CliResult up = RunCli({"up", "-f", topology});
  EXPECT_NE(up.code, 0);
  EXPECT_THAT(up.out + up.err, HasSubstr("holds no private key in PEM"));
}

}  // namespace
}  // namespace carillon::cli
