#include "base/host_port.h"

#include <gtest/gtest.h>

#include <string>

namespace carillon {
namespace {

TEST(HostPort, IsReadAsItIsWritten) {
  for (const char* text : {"127.0.0.1:4000", "[::1]:0", "[fe80::1]:65535",
                           "lab-7.example.org:1", "localhost:80"}) {
    const auto read = ReadHostPort(text);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->ToString(), text);
  }
  EXPECT_EQ(ReadHostPort("[::1]:7")->host, "::1");
  EXPECT_EQ(ReadHostPort("[::1]:7")->port, 7);
}

TEST(HostPort, AnythingElseIsRefused) {
  for (const char* text :
       {"", ":", "host", "host:", ":80", "host:-1", "host:65536", "host:8o",
        "host: 80", "host:80 ", "::1:80", "[::1]", "[::1:80", "[host]:80",
        "a b:80", "host/x:80", "\x01:80", "host:+80"}) {
    EXPECT_EQ(ReadHostPort(text).status().code(),
              absl::StatusCode::kInvalidArgument)
        << text;
  }
  EXPECT_FALSE(ReadHostPort(std::string(300, 'a') + ":1").ok());
}

TEST(HostPort, WhereToListenIsToldInNumbers) {
  EXPECT_TRUE(ReadListenAddress("0.0.0.0:0").ok());
  EXPECT_TRUE(ReadListenAddress("[::]:4000").ok());
  EXPECT_FALSE(ReadListenAddress("localhost:4000").ok());
  EXPECT_FALSE(ReadListenAddress("256.0.0.1:4000").ok());
}

}  // namespace
}  // namespace carillon
