#include "devices/sdk/device_options.h"

#include "base/testbed_paths.h"

namespace carillon::edge {

using enum OptionType;

std::vector<Option> OptionTable(DeviceOptions& options) {
  return {
      {.flag = "--dir",
       .type = kPath,
       .field = &options.directory,
       .max = 4096,
       .environment = kTestbedDirectoryVariable,
       .default_means = "none",
       .help = "directory of the testbed to attach to"},
      {.flag = "--name",
       .type = kText,
       .field = &options.name,
       .max = 4096,
       .environment = kDeviceNameVariable,
       .help = "name of this device in the testbed, [a-z0-9_-]{1,32}"},
      {.flag = "--resume-within",
       .type = kDecimal,
       .field = &options.resume_within_s,
       .max = 86'400,
       .environment = kResumeWithinVariable,
       .help = "seconds to wait for another gpud when gpud has died, to go on "
               "with it; 0: end (exit code 4)"},
      ChoiceOption("--log-level", "log_level", &options.log_level,
                   {"trace", "debug", "info", "warn", "error", "off"},
                   "what the device writes to its log"),
  };
}

Option RingOption(uint32_t& field, uint64_t max) {
  return {.flag = "--ring",
          .key = "ring",
          .type = kInteger,
          .field = &field,
          .min = 1,
          .max = max,
          .power_of_two = true,
          .help = "entries of each ESQ and ECQ: events in flight"};
}

Option PriorityOption(uint32_t& field, std::string_view help) {
  return {.flag = "--priority",
          .key = "priority",
          .type = kInteger,
          .field = &field,
          .max = 7,
          .help = help};
}

Option DeviceOption(std::string_view flag, std::string_view key,
                    std::string& field, std::string_view help) {
  return {.flag = flag,
          .key = key,
          .type = kText,
          .field = &field,
          .min = 1,
          .max = 32,
          .help = help};
}

}  // namespace carillon::edge
