// A GPU of 8 SMs, the last 4 of which may be reserved: windows of 100 cycles, a
// background that weighs 12 events, and two low windows until an SM is given
// back.
#include "sim/timing/edge/reservation.h"

#include <gtest/gtest.h>

namespace carillon::sim::timing {
namespace {

Config AConfig(Reservation reservation) {
  Config config;
  config.sm.count = 8;
  config.edge.reservation = reservation;
  config.edge.reserve_sms = 4;
  config.edge.reserve_window = 100;
  config.edge.reserve_load = 12;
  config.edge.reserve_hold = 2;
  return config;
}

TEST(Reservation, StaticIsAlwaysTheSame) {
  const Config config = AConfig(Reservation::kStatic);
  SmReservation reservation(config);
  EXPECT_EQ(reservation.sms(), 4u);
  EXPECT_EQ(reservation.next(), kNever);
  EXPECT_FALSE(reservation.Advance(1000, 100));
  EXPECT_EQ(reservation.sms(), 4u);
}

TEST(Reservation, DynamicGrowsAtOnceWithTheLoad) {
  const Config config = AConfig(Reservation::kDynamic);
  SmReservation reservation(config);
  EXPECT_EQ(reservation.sms(), 0u);
  EXPECT_EQ(reservation.next(), kNever);
  // Three events for half of the window, 1.5 on average: 8 * 1.5 / 13.5.
  EXPECT_FALSE(reservation.Advance(50, 3));
  EXPECT_EQ(reservation.next(), 100u);
  EXPECT_TRUE(reservation.Advance(100, 3));
  EXPECT_EQ(reservation.sms(), 1u);
  // Three for a whole one: 8 * 3 / 15.
  EXPECT_TRUE(reservation.Advance(200, 3));
  EXPECT_EQ(reservation.sms(), 2u);
  // The reservation has its limit.
  EXPECT_FALSE(reservation.Advance(200, 50));
  EXPECT_TRUE(reservation.Advance(300, 50));
  EXPECT_EQ(reservation.sms(), 4u);
}

TEST(Reservation, DynamicShrinksByOneAfterLowWindows) {
  const Config config = AConfig(Reservation::kDynamic);
  SmReservation reservation(config);
  reservation.Advance(0, 6);
  EXPECT_TRUE(reservation.Advance(100, 1));
  EXPECT_EQ(reservation.sms(), 3u);
  EXPECT_FALSE(reservation.Advance(200, 1));
  EXPECT_TRUE(reservation.Advance(300, 1));
  EXPECT_EQ(reservation.sms(), 2u);
  EXPECT_FALSE(reservation.Advance(400, 4));
  // A window that needs as many SMs restarts the count of low windows.
  EXPECT_FALSE(reservation.Advance(500, 1));
  EXPECT_FALSE(reservation.Advance(600, 1));
  EXPECT_TRUE(reservation.Advance(700, 1));
  EXPECT_EQ(reservation.sms(), 1u);
}

TEST(Reservation, WindowsThatNobodySawCountAsWell) {
  const Config config = AConfig(Reservation::kDynamic);
  SmReservation reservation(config);
  reservation.Advance(0, 6);
  reservation.Advance(100, 0);
  EXPECT_EQ(reservation.sms(), 3u);
  // Six windows without an event.
  EXPECT_TRUE(reservation.Advance(750, 0));
  EXPECT_EQ(reservation.sms(), 0u);
  EXPECT_EQ(reservation.next(), kNever);
  // After a long pause, windows begin where they would have begun without it.
  EXPECT_FALSE(reservation.Advance(1'000'050, 2));
  EXPECT_EQ(reservation.next(), 1'000'100u);
  EXPECT_TRUE(reservation.Advance(1'000'100, 2));
  EXPECT_EQ(reservation.sms(), 1u);
}

}  // namespace
}  // namespace carillon::sim::timing
