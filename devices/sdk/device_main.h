// The part of main() that all devices share: flags, log, signals, exit codes.
//
//   int main(int argc, char** argv) {
//     Options options;
//     return edge::DeviceMain("Streams images to event kernels.",
//                             OptionTable(options), argc, argv, "fpga0",
//                             [&](const edge::DeviceContext& context) {
//                               return Run(context, options);
//                             });
//   }
#ifndef CARILLON_DEVICES_SDK_DEVICE_MAIN_H_
#define CARILLON_DEVICES_SDK_DEVICE_MAIN_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/option_table.h"
#include "devices/sdk/edge.h"

namespace CLI {
class App;
}

namespace carillon::edge {

enum DeviceExit : int {
  kExitOk = 0,
  kExitFailed = 1,
  kExitUsage = 2,
  kExitTestbedLost = 4,  // there is no testbed, or it went away
};

// Set by SIGTERM or SIGINT. A second one ends the process at once. Thread safe.
class StopRequest {
 public:
  // `requested` and `fd` must outlive it.
  StopRequest(const std::atomic<bool>* requested, int fd)
      : requested_(requested), fd_(fd) {}
  bool requested() const { return requested_->load(std::memory_order_acquire); }
  // Readable once a stop is requested, and for ever after: for poll and epoll.
  // Not to be read.
  int fd() const { return fd_; }

 private:
  const std::atomic<bool>* const requested_;  // writer: the signal handler
  const int fd_;
};

struct DeviceContext {
  std::string directory;  // the testbed's; never empty
  std::string name;
  const StopRequest& stop;
  // How long to wait for another gpud when gpud has died. For one that has made
  // way for another, it is a minute at least.
  std::chrono::milliseconds resume_within{0};
};

// To be called by a device that stopped with the error `halted`, perhaps
// because gpud died or restarts. Calls Device::Resume() then, within the
// context's time. Returns OK if the device goes on, Cancelled if a stop is
// requested before that, and otherwise `halted` or the reason why it cannot. The
// device must have taken all completions before. `prepare` is Resume()'s.
absl::Status GoOnAfter(const absl::Status& halted, Device& device,
                       const DeviceContext& context,
                       const std::function<absl::Status()>& prepare = {});

// Adds --dir (default: $CARILLON_TESTBED_DIR), --name (default:
// $CARILLON_DEVICE_NAME, else `default_name`), --resume-within (default:
// $CARILLON_RESUME_WITHIN_S, else 0) and --log-level to `app`, parses,
// logs to stderr through spdlog's default logger, and calls `run` until it
// returns: OK and Cancelled give kExitOk, InvalidArgument kExitUsage, Unavailable
// kExitTestbedLost, all else kExitFailed, with the message logged. To be called
// once, from main().
int DeviceMain(CLI::App& app, int argc, char** argv,
               std::string_view default_name,
               const std::function<absl::Status(const DeviceContext&)>& run);
// The same with flags from a table (base/option_table.h).
int DeviceMain(const std::string& description, std::span<const Option> options,
               int argc, char** argv, std::string_view default_name,
               const std::function<absl::Status(const DeviceContext&)>& run);

}  // namespace carillon::edge

#endif  // CARILLON_DEVICES_SDK_DEVICE_MAIN_H_
