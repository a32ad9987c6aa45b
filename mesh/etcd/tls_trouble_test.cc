#include "mesh/etcd/tls_trouble.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/subprocess.h"
#include "base/temp_directory.h"
#include "base/testing/eventually.h"
#include "base/testing/test_ca.h"

namespace carillon::mesh {
namespace {

using ::testing::HasSubstr;

// OpenSSL's own server, which wants a certificate as etcd does.
class Server {
 public:
  explicit Server(const TlsFiles& files) {
    auto process = Subprocess::Start(
        {.argv = {"openssl", "s_server", "-accept", "127.0.0.1:0", "-www",
                  "-tls1_3", "-cert", files.certificate, "-key", files.key,
                  "-CAfile", files.ca, "-Verify", "1", "-verify_return_error"},
         .log_path = log()});
    EXPECT_TRUE(process.ok()) << process.status();
    process_ = std::make_unique<Subprocess>(*std::move(process));
    EXPECT_TRUE(Eventually([&] {
      std::ostringstream text;
      text << std::ifstream(log()).rdbuf();
      const std::string said = text.str();
      constexpr std::string_view kAccepts = "ACCEPT ";
      const size_t at = said.find(kAccepts);
      const size_t end = said.find('\n', at);
      if (at == said.npos || end == said.npos) return false;
      const size_t begin = at + kAccepts.size();
      const auto address = ReadHostPort(said.substr(begin, end - begin));
      if (address.ok()) address_ = *address;
      return address.ok();
    }));
  }

  const HostPort& address() const { return address_; }

 private:
  std::string log() const { return folder_.path() + "/server.log"; }

  const TempDirectory folder_ = *TempDirectory::Make();
  std::unique_ptr<Subprocess> process_;
  HostPort address_;
};

class TlsTroubleTest : public ::testing::Test {
 protected:
  static TlsFiles Issue(const TestCa& ca, const std::string& host,
                        const std::string& ends = "20991231235959Z") {
    return ca.Issue({.name = host,
                     .alternative_names = "URI:carillon:role:link,DNS:" + host,
                     .ends = ends});
  }
  // Of host a with `files`, of an etcd that host b starts.
  static std::string Trouble(const Server& server, const TlsFiles& files) {
    const absl::Status found = FindTlsTrouble(server.address(), files, "b");
    EXPECT_TRUE(found.ok() || absl::IsPermissionDenied(found)) << found;
    return std::string(found.message());
  }

  const TempDirectory folder_ = *TempDirectory::Make();
  const TempDirectory other_folder_ = *TempDirectory::Make();
  const TestCa ca_{folder_.path()};
  const TestCa other_ca_{other_folder_.path(), "other"};
  const TlsFiles a_ = Issue(ca_, "a");
  const TlsFiles b_ = Issue(ca_, "b");
};

TEST_F(TlsTroubleTest, ItSaysNothingWhereAllIsWellOrNobodyIsThere) {
  HostPort nobody;
  {
    const Server server(b_);
    EXPECT_EQ(Trouble(server, a_), "");
    nobody = server.address();
  }
  EXPECT_TRUE(FindTlsTrouble(nobody, a_, "b").ok());
}

TEST_F(TlsTroubleTest, ItSaysWhoseCertificateDoesNotDoAndWhy) {
  const Server server(b_);
  TlsFiles believes_another = a_;
  believes_another.ca = other_ca_.file();
  EXPECT_THAT(Trouble(server, believes_another),
              AllOf(HasSubstr("etcd on " + server.address().ToString()),
                    HasSubstr("certificate does not do: ")));
  TlsFiles of_another = Issue(other_ca_, "a");
  of_another.ca = ca_.file();
  EXPECT_THAT(Trouble(server, of_another),
              HasSubstr("refuses this host's certificate"));
  const Server expired(Issue(ca_, "b", "20210101000000Z"));
  EXPECT_THAT(Trouble(expired, a_), HasSubstr("certificate has expired"));
  const Server other_host(a_);
  EXPECT_THAT(Trouble(other_host, a_), HasSubstr("and not of host 'b'"));
}

}  // namespace
}  // namespace carillon::mesh
