// Frames of an FPGA, handed on from its event to one of a CPU host, which judges
// them: what is lost when one of the three processes dies is counted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "integration_tests/testbed_process.h"
#include "shm/recorder/flight_recorder.h"
#include "tools/testbed/ledger/checker.h"

namespace carillon {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::Process;
using testing::Testbed;

constexpr const char* kFpga = "devices/fpga/fpga";
constexpr const char* kHost = "devices/cpu_host/cpu_host";
constexpr const char* kResume = "--resume-within=60";

class ImagingPipelineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv(shm::FlightRecorder::kVariable, "262144", 1);
    auto testbed = Testbed::Start({"--backend", "cpu"});
    ASSERT_TRUE(testbed.ok()) << std::string(testbed.status().message());
    testbed_ = *std::move(testbed);
  }
  void TearDown() override { unsetenv(shm::FlightRecorder::kVariable); }

  std::unique_ptr<Process> Start(const std::string& name,
                                 const std::string& program,
                                 std::vector<std::string> flags) {
    flags.push_back(kResume);
    auto device = testbed_->StartDevice(name, program, flags);
    EXPECT_TRUE(device.ok()) << std::string(device.status().message());
    EXPECT_TRUE(Eventually([&] { return IsReady(name); }));
    return *std::move(device);
  }
  // Of a size that is no multiple of a block's.
  std::unique_ptr<Process> StartHost(std::vector<std::string> flags = {}) {
    flags.insert(flags.end(), {"--take-from=fpga0", "--frame-size=61x43"});
    return Start("host0", kHost, flags);
  }
  std::unique_ptr<Process> StartFpga(std::vector<std::string> flags = {}) {
    flags.insert(flags.end(), {"--kernel=conv5x5", "--size=61x43",
                               "--hand-to=host0", "--check"});
    return Start("fpga0", kFpga, flags);
  }
  bool IsReady(const std::string& name) {
    const auto devices = testbed_->Devices();
    for (const auto& device : devices.devices()) {
      if (device.name() == name && device.state() == "ready") return true;
    }
    return false;
  }
  void AwaitFrames(uint64_t more) {
    const uint64_t before = Host("frames");
    ASSERT_TRUE(Eventually([&] { return Host("frames") >= before + more; }));
  }
  uint64_t Host(const std::string& counter) {
    return testbed_->Counter("host0", counter);
  }
  uint64_t Fpga(const std::string& counter) {
    return testbed_->Counter("fpga0", counter);
  }
  // What `pattern` finds in the process's output.
  static uint64_t NumberIn(const Process& process, const std::string& pattern) {
    const std::string output = process.output();
    std::smatch found;
    if (!std::regex_search(output, found, std::regex(pattern))) {
      ADD_FAILURE() << "no " << pattern << " in:\n" << output;
      return 0;
    }
    return std::stoull(found[1].str());
  }
  // Of a device that was killed nobody knows what it had in flight.
  void ExpectEveryEventEndedOnce(const std::string& verdict = "ok") {
    std::vector<std::string> unreadable;
    const auto recordings = shm::ReadFlightRecordings(
        testbed_->paths().recorder_directory(), &unreadable);
    EXPECT_THAT(unreadable, ::testing::IsEmpty());
    const ledger::Report report = ledger::Check(recordings);
    for (const auto& violation : report.violations) {
      ADD_FAILURE() << violation.sentence;
    }
    EXPECT_EQ(ledger::VerdictName(report.verdict()), verdict);
  }

  std::unique_ptr<Testbed> testbed_;
};

TEST_F(ImagingPipelineTest, EachFrameReachesTheHostOnceAndRight) {
  // It has room for all of them, however late it looks.
  auto host = StartHost({"--frames=300", "--ring=512"});
  auto fpga = StartFpga({"--frames=300"});
  EXPECT_EQ(host->Wait(), 0);
  EXPECT_EQ(fpga->Wait(), 0);
  EXPECT_THAT(host->output(),
              HasSubstr("300 frames: 0 wrong, 0 missing, 0 twice, 0 late"));
  EXPECT_THAT(host->output(), Not(HasSubstr(" 0 activations")));
  EXPECT_THAT(fpga->output(), HasSubstr("0 not taken by 'host0'"));
  ExpectEveryEventEndedOnce();
}

