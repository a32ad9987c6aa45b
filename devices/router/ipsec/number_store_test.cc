#include "devices/router/ipsec/number_store.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "base/temp_directory.h"

namespace carillon::router {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

const std::string kOne(40, '1');
const std::string kTwo(40, '2');

class NumberStoreTest : public ::testing::Test {
 protected:
  void SetUp() override { std::ofstream(tunnels_) << "tunnels\n"; }
  std::unique_ptr<NumberStore> Open(std::vector<std::string> keys) {
    auto store = NumberStore::Open(tunnels_, std::move(keys));
    EXPECT_TRUE(store.ok()) << std::string(store.status().message());
    return store.ok() ? *std::move(store) : nullptr;
  }
  // What a process would find that began after a crash now: the files as they
  // are, while the other process still has them.
  std::unique_ptr<NumberStore> AfterCrash(std::vector<std::string> keys) {
    const TempDirectory other;
    const std::string path = other.path() + "/tunnels";
    std::filesystem::copy(tunnels_, path);
    std::filesystem::copy(path_, path + ".numbers");
    auto store = NumberStore::Open(path, std::move(keys));
    EXPECT_TRUE(store.ok()) << std::string(store.status().message());
    return store.ok() ? *std::move(store) : nullptr;
  }

  const TempDirectory directory_;
  const std::string tunnels_ = directory_.path() + "/tunnels";
  const std::string path_ = tunnels_ + ".numbers";  // the file of numbers
};

TEST_F(NumberStoreTest, ACrashAtAnyMomentLeavesNoNumberThatMayPassAgain) {
  const auto store = Open({kOne, kTwo});
  EXPECT_EQ(store->limit(0), 0u);
  for (uint32_t number = 1; number < 100; ++number) {
    const size_t key = number % 2;
    ASSERT_TRUE(store->Cover(key, number).ok());
    EXPECT_GE(store->limit(key), number);
    const auto after = AfterCrash({kOne, kTwo});
    EXPECT_GE(after->limit(key), number);
    EXPECT_EQ(after->limit(0), store->limit(0));
    EXPECT_EQ(after->limit(1), store->limit(1));
  }
}

TEST_F(NumberStoreTest, AKeyIsRememberedWhenItIsNotInUse) {
  { ASSERT_TRUE(Open({kOne})->Cover(0, 7000).ok()); }
  { ASSERT_TRUE(Open({kTwo})->Cover(0, 5).ok()); }
  const auto store = Open({"", kTwo, kOne});
  EXPECT_EQ(store->limit(0), 0u);
  EXPECT_GE(store->limit(1), 5u);
  EXPECT_LT(store->limit(1), 7000u);
  EXPECT_GE(store->limit(2), 7000u);
}

TEST_F(NumberStoreTest, FastNumbersAreWrittenSeldom) {
  const auto store = Open({kOne});
  int writes = 0;
  uint32_t before = 0;
  constexpr uint32_t kNumbers = 1'000'000;
  for (uint32_t number = 1; number <= kNumbers; ++number) {
    ASSERT_TRUE(store->Cover(0, number).ok());
    writes += store->limit(0) != before;
    before = store->limit(0);
  }
  EXPECT_LT(writes, 100);
  EXPECT_LE(store->limit(0), kNumbers + NumberStore::kMostAhead);
}

TEST_F(NumberStoreTest, AnEndInOrderSkipsNothing) {
  {
    const auto store = Open({kOne});
    ASSERT_TRUE(store->Cover(0, 100).ok());
    EXPECT_GT(store->limit(0), 100u);
    ASSERT_TRUE(store->Settle(0, 100).ok());
  }
  EXPECT_EQ(Open({kOne})->limit(0), 100u);
}

TEST_F(NumberStoreTest, TheLastNumberIsTheEnd) {
  const auto store = Open({kOne});
  constexpr uint32_t kLast = std::numeric_limits<uint32_t>::max();
  ASSERT_TRUE(store->Cover(0, kLast - 5).ok());
  EXPECT_EQ(store->limit(0), kLast);
}

TEST_F(NumberStoreTest, NobodyElseHasItMeanwhile) {
  auto store = Open({kOne});
  const std::string symbolic = directory_.path() + "/symbolic";
  const std::string hard = directory_.path() + "/hard";
  std::filesystem::create_symlink("tunnels", symbolic);
  std::filesystem::create_hard_link(tunnels_, hard);
  const auto expect_refused = [&](const std::string& name) {
    const auto second = NumberStore::Open(name, {kOne});
    EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists) << name;
    EXPECT_THAT(std::string(second.status().message()),
                HasSubstr("another process uses these tunnels"));
  };
  expect_refused(hard);
  // Another file takes the place of the one that is in use.
  std::ofstream(tunnels_ + ".new") << "tunnels\n";
  std::filesystem::rename(tunnels_ + ".new", tunnels_);
  expect_refused(symbolic);
  store.reset();
  EXPECT_NE(Open({kOne}), nullptr);
}

