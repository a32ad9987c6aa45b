#include "devices/nic/request.h"

#include <gtest/gtest.h>

namespace carillon::nic {
namespace {

TEST(TypeOfRequest, OnlyRetrievalsWithAnArgumentAreGets) {
  for (const char* text :
       {"get k\r\n", "gets k\r\n", "get a b c\r\n", "  get k\r\n", "get \r\n",
        "gets  k\n", "gat 0 k\r\n", "gats 0 k\r\n", "mg k v\r\n"}) {
    EXPECT_EQ(TypeOfRequest(text), RequestType::kGet) << text;
  }
  for (const char* text :
       {"set k 0 0 1\r\na\r\n", "get", "gets", "get\r\n", "gets\r\n", "GET k",
        "getx k", "gat", "gab k", "g", "", "   ", "\r\n", "delete get k", "mg",
        "mgk", "ms k 1\r\na\r\n", "mn\r\n"}) {
    EXPECT_EQ(TypeOfRequest(text), RequestType::kSet) << text;
  }
}

TEST(TypeOfRequest, ReadsNothingBehindTheText) {
  const std::string_view text = "get key";
  EXPECT_EQ(TypeOfRequest(text.substr(0, 3)), RequestType::kSet);
  EXPECT_EQ(TypeOfRequest(text.substr(0, 4)), RequestType::kGet);
}

}  // namespace
}  // namespace carillon::nic
