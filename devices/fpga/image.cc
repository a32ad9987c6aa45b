#include "devices/fpga/image.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>

#include "base/read_file.h"
#include "base/status.h"
#include "fmt/format.h"

namespace carillon::fpga {
namespace {

bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Reads through a netpbm file.
class Reader {
 public:
  explicit Reader(std::string_view file) : file_(file) {}

  size_t position() const { return position_; }
  size_t left() const { return file_.size() - position_; }
  std::optional<char> Byte() {
    return position_ < file_.size() ? std::optional(file_[position_++])
                                    : std::nullopt;
  }
  // Reads a decimal number after white space and comments, at most `limit`.
  absl::StatusOr<uint32_t> Number(std::string_view what, uint32_t limit) {
    SkipSpace();
    const size_t start = position_;
    uint64_t value = 0;
    while (position_ < file_.size() && IsDigit(file_[position_]) &&
           value <= limit) {
      value = value * 10 + (file_[position_++] - '0');
    }
    if (position_ == start) {
      return absl::InvalidArgumentError(
          fmt::format("byte {}: expected the {}, a number{}", start, what,
                      start == file_.size() ? ", but the file ends" : ""));
    }
    if (value > limit) {
      return absl::InvalidArgumentError(
          fmt::format("byte {}: the {} is over {}", start, what, limit));
    }
    return static_cast<uint32_t>(value);
  }
  // Reads a binary sample of one or two bytes; the caller has checked left().
  uint32_t Sample(bool wide) {
    const uint32_t high = static_cast<uint8_t>(file_[position_++]);
    return wide ? high << 8 | static_cast<uint8_t>(file_[position_++]) : high;
  }

 private:
  void SkipSpace() {
    while (position_ < file_.size()) {
      if (file_[position_] == '#') {
        while (position_ < file_.size() && file_[position_] != '\n')
          ++position_;
      } else if (IsSpace(file_[position_])) {
        ++position_;
      } else {
        return;
      }
    }
  }

  const std::string_view file_;
  size_t position_ = 0;
};

uint8_t Luma(uint32_t red, uint32_t green, uint32_t blue) {
  return static_cast<uint8_t>((299 * red + 587 * green + 114 * blue + 500) /
                              1000);
}

}  // namespace

absl::StatusOr<GreyImage> ParseNetpbm(std::string_view file) {
  Reader reader(file);
  const char magic = reader.Byte().value_or(0);
  const char format = reader.Byte().value_or(0);
  if (magic != 'P' ||
      std::string_view("2356").find(format) == std::string_view::npos) {
    return absl::InvalidArgumentError(
        "not a PGM or PPM image: it must start with P2, P3, P5 or P6");
  }
  const bool colour = format == '3' || format == '6';
  const bool binary = format == '5' || format == '6';
  ASSIGN_OR_RETURN(const auto width, reader.Number("width", kMaxImageSide));
  ASSIGN_OR_RETURN(const auto height, reader.Number("height", kMaxImageSide));
  if (width == 0 || height == 0) {
    return absl::InvalidArgumentError(fmt::format(
        "the image is {}x{}: both must be at least 1", width, height));
  }
  ASSIGN_OR_RETURN(const auto largest, reader.Number("largest sample", 65535));
  if (largest == 0)
    return absl::InvalidArgumentError("the largest sample is 0");

  const uint64_t samples = uint64_t{width} * height * (colour ? 3 : 1);
  const bool wide = largest > 255;
  if (binary) {
    const auto space = reader.Byte();
    if (!space || !IsSpace(*space)) {
      return absl::InvalidArgumentError(
          fmt::format("byte {}: expected one white space before the samples",
                      reader.position()));
    }
    const uint64_t needed = samples * (wide ? 2 : 1);
    if (reader.left() < needed) {
      return absl::InvalidArgumentError(
          fmt::format("the file ends after {} of {} bytes of samples ({}x{})",
                      reader.left(), needed, width, height));
    }
  } else if (reader.left() / 2 < samples) {
    // A sample takes at least a space and a digit. Check before allocating
    // memory for samples that the file cannot have.
    return absl::InvalidArgumentError(fmt::format(
        "the file ends before its {} samples ({}x{})", samples, width, height));
  }

  GreyImage image{.width = width, .height = height, .pixels = {}};
  image.pixels.reserve(uint64_t{width} * height);
  uint32_t channel[3];
  uint32_t channels = 0;
  for (uint64_t i = 0; i < samples; ++i) {
    uint32_t sample;
    if (binary) {
      sample = reader.Sample(wide);
      if (sample > largest) {
        return absl::InvalidArgumentError(
            fmt::format("sample {} is {}, over the file's largest of {}", i,
                        sample, largest));
      }
    } else {
      ASSIGN_OR_RETURN(sample,
                       reader.Number(fmt::format("sample {}", i), largest));
    }
    channel[channels++] = (sample * 255 + largest / 2) / largest;
    if (channels < (colour ? 3u : 1u)) continue;
    image.pixels.push_back(colour ? Luma(channel[0], channel[1], channel[2])
                                  : static_cast<uint8_t>(channel[0]));
    channels = 0;
  }
  return image;
}

std::string FormatPgm(const GreyImage& image) {
  std::string file = fmt::format("P5\n{} {}\n255\n", image.width, image.height);
  file.append(image.pixels.begin(), image.pixels.end());
  return file;
}

// The largest image has three bytes a pixel, and a header.
constexpr size_t kMostBytes =
    size_t{3} * kMaxImageSide * kMaxImageSide + (64 << 10);

absl::StatusOr<GreyImage> ReadImage(const std::string& path) {
  ASSIGN_OR_RETURN(const auto file, ReadFile(path, "image", kMostBytes));
  auto image = ParseNetpbm(file);
  if (!image.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {}", path, image.status().message()));
  }
  return image;
}

absl::Status WritePgm(const std::string& path, const GreyImage& image) {
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  const std::string file = FormatPgm(image);
  stream.write(file.data(), static_cast<std::streamsize>(file.size()));
  stream.close();
  if (!stream) {
    return absl::InternalError(
        fmt::format("cannot write {}: {}", path, std::strerror(errno)));
  }
  return absl::OkStatus();
}

}  // namespace carillon::fpga