TEST_F(NumberStoreTest, ASymbolicLinkLeadsToTheSameNumbers) {
  { ASSERT_TRUE(Open({kOne})->Cover(0, 7000).ok()); }
  const TempDirectory other;
  const std::string link = other.path() + "/link";
  std::filesystem::create_symlink(tunnels_, link);
  const auto store = NumberStore::Open(link, {kOne});
  ASSERT_TRUE(store.ok()) << std::string(store.status().message());
  EXPECT_GE((*store)->limit(0), 7000u);
  EXPECT_EQ(NumberStore::Open(other.path() + "/none", {}).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(NumberStoreTest, AFileThatWasCutAnywhereStopsIt) {
  {
    const auto store = Open({kOne, kTwo});
    ASSERT_TRUE(store->Cover(0, 123'456).ok());
    ASSERT_TRUE(store->Cover(1, 123'456).ok());
  }
  const auto whole = std::filesystem::file_size(path_);
  ASSERT_NE(Open({kOne}), nullptr);
  for (auto bytes = whole; bytes-- > 0;) {
    std::filesystem::resize_file(path_, bytes);
    const auto store = NumberStore::Open(tunnels_, {kOne});
    EXPECT_EQ(store.status().code(), absl::StatusCode::kInvalidArgument)
        << bytes << " of " << whole << " bytes";
  }
}

TEST_F(NumberStoreTest, ADamagedFileStopsItInsteadOfBeginningAnew) {
  { ASSERT_TRUE(Open({kTwo})->Cover(0, 3).ok()); }
  std::ifstream in(path_);
  std::string first, entry, last;
  std::getline(in, first);
  std::getline(in, entry);
  std::getline(in, last);
  for (const std::string& damage :
       {kOne + "\n", kOne + " many\n", kOne + " 4294967296\n", kOne + " 1 2\n",
        std::string("1111 5\n"), kTwo + " 2\n", first + "\n"}) {
    std::ofstream(path_) << first << '\n'
                         << entry << '\n'
                         << damage << last << '\n';
    const auto store = NumberStore::Open(tunnels_, {kTwo});
    EXPECT_EQ(store.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(store.status().message()),
                ContainsRegex("line 3 (is damaged|has a key)"));
  }
}

TEST_F(NumberStoreTest, WhatCannotBeWrittenMayNotPass) {
  const auto store = Open({kOne});
  // A folder stands where the new file should go, which stops root, too.
  std::filesystem::create_directory(path_ + ".new");
  EXPECT_FALSE(store->Cover(0, 1).ok());
  EXPECT_EQ(store->limit(0), 0u);
  std::filesystem::remove(path_ + ".new");
  EXPECT_TRUE(store->Cover(0, 1).ok());
}

}  // namespace
}  // namespace carillon::router
