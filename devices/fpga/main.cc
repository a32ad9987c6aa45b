// An FPGA that streams images to event kernels, as the front end of an
// optical-mapping camera does: every frame is one event.
#include <spdlog/spdlog.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>

#include "base/status.h"
#include "devices/fpga/fpga_options.h"
#include "devices/fpga/frame_kernel.h"
#include "devices/fpga/frame_source.h"
#include "devices/fpga/frame_stream.h"
#include "devices/sdk/device_main.h"
#include "devices/sdk/edge.h"
#include "fmt/format.h"

namespace carillon::fpga {
namespace {

// The table has checked the form.
void ReadDimensions(const std::string& size, uint32_t* width,
                    uint32_t* height) {
  std::sscanf(size.c_str(), "%ux%u", width, height);
}

absl::Status MakeFolder(const std::string& store) {
  if (store.empty()) return absl::OkStatus();
  std::error_code error;
  std::filesystem::create_directories(store, error);
  if (!error) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("--store {}: {}", store, error.message()));
}

absl::Status Run(const edge::DeviceContext& context,
                 const FpgaOptions& options) {
  uint32_t width = 0;
  uint32_t height = 0;
  ReadDimensions(options.size, &width, &height);
  RETURN_IF_ERROR(Check(options));
  RETURN_IF_ERROR(MakeFolder(options.stream.store));
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
  carillon::fpga::FpgaOptions options;
  return carillon::edge::DeviceMain(
      "Streams images to event kernels, one event a frame, and takes the "
      "results.",
      OptionTable(options), argc, argv, "fpga0",
      [&](const carillon::edge::DeviceContext& context) {
        return carillon::fpga::Run(context, options);
      });
}