TEST_F(ImagingPipelineTest, TheTableOfEventKernelsShowsTheChain) {
  auto host = StartHost();
  auto fpga = StartFpga();
  std::vector<std::string> ends;
  const auto ekt = testbed_->Ekt();
  for (const auto& entry : ekt.entries()) {
    ends.push_back(fmt::format("{}: {}>{}", entry.device(), entry.takes_from(),
                               entry.hands_to()));
  }
  EXPECT_THAT(
      ends, ::testing::UnorderedElementsAre("host0: fpga0>", "fpga0: >host0"));
}

TEST_F(ImagingPipelineTest, FramesThatNobodyTakesAreCountedAtTheirSource) {
  auto fpga = StartFpga({"--frames=50"});
  EXPECT_EQ(fpga->Wait(), 0);
  EXPECT_THAT(fpga->output(), HasSubstr("50 not taken by 'host0'"));
}

TEST_F(ImagingPipelineTest, WhenTheHostDiesEachFrameIsTakenOrCounted) {
  auto host = StartHost();
  auto fpga = StartFpga({"--fps=500"});
  ASSERT_NO_FATAL_FAILURE(AwaitFrames(50));
  host->Kill();
  // It goes on without, and says so.
  ASSERT_TRUE(Eventually([&] { return Fpga("not_taken") > 20; }));
  auto next = StartHost();
  ASSERT_NO_FATAL_FAILURE(AwaitFrames(50));
  // The last frames in flight reach it.
  fpga->Signal(SIGTERM);
  EXPECT_EQ(fpga->Wait(), 0);
  next->Signal(SIGTERM);
  ASSERT_TRUE(next->Wait().has_value());
  EXPECT_EQ(NumberIn(*next, "(\\d+) wrong, "), 0u);
  EXPECT_EQ(NumberIn(*next, "(\\d+) twice"), 0u);
  EXPECT_LE(NumberIn(*next, "(\\d+) missing"),
            NumberIn(*fpga, "(\\d+) dropped") +
                NumberIn(*fpga, "(\\d+) not taken by"));
  ExpectEveryEventEndedOnce("indeterminate");
}

TEST_F(ImagingPipelineTest, WhenTheFpgaDiesTheHostTakesTheNextOnesFrames) {
  auto host = StartHost();
  auto fpga = StartFpga();
  ASSERT_NO_FATAL_FAILURE(AwaitFrames(50));
  fpga->Kill();
  auto next = StartFpga({"--frames=100"});
  EXPECT_EQ(next->Wait(), 0);
  host->Signal(SIGTERM);
  ASSERT_TRUE(host->Wait().has_value());
  EXPECT_EQ(NumberIn(*host, "(\\d+) wrong, "), 0u);
  EXPECT_EQ(NumberIn(*host, "(\\d+) twice"), 0u);
  // Those of the first FPGA, and all that the next one knows to be taken.
  EXPECT_GE(NumberIn(*host, "(\\d+) frames: "),
            50 + 100 - NumberIn(*next, "(\\d+) not taken by"));
  ExpectEveryEventEndedOnce("indeterminate");
}

// Whatever was under way is done again: a frame may come twice, or, while one of
// the two has not come back, not be taken. Neither goes unnoticed.
TEST_F(ImagingPipelineTest, WhenGpudDiesNoFrameIsLostUnnoticed) {
  auto host = StartHost();
  auto fpga = StartFpga();
  for (int death = 0; death < 3; ++death) {
    ASSERT_NO_FATAL_FAILURE(AwaitFrames(50));
    testbed_->gpud().Kill();
    ASSERT_TRUE(testbed_->RestartGpud({"--backend", "cpu"}).ok());
    ASSERT_TRUE(
        Eventually([&] { return IsReady("host0") && IsReady("fpga0"); }));
  }
  ASSERT_NO_FATAL_FAILURE(AwaitFrames(50));
  fpga->Signal(SIGTERM);
  EXPECT_EQ(fpga->Wait(), 0);
  host->Signal(SIGTERM);
  ASSERT_TRUE(host->Wait().has_value());
  const uint64_t sent = NumberIn(*fpga, "(\\d+) frames in");
  const uint64_t not_taken = NumberIn(*fpga, "(\\d+) not taken by");
  const uint64_t frames = NumberIn(*host, "(\\d+) frames: 0 wrong");
  const uint64_t missing = NumberIn(*host, "(\\d+) missing");
  const uint64_t twice = NumberIn(*host, "(\\d+) twice");
  EXPECT_EQ(frames - twice + missing, sent);
  // What the host misses its source knows of. It may also call frames not taken
  // that the host had just before gpud died.
  EXPECT_LE(missing, not_taken);
  ExpectEveryEventEndedOnce();
}

}  // namespace
}  // namespace carillon
