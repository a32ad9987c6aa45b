#include "gpu_daemon/control/net/ticket_store.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace carillon::gpud {
namespace {

constexpr PeerCredentials kOwner{.pid = 100, .uid = 1000};
constexpr Nanoseconds kNow = 1'000'000'000;
constexpr Nanoseconds kLate = kNow + TicketStore::kValidNs + 1;

void ExpectDenied(const absl::StatusOr<uint32_t>& redeemed,
                  const std::string& why) {
  ASSERT_EQ(redeemed.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_NE(std::string(redeemed.status().message()).find(why),
            std::string::npos)
      << redeemed.status();
}

TEST(TicketStore, ATicketIsGoodOnce) {
  TicketStore office;
  const auto ticket = office.Issue(7, kOwner, kNow);
  ASSERT_TRUE(ticket.ok());
  const auto redeemed = office.Redeem(*ticket, kOwner, kNow + 1);
  ASSERT_TRUE(redeemed.ok()) << redeemed.status();
  EXPECT_EQ(*redeemed, 7u);
  ExpectDenied(office.Redeem(*ticket, kOwner, kNow + 2), "already used");
}

TEST(TicketStore, ATicketExpires) {
  TicketStore office;
  const auto ticket = office.Issue(7, kOwner, kNow);
  ASSERT_TRUE(ticket.ok());
  ExpectDenied(office.Redeem(*ticket, kOwner, kLate), "expired");
  EXPECT_EQ(office.TakeExpired(kLate), std::vector<uint32_t>{7});
  EXPECT_TRUE(office.TakeExpired(kLate).empty());
  ExpectDenied(office.Redeem(*ticket, kOwner, kNow), "expired");
}

TEST(TicketStore, AUsedTicketDoesNotExpireItsDevice) {
  TicketStore office;
  const auto ticket = office.Issue(7, kOwner, kNow);
  ASSERT_TRUE(office.Redeem(*ticket, kOwner, kNow).ok());
  EXPECT_TRUE(office.TakeExpired(kLate).empty());
}

TEST(TicketStore, ATicketIsGoodForItsProcessOnly) {
  TicketStore office;
  const auto ticket = office.Issue(7, kOwner, kNow);
  ASSERT_TRUE(ticket.ok());
  ExpectDenied(office.Redeem(*ticket, {.pid = 101, .uid = 1000}, kNow),
               "issued to process 100");
  ExpectDenied(office.Redeem(*ticket, {.pid = 100, .uid = 0}, kNow),
               "issued to process 100");
  EXPECT_TRUE(office.Redeem(*ticket, kOwner, kNow).ok());
}

TEST(TicketStore, AnUnknownTicketIsRefused) {
  TicketStore office;
  ASSERT_TRUE(office.Issue(7, kOwner, kNow).ok());
  ExpectDenied(office.Redeem(shm::Ticket{}, kOwner, kNow), "unknown ticket");
}

TEST(TicketStore, ARevokedTicketIsWorthNothing) {
  TicketStore office;
  const auto ticket = office.Issue(7, kOwner, kNow);
  office.Revoke(7);
  EXPECT_FALSE(office.Redeem(*ticket, kOwner, kNow).ok());
  EXPECT_TRUE(office.TakeExpired(kLate).empty());
}

TEST(TicketStore, NoTwoTicketsAreTheSame) {
  std::set<shm::Ticket> seen;
  for (int i = 0; i < 1000; ++i) {
    const auto ticket = RandomTicket();
    ASSERT_TRUE(ticket.ok());
    EXPECT_TRUE(seen.insert(*ticket).second);
  }
}

}  // namespace
}  // namespace carillon::gpud
