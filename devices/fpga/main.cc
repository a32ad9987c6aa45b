// An FPGA that streams images to event kernels, as the front end of an
// optical-mapping camera does: every frame is one event.
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <system_error>

#include "base/status.h"
#include "base/text.h"
#include "devices/fpga/frame_kernel.h"
#include "devices/fpga/frame_source.h"
#include "devices/fpga/frame_stream.h"
#include "devices/sdk/device_main.h"
#include "devices/sdk/edge.h"
#include "fmt/format.h"

namespace carillon::fpga {
namespace {

struct Options {
  std::string source = "cardiac";
  std::string kernel = "dct8x8";
  std::string size = "128x128";
  StreamOptions stream;
};

absl::Status ParseSize(const std::string& size, uint32_t* width,
                       uint32_t* height) {
  int used = 0;
  if (std::sscanf(size.c_str(), "%5ux%5u%n", width, height, &used) == 2 &&
      used == static_cast<int>(size.size()) && *width >= 1 && *height >= 1 &&
      *width <= kMaxImageSide && *height <= kMaxImageSide) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(fmt::format(
      "--size {}: must be WIDTHxHEIGHT, each 1 to {}", size, kMaxImageSide));
}

absl::Status CheckOptions(const StreamOptions& options) {
  if (options.store.empty()) return absl::OkStatus();
  if (options.frames == 0) {
    return absl::InvalidArgumentError(
        "--store without --frames would fill the disk; say how many frames");
  }
  std::error_code error;
  std::filesystem::create_directories(options.store, error);
  if (error) {
    return absl::InvalidArgumentError(
        fmt::format("--store {}: {}", options.store, error.message()));
  }
  return absl::OkStatus();
}

absl::Status Run(const edge::DeviceContext& context, const Options& options) {
  uint32_t width = 0;
  uint32_t height = 0;
  RETURN_IF_ERROR(ParseSize(options.size, &width, &height));
  RETURN_IF_ERROR(CheckOptions(options.stream));
  ASSIGN_OR_RETURN(auto source, MakeFrameSource(options.source, width, height));
  width = source->width();
  height = source->height();
  ASSIGN_OR_RETURN(auto kernel, MakeFrameKernel(options.kernel, width, height));

  edge::AttachOptions attach;
  attach.testbed_directory = context.directory;
  attach.name = context.name;
  attach.kind = "fpga";
  attach.submission_bytes = FrameStream::SubmissionBytes(
      *kernel, uint64_t{width} * height, options.stream.ring);
  attach.completion_bytes =
      FrameStream::CompletionBytes(*kernel, options.stream.ring);
  attach.counter_names = FrameStream::CounterNames();
  attach.histogram_names = FrameStream::HistogramNames();
  attach.takes_simulated_time = true;
  ASSIGN_OR_RETURN(auto device, edge::Device::Attach(attach));
  ASSIGN_OR_RETURN(auto stream,
                   FrameStream::Make(device.get(), source.get(), kernel.get(),
                                     options.stream));

  const std::string rate = options.stream.fps == 0
                               ? "as fast as it goes"
                               : fmt::format("{} fps", options.stream.fps);
  const std::string note = fmt::format("{} {}x{} to {}, {}", options.source,
                                       width, height, options.kernel, rate);
  RETURN_IF_ERROR(device->ReportReady(note));
  spdlog::info("streaming {}", note);
  return stream->Run(context);
}

}  // namespace
}  // namespace carillon::fpga

int main(int argc, char** argv) {
  using carillon::fpga::Options;
  CLI::App app(
      "Streams images to event kernels, one event a frame, and takes the "
      "results.");
  Options options;
  auto& stream = options.stream;
  app.add_option("--source", options.source,
                 "cardiac (synthetic wave with known activation times), a PGM "
                 "or PPM file, or a "
                 "directory of them")
      ->capture_default_str();
  app.add_option("--kernel", options.kernel, "Event kernel")
      ->check(CLI::IsMember(carillon::fpga::FrameKernelNames()))
      ->capture_default_str();
  app.add_option("--size", options.size,
                 "Of cardiac frames, WIDTHxHEIGHT pixels")
      ->capture_default_str();
  app.add_option("--fps", stream.fps,
                 "Frames a second; 0: as fast as the ring allows")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  app.add_option("--frames", stream.frames, "How many frames; 0: until stopped")
      ->capture_default_str();
  app.add_flag("--check", stream.check,
               "Compute every frame on the device too and count mismatches");
  app.add_option("--store", stream.store,
                 "Directory for the results, as PGM files");
  app.add_flag(
      "--store-raw", stream.store_picture,
      "Store coefficients as a picture, not the image that they stand for");
  app.add_option("--ring", stream.ring, "Frames in flight, a power of two")
      ->check(CLI::Range(1u, carillon::shm::kMaxRingEntries))
      ->capture_default_str();
  app.add_option("--priority", stream.priority, "0 (lowest) to 7")
      ->check(CLI::Range(0, 7))
      ->capture_default_str();
  return carillon::edge::DeviceMain(
      app, argc, argv, "fpga0",
      [&](const carillon::edge::DeviceContext& context) {
        return carillon::fpga::Run(context, options);
      });
}
