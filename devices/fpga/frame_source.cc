#include "devices/fpga/frame_source.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "base/status.h"
#include "devices/fpga/fpga_options.h"
#include "devices/fpga/image.h"
#include "fmt/format.h"

namespace carillon::fpga {
namespace {

class CardiacSource : public FrameSource {
 public:
  CardiacSource(uint32_t width, uint32_t height) : wave_(width, height) {}
  uint32_t width() const override { return wave_.width(); }
  uint32_t height() const override { return wave_.height(); }
  void Render(uint64_t index, std::span<uint8_t> pixels) override {
    wave_.Render(index, pixels);
  }
  const CardiacWave* wave() const override { return &wave_; }

 private:
  const CardiacWave wave_;
};

// Images of one size, kept in memory.
class ImageSource : public FrameSource {
 public:
  explicit ImageSource(std::vector<GreyImage> images)
      : images_(std::move(images)) {}
  uint32_t width() const override { return images_.front().width; }
  uint32_t height() const override { return images_.front().height; }
  void Render(uint64_t index, std::span<uint8_t> pixels) override {
    const GreyImage& image = images_[index % images_.size()];
    std::copy(image.pixels.begin(), image.pixels.end(), pixels.begin());
  }

 private:
  const std::vector<GreyImage> images_;
};

bool IsNetpbm(const std::filesystem::path& path) {
  return path.extension() == ".pgm" || path.extension() == ".ppm";
}

absl::StatusOr<std::vector<std::string>> FilesOf(const std::string& source) {
  std::error_code error;
  if (!std::filesystem::is_directory(source, error))
    return std::vector<std::string>{source};
  std::vector<std::string> files;
  for (auto entry = std::filesystem::directory_iterator(source, error);
       !error && entry != std::filesystem::directory_iterator();
       entry.increment(error)) {
    if (IsNetpbm(entry->path())) files.push_back(entry->path().string());
  }
  if (error) {
    return absl::NotFoundError(
        fmt::format("cannot list {}: {}", source, error.message()));
  }
  if (files.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{} has no .pgm or .ppm files; convert images with netpbm "
                    "or ImageMagick",
                    source));
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

absl::StatusOr<std::unique_ptr<FrameSource>> MakeFrameSource(
    const std::string& source, uint32_t width, uint32_t height) {
  if (source == kCardiacSource)
    return std::make_unique<CardiacSource>(width, height);

  ASSIGN_OR_RETURN(const auto files, FilesOf(source));
  std::vector<GreyImage> images;
  for (const std::string& file : files) {
    ASSIGN_OR_RETURN(auto image, ReadImage(file));
    if (!images.empty() &&
        (image.width != images[0].width || image.height != images[0].height)) {
      return absl::InvalidArgumentError(fmt::format(
          "{} has {}x{} pixels, {} has {}x{}; frames must be of one size", file,
          image.width, image.height, files.front(), images[0].width,
          images[0].height));
    }
    images.push_back(std::move(image));
  }
  return std::make_unique<ImageSource>(std::move(images));
}

}  // namespace carillon::fpga
