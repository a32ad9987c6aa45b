#include "devices/fpga/image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <fstream>

namespace carillon::fpga {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Error(std::string_view file) {
  const auto image = ParseNetpbm(file);
  if (image.ok()) return "no error";
  EXPECT_EQ(image.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(image.status().message());
}

TEST(ImageTest, TextAndBinaryGreyImagesAreRead) {
  const auto text =
      ParseNetpbm("P2\n# by hand\n3 2\n255\n0 1 2\n253 254 255\n");
  ASSERT_TRUE(text.ok()) << std::string(text.status().message());
  EXPECT_EQ(text->width, 3u);
  EXPECT_EQ(text->height, 2u);
  EXPECT_THAT(text->pixels, ElementsAre(0, 1, 2, 253, 254, 255));
  // The first sample is a white space on purpose.
  const auto binary =
      ParseNetpbm(std::string("P5 3 2 255\n\n\1\2\375\376\377", 17));
  ASSERT_TRUE(binary.ok()) << std::string(binary.status().message());
  EXPECT_THAT(binary->pixels, ElementsAre('\n', 1, 2, 253, 254, 255));
}

TEST(ImageTest, SamplesAreScaledToABytesRange) {
  EXPECT_THAT(ParseNetpbm("P2 3 1 4 0 1 4")->pixels, ElementsAre(0, 64, 255));
  const auto wide =
      ParseNetpbm(std::string("P5 2 1 65535\n\xff\xff\x80\x00", 17));
  EXPECT_THAT(wide->pixels, ElementsAre(255, 128));
}

TEST(ImageTest, ColoursBecomeLuma) {
  const auto image =
      ParseNetpbm("P3 4 1 255  255 0 0  0 255 0  0 0 255  255 255 255");
  EXPECT_THAT(image->pixels, ElementsAre(76, 150, 29, 255));
  EXPECT_EQ(ParseNetpbm(std::string("P6 1 1 255\n\xff\x00\x00", 14))->pixels,
            std::vector<uint8_t>{76});
}

TEST(ImageTest, WhatFollowsTheImageIsIgnored) {
  EXPECT_THAT(ParseNetpbm("P5 1 1 255\nabcP5 1 1")->pixels, ElementsAre('a'));
}

TEST(ImageTest, MalformedFilesAreRefusedWithWhatIsWrong) {
  EXPECT_THAT(Error(""), HasSubstr("P2, P3, P5 or P6"));
  EXPECT_THAT(Error("P"), HasSubstr("P2, P3, P5 or P6"));
  EXPECT_THAT(Error("P4 1 1\n"), HasSubstr("P2, P3, P5 or P6"));
  EXPECT_THAT(Error("GIF89a"), HasSubstr("P2, P3, P5 or P6"));
  EXPECT_THAT(Error("P5"), HasSubstr("width"));
  EXPECT_THAT(Error("P5 x"), HasSubstr("byte 3: expected the width"));
  EXPECT_THAT(Error("P5 -1 1 255\n"), HasSubstr("expected the width"));
  EXPECT_THAT(Error("P5 3"), HasSubstr("height"));
  EXPECT_THAT(Error("P5 3 2 # all the rest is a comment"),
              HasSubstr("largest sample"));
  EXPECT_THAT(Error("P5 0 2 255\n"), HasSubstr("0x2"));
  EXPECT_THAT(Error("P5 8193 1 255\n"), HasSubstr("width is over 8192"));
  EXPECT_THAT(Error("P5 99999999999999999999 1 255\n"),
              HasSubstr("width is over 8192"));
  EXPECT_THAT(Error("P5 1 1 0\n"), HasSubstr("largest sample is 0"));
  EXPECT_THAT(Error("P5 1 1 65536\n"), HasSubstr("largest sample is over"));
  EXPECT_THAT(Error("P5 1 1 255"), HasSubstr("white space"));
  EXPECT_THAT(Error("P5 2 2 255\nabc"), HasSubstr("after 3 of 4 bytes"));
  EXPECT_THAT(Error("P5 2 1 256\nabc"), HasSubstr("after 3 of 4 bytes"));
  EXPECT_THAT(Error("P6 1 1 255\nab"), HasSubstr("after 2 of 3 bytes"));
  EXPECT_THAT(Error("P5 1 1 100\n\x65"), HasSubstr("sample 0 is 101"));
  EXPECT_THAT(Error("P2 2 1 255 1 x"), HasSubstr("sample 1"));
  EXPECT_THAT(Error("P2 2 1 255 1 256"), HasSubstr("sample 1 is over 255"));
  EXPECT_THAT(Error("P2 2 2 255 1 2"), HasSubstr("ends before its 4 samples"));
  EXPECT_THAT(Error("P2 8192 8192 255 1"), HasSubstr("ends before"));
}

TEST(ImageTest, EveryTruncationOfAFileIsAnErrorAndNeverACrash) {
  for (const std::string file :
       {"P2 2 2 255 10 20 30 40", "P6 1 2 255\nabcdef"}) {
    ASSERT_TRUE(ParseNetpbm(file).ok());
    // A shorter last number is still a number.
    for (size_t length = 0; length + 1 < file.size(); ++length) {
      EXPECT_FALSE(ParseNetpbm(std::string_view(file).substr(0, length)).ok())
          << length;
    }
  }
}

TEST(ImageTest, WhatIsWrittenIsReadBack) {
  EXPECT_TRUE(rc::check("round trip", [] {
    const auto width = *rc::gen::inRange<uint32_t>(1, 20);
    const auto height = *rc::gen::inRange<uint32_t>(1, 20);
    const GreyImage image{.width = width,
                          .height = height,
                          .pixels = *rc::gen::container<std::vector<uint8_t>>(
                              width * height, rc::gen::arbitrary<uint8_t>())};
    const auto again = ParseNetpbm(FormatPgm(image));
    RC_ASSERT(again.ok());
    RC_ASSERT(*again == image);
  }));
}

TEST(ImageTest, FilesAreWrittenReadAndNamedInErrors) {
  const std::string directory = ::testing::TempDir();
  const GreyImage image{.width = 2, .height = 1, .pixels = {7, 8}};
  ASSERT_TRUE(WritePgm(directory + "/ok.pgm", image).ok());
  EXPECT_EQ(*ReadImage(directory + "/ok.pgm"), image);

  EXPECT_EQ(ReadImage(directory + "/absent.pgm").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(ReadImage("/dev/zero").status().code(),
            absl::StatusCode::kInvalidArgument);
  std::ofstream(directory + "/bad.pgm") << "P5 1";
  EXPECT_THAT(std::string(ReadImage(directory + "/bad.pgm").status().message()),
              HasSubstr("bad.pgm: "));
  EXPECT_EQ(WritePgm(directory + "/no/such/directory.pgm", image).code(),
            absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace carillon::fpga
