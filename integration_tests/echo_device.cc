// A device for tests that echoes numbered messages and checks each answer. It
// reports what fails, and exits with 1 if an end is missing or comes twice.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "base/status.h"
#include "devices/sdk/device_main.h"
#include "devices/sdk/edge.h"
#include "fmt/format.h"

namespace carillon {
namespace {

using edge::EventState;
using std::chrono::milliseconds;

struct Options {
  uint64_t events = 0;
  uint32_t slots = 32;
  uint32_t patience_ms = 20'000;
  uint32_t pause_ms = 0;
  std::string launch_path;
};

// The content of event `sequence`: its own word, repeated.
constexpr uint32_t kWords = 8;
constexpr uint32_t kBytes = kWords * sizeof(uint64_t);
uint64_t WordOf(uint64_t sequence) {
  return (sequence + 1) * 0x9e37'79b9'7f4a'7c15;
}

class EchoDevice {
 public:
  static absl::Status Run(const edge::DeviceContext& context,
                          const Options& options) {
    ASSIGN_OR_RETURN(auto device, edge::Device::Attach(
                                      {.testbed_directory = context.directory,
                                       .name = context.name,
                                       .kind = "echo",
                                       .counter_names = {"taken", "failed"}}));
    EchoDevice echo(*device, context, options);
    RETURN_IF_ERROR(echo.Register());
    RETURN_IF_ERROR(device->ReportReady("echo"));
    const absl::Status status = echo.Serve();
    fmt::print("taken {}, failed {}\n", echo.taken_, echo.failed_);
    return status;
  }

 private:
  EchoDevice(edge::Device& device, const edge::DeviceContext& context,
             const Options& options)
      : device_(device), context_(context), options_(options) {}

  absl::Status Register() {
    const uint64_t bytes = uint64_t{options_.slots} * kBytes;
    ASSIGN_OR_RETURN(auto in,
                     device_.AllocateBuffer(edge::Place::kInput, bytes));
    ASSIGN_OR_RETURN(auto out,
                     device_.AllocateBuffer(edge::Place::kOutput, bytes));
    in_ = in;
    out_ = out;
    ASSIGN_OR_RETURN(
        queue_,
        edge::edgeRegisterEvent(
            device_, {.kernel = "echo",
                      .max_in_flight = options_.slots,
                      .launch_path = options_.launch_path,
                      .parameters = {edge::WritableBuffer("in", in_),
                                     edge::Fixed("out", out_,
                                                 {.length = kBytes,
                                                  .slot_stride = kBytes})}}));
    ASSIGN_OR_RETURN(in_place_, queue_->ParameterOffset("in"));
    return absl::OkStatus();
  }

  bool wants_more() const {
    return !context_.stop.requested() &&
           (options_.events == 0 || committed_ < options_.events);
  }

  absl::Status Serve() {
    while (wants_more() || queue_->in_flight() > 0) {
      if (queue_->in_flight() == 0) {
        std::this_thread::sleep_for(milliseconds(options_.pause_ms));
      }
      if (options_.pause_ms == 0 || queue_->in_flight() == 0) {
        while (wants_more() && queue_->free_slots() > 0) Commit();
        queue_->RingCommitted();
      }
      if (queue_->in_flight() == 0) continue;  // a stop came meanwhile
      const auto done = queue_->Wait(milliseconds(options_.patience_ms));
      if (!done.ok()) {
        RETURN_IF_ERROR(edge::GoOnAfter(done.status(), device_, context_));
        continue;
      }
      RETURN_IF_ERROR(Take(*done));
    }
    return absl::OkStatus();
  }

  void Commit() {
    const uint64_t offset = uint64_t{queue_->next_slot()} * kBytes;
    const uint64_t word = WordOf(++committed_);
    for (uint32_t i = 0; i < kWords; ++i) {
      std::memcpy(&in_.bytes[offset + i * sizeof(word)], &word, sizeof(word));
    }
    queue_->Set(in_place_, shm::BufferRef{offset, kBytes});
    queue_->Commit();
  }

  absl::Status Take(const edge::Completion& done) {
    if (done.sequence.value() != ++taken_) {
      return absl::DataLossError(fmt::format("event {} ended where {} was next",
                                             done.sequence.value(), taken_));
    }
    if (done.state == EventState::kDone) {
      const uint64_t word = WordOf(taken_);
      const std::byte* out =
          &out_.bytes[uint64_t{queue_->SlotOf(done.sequence)} * kBytes];
      for (uint32_t i = 0; i < kWords; ++i) {
        if (std::memcmp(out + i * sizeof(word), &word, sizeof(word)) != 0) {
          return absl::DataLossError(
              fmt::format("event {} echoes something else", taken_));
        }
      }
    } else {
      ++failed_;
      fmt::print("event {} failed with status {}\n", taken_, done.status);
      device_.SetCounter(1, failed_);
    }
    queue_->Free();
    device_.SetCounter(0, taken_);
    return absl::OkStatus();
  }

  edge::Device& device_;
  const edge::DeviceContext& context_;
  const Options& options_;
  edge::Buffer in_;
  edge::Buffer out_;
  edge::EventQueue* queue_ = nullptr;
  uint32_t in_place_ = 0;
  uint64_t committed_ = 0;
  uint64_t taken_ = 0;
  uint64_t failed_ = 0;
};

int Main(int argc, char** argv) {
  CLI::App app("Echoes numbered messages and checks each answer.");
  Options options;
  app.add_option("--events", options.events, "How many; 0: until SIGTERM");
  app.add_option("--slots", options.slots, "Entries of the ring");
  app.add_option("--patience", options.patience_ms,
                 "How long an event may take, ms");
  app.add_option(
      "--pause", options.pause_ms,
      "Rings for a ring full of events at a time, and pauses so long "
      "before each, ms");
  app.add_option("--path", options.launch_path, "Launch path");
  return edge::DeviceMain(app, argc, argv, "echo0",
                          [&](const edge::DeviceContext& context) {
                            return EchoDevice::Run(context, options);
                          });
}

}  // namespace
}  // namespace carillon

int main(int argc, char** argv) { return carillon::Main(argc, argv); }
