#include "devices/fpga/frame_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "devices/fpga/image.h"

namespace carillon::fpga {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class FrameSourceTest : public ::testing::Test {
 protected:
  FrameSourceTest() {
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directory(directory_);
  }
  ~FrameSourceTest() override { std::filesystem::remove_all(directory_); }
  void Write(const std::string& name, uint32_t width, uint8_t grey) {
    const GreyImage image{.width = width,
                          .height = 2,
                          .pixels = std::vector<uint8_t>(width * 2, grey)};
    ASSERT_TRUE(WritePgm(directory_ + "/" + name, image).ok());
  }
  absl::Status Error(const std::string& source) {
    return MakeFrameSource(source, 0, 0).status();
  }
  const std::string directory_ = ::testing::TempDir() + "/frame_source_test";
};

TEST_F(FrameSourceTest, ADirectoryIsShownInTheOrderOfNamesAgainAndAgain) {
  Write("b.pgm", 3, 2);
  Write("a.pgm", 3, 1);
  Write("c.pgm", 3, 3);
  std::ofstream(directory_ + "/README") << "not an image";
  auto source = MakeFrameSource(directory_, 0, 0);
  ASSERT_TRUE(source.ok()) << std::string(source.status().message());
  EXPECT_EQ((*source)->width(), 3u);
  EXPECT_EQ((*source)->height(), 2u);
  EXPECT_EQ((*source)->wave(), nullptr);
  std::vector<uint8_t> frame(6);
  std::vector<int> shown;
  for (uint64_t i = 0; i < 5; ++i) {
    (*source)->Render(i, frame);
    shown.push_back(frame[5]);
  }
  EXPECT_EQ(shown, (std::vector<int>{1, 2, 3, 1, 2}));
}

TEST_F(FrameSourceTest, ImagesOfDifferentSizesAreRefused) {
  Write("a.pgm", 3, 1);
  Write("b.pgm", 4, 1);
  const absl::Status status = Error(directory_);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("b.pgm"), HasSubstr("4x2")));
}

TEST_F(FrameSourceTest, AnEmptyDirectoryAndAnAbsentFileAreRefused) {
  EXPECT_EQ(Error(directory_).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Error(directory_ + "/absent.pgm").code(),
            absl::StatusCode::kNotFound);
}

TEST_F(FrameSourceTest, OneMalformedFileIsNamed) {
  Write("a.pgm", 3, 1);
  std::ofstream(directory_ + "/b.ppm") << "P6 3 2 255\nshort";
  EXPECT_THAT(std::string(Error(directory_).message()), HasSubstr("b.ppm"));
}

TEST_F(FrameSourceTest, CardiacFramesHaveTheSizeThatWasAskedFor) {
  auto source = MakeFrameSource("cardiac", 20, 10);
  ASSERT_TRUE(source.ok());
  EXPECT_EQ((*source)->width(), 20u);
  EXPECT_EQ((*source)->height(), 10u);
  EXPECT_NE((*source)->wave(), nullptr);
}

}  // namespace
}  // namespace carillon::fpga
