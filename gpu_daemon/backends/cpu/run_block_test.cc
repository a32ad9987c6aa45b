#include "gpu_daemon/backends/cpu/run_block.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <sstream>

#include "kernels/simt/simt.h"

namespace carillon::gpud {
namespace {

struct NoArgs {
  uint32_t unused;
};

// Each waits where the other never comes.
CARILLON_BARRIER_KERNEL(deadlock, NoArgs, args, self) {
  if (self.lane() == 0) {
    CARILLON_SYNC_WARP_MASK(self, 0x3u);
  } else {
    CARILLON_SYNC_THREADS(self);
  }
  CARILLON_EXIT;
}
CARILLON_KERNEL_INFO(deadlock, NoArgs, "waits for ever", simt::Registers(8),
                     CARILLON_PARAM(NoArgs, unused, "nothing"));

TEST(RunBlock, LogsWhatTheBackEndSaysAboutAFailure) {
  std::ostringstream log;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
  const KernelMetadata kmd{
      .kernel = &deadlock_info, .grid = {1, 1, 1}, .block = {2, 1, 1}};
  const NoArgs args{};
  uint32_t status = 0;
  RunBlock(kmd, 0, &args, &status);
  spdlog::set_default_logger(before);
  EXPECT_NE(status, 0u);
  EXPECT_THAT(log.str(),
              testing::HasSubstr("kernel deadlock, block (0,0,0): "));
}

}  // namespace
}  // namespace carillon::gpud
