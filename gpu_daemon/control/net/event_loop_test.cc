#include "gpu_daemon/control/net/event_loop.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <memory>
#include <thread>
#include <vector>

namespace carillon::gpud {
namespace {

class EventLoopTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto loop = EventLoop::Create();
    ASSERT_TRUE(loop.ok()) << loop.status();
    loop_ = *std::move(loop);
  }
  std::unique_ptr<EventLoop> loop_;
};

TEST_F(EventLoopTest, CallsBackWhileADescriptorIsReadable) {
  const UniqueFd fd(eventfd(1, EFD_CLOEXEC));
  int calls = 0;
  ASSERT_TRUE(loop_
                  ->Watch(fd.get(),
                          [&] {
                            if (++calls == 3) loop_->Stop();
                          })
                  .ok());
  loop_->Run();
  EXPECT_EQ(calls, 3);
}

TEST_F(EventLoopTest, ACallbackMayEndItsOwnWatch) {
  const UniqueFd first(eventfd(1, EFD_CLOEXEC));
  int calls = 0;
  EventLoop::WatchId id = 0;
  auto watch = loop_->Watch(first.get(), [&] {
    ++calls;
    loop_->Unwatch(id);
    loop_->Post([&] { loop_->Stop(); });
  });
  ASSERT_TRUE(watch.ok());
  id = *watch;
  loop_->Run();
  EXPECT_EQ(calls, 1);
}

TEST_F(EventLoopTest, APipesEndIsReported) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  bool called = false;
  ASSERT_TRUE(loop_
                  ->Watch(reader.get(),
                          [&] {
                            called = true;
                            loop_->Stop();
                          })
                  .ok());
  writer.reset();
  loop_->Run();
  EXPECT_TRUE(called);
}

TEST_F(EventLoopTest, PostedCallsRunInOrderOnTheLoopsThread) {
  std::vector<int> order;
  std::thread::id ran_on;
  std::thread poster([&] {
    for (int i = 0; i < 100; ++i) {
      loop_->Post([&, i] { order.push_back(i); });
    }
    loop_->Post([&] {
      ran_on = std::this_thread::get_id();
      loop_->Stop();
    });
  });
  loop_->Run();
  poster.join();
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[i], i);
  EXPECT_EQ(ran_on, std::this_thread::get_id());
}

TEST_F(EventLoopTest, TheClockKeepsCalling) {
  int turns = 0;
  ASSERT_TRUE(loop_
                  ->Every(std::chrono::milliseconds(1),
                          [&] {
                            if (++turns == 5) loop_->Stop();
                          })
                  .ok());
  loop_->Run();
  EXPECT_EQ(turns, 5);
}

TEST_F(EventLoopTest, AStopThatCameFirstCounts) {
  loop_->Stop();
  loop_->Run();
}

}  // namespace
}  // namespace carillon::gpud
