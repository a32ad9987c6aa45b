#include "gpu_daemon/control/sessions/registration_table.h"

#include <gtest/gtest.h>

#include <memory>

#include "gpu_daemon/control/error_detail.h"

namespace carillon::gpud {
namespace {

using shm::DoorbellIndex;

// The table never looks into the event kernels in these tests, so they are
// places in memory only.
class RegistrationTableTest : public ::testing::Test {
 protected:
  std::shared_ptr<RegisteredEvent> Add(uint32_t doorbell) {
    const auto place = std::make_shared<char>();
    std::shared_ptr<RegisteredEvent> event(
        place, reinterpret_cast<RegisteredEvent*>(place.get()));
    table_.Add(DoorbellIndex(doorbell), {.event = event});
    return event;
  }

  RegistrationTable table_{"nic0", 16};
};

TEST_F(RegistrationTableTest, GivesTheLowestDoorbellThatIsFree) {
  EXPECT_EQ(table_.FreeDoorbell()->value(), 0u);
  for (const uint32_t doorbell : {0, 1, 3}) Add(doorbell);
  EXPECT_EQ(table_.FreeDoorbell()->value(), 2u);
  for (uint32_t doorbell = 0; doorbell < 16; ++doorbell) Add(doorbell);
  const auto refused = table_.FreeDoorbell().status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(DetailOf(refused).reason(), reason::kEktFull);
}

TEST_F(RegistrationTableTest, GivesTheSameDoorbellOnlyIfItIsThereAndFree) {
  EXPECT_EQ(table_.SameDoorbell(5)->value(), 5u);
  Add(5);
  EXPECT_EQ(table_.SameDoorbell(5).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(table_.SameDoorbell(16).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(RegistrationTableTest, NobodyFindsWhatClosesButItsDoorbellStaysTaken) {
  const auto event = Add(0);
  ASSERT_TRUE(table_.Find(0).ok());
  ASSERT_TRUE(table_.StartClosing(0).ok());
  EXPECT_EQ(DetailOf(table_.Find(0).status()).reason(), reason::kUnknownEvent);
  EXPECT_FALSE(table_.StartClosing(0).ok());
  EXPECT_TRUE(table_.Check(0).ok());
  EXPECT_EQ(table_.FreeDoorbell()->value(), 1u);
  EXPECT_TRUE(table_.Remove(0, *event));
  EXPECT_EQ(table_.FreeDoorbell()->value(), 0u);
  EXPECT_FALSE(table_.Check(0).ok());
}

TEST_F(RegistrationTableTest, BoundsHowManyCloseAtOnce) {
  for (uint32_t id = 0; id <= RegistrationTable::kMaxClosing; ++id) Add(id);
  for (uint32_t id = 0; id < RegistrationTable::kMaxClosing; ++id) {
    ASSERT_TRUE(table_.StartClosing(id).ok());
  }
  const auto refused =
      table_.StartClosing(RegistrationTable::kMaxClosing).status();
  EXPECT_EQ(DetailOf(refused).reason(), reason::kTooMany);
}

TEST_F(RegistrationTableTest, RemovesNothingOfALaterRegistration) {
  const auto first = Add(0);
  EXPECT_EQ(table_.TakeAll().size(), 1u);
  EXPECT_FALSE(table_.Remove(0, *first));
  Add(0);
  EXPECT_FALSE(table_.Remove(0, *first));
  EXPECT_TRUE(table_.Find(0).ok());
}

}  // namespace
}  // namespace carillon::gpud
