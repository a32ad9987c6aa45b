// What is wrong with a certificate's files is told when they are read.
#include "base/tls_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "base/temp_directory.h"
#include "base/testing/test_ca.h"
#include "fmt/format.h"

namespace carillon {
namespace {

using testing::HasSubstr;

class TlsFilesTest : public testing::Test {
 protected:
  std::string Words(const TlsFiles& files) {
    const auto read = ReadTlsFiles(files, "--tls-ca");
    if (read.ok()) return "ok";
    EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(read.status().message());
  }
  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = directory_ + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  const TempDirectory files_;
  const std::string& directory_ = files_.path();
  const TestCa ca_{directory_};
  const TlsFiles good_ = ca_.IssueRole("viewer");
};

TEST_F(TlsFilesTest, GoodFilesAreReadAsTheyAre) {
  const auto read = ReadTlsFiles(good_, "--tls-ca");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(read->certificate, HasSubstr("BEGIN CERTIFICATE"));
  EXPECT_THAT(read->key, HasSubstr("PRIVATE KEY"));
  EXPECT_NE(read->ca, read->certificate);
}

TEST_F(TlsFilesTest, EveryMissingFileIsNamed) {
  EXPECT_THAT(Words({}), HasSubstr("missing: --tls-cert, --tls-key, --tls-ca"));
  TlsFiles files = good_;
  files.key.clear();
  EXPECT_THAT(Words(files), HasSubstr("missing: --tls-key;"));
}

TEST_F(TlsFilesTest, UnreadableFilesAreNamedWithTheirOption) {
  TlsFiles files = good_;
  files.ca = directory_ + "/nothing.pem";
  EXPECT_EQ(Words(files),
            fmt::format("--tls-ca {}: No such file or directory", files.ca));
  files.ca = directory_;
  EXPECT_THAT(Words(files), HasSubstr("is no regular file"));
  // Nobody writes into it: reading would wait for ever.
  files.ca = directory_ + "/pipe";
  ASSERT_EQ(mkfifo(files.ca.c_str(), 0600), 0);
  EXPECT_THAT(Words(files), HasSubstr("is no regular file"));
  files.ca = Write("large", std::string((1 << 20) + 1, 'x'));
  EXPECT_THAT(Words(files), HasSubstr("has 1048577 bytes"));
}

TEST_F(TlsFilesTest, WhatIsNoPemIsRefused) {
  TlsFiles files = good_;
  files.certificate = files.key;
  EXPECT_THAT(Words(files), HasSubstr("holds no certificate in PEM"));
  files = good_;
  files.key = files.ca;
  EXPECT_THAT(Words(files), HasSubstr("holds no private key in PEM"));
  files = good_;
  files.ca = Write("empty", "");
  EXPECT_THAT(Words(files), HasSubstr("holds no certificate in PEM"));
  std::string text = ReadTlsFiles(good_, "--tls-ca")->ca;
  text += "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
  files.ca = Write("garbage_behind", text);
  EXPECT_THAT(Words(files), HasSubstr("what follows certificate 1"));
}

TEST_F(TlsFilesTest, AKeyOfAnotherCertificateIsRefused) {
  TlsFiles files = good_;
  files.key = ca_.IssueRole("operator").key;
  EXPECT_THAT(Words(files), HasSubstr("is not the key of the certificate in"));
}

TEST_F(TlsFilesTest, AKeyWithAPassphraseIsRefusedAndNobodyIsAsked) {
  TlsFiles files = good_;
  files.key = directory_ + "/locked.key";
  ASSERT_EQ(std::system(fmt::format("openssl pkey -aes256 -passout pass:secret "
                                    "-in '{}' -out '{}'",
                                    good_.key, files.key)
                            .c_str()),
            0);
  EXPECT_THAT(Words(files), HasSubstr("has a passphrase"));
}

TEST_F(TlsFilesTest, CertificatesOutOfTheirTimeAreRefused) {
  EXPECT_THAT(Words(ca_.Issue({.name = "old", .ends = "20210101000000Z"})),
              HasSubstr("expired on Jan  1 00:00:00 2021 GMT: the CA's owner "
                        "makes another one (docs/security.md)"));
  EXPECT_THAT(Words(ca_.Issue({.name = "young", .begins = "20980101000000Z"})),
              HasSubstr("is not valid before Jan  1 00:00:00 2098 GMT"));
}

TEST_F(TlsFilesTest, WhoIsNoCaIsNotBelieved) {
  TlsFiles files = good_;
  files.ca = good_.certificate;
  EXPECT_THAT(Words(files), HasSubstr("holds a certificate that is no CA's"));
}

}  // namespace
}  // namespace carillon
