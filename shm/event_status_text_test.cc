#include "shm/event_status_text.h"

#include <gtest/gtest.h>

#include <set>

#include "shm/layout.h"

namespace carillon::shm {
namespace {

TEST(EventStatusText, EveryStatusHasItsOwnPhrase) {
  std::set<std::string> phrases;
  const auto last = static_cast<uint32_t>(EventStatus::kLinkLost);
  for (uint32_t status = 0; status <= last; ++status) {
    EXPECT_TRUE(phrases.insert(EventStatusText(status)).second) << status;
    EXPECT_EQ(EventStatusText(status).find("unknown status"), std::string::npos)
        << status;
  }
}

TEST(EventStatusText, AKernelsOwnCodeIsShownAsTheKernelGaveIt) {
  EXPECT_EQ(EventStatusText(1042), "the kernel failed with code 42");
  EXPECT_EQ(EventStatusText(999), "unknown status 999");
}

}  // namespace
}  // namespace carillon::shm
