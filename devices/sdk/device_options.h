// The options of every device program, and some that several of them have.
#ifndef CARILLON_DEVICES_SDK_DEVICE_OPTIONS_H_
#define CARILLON_DEVICES_SDK_DEVICE_OPTIONS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/option_table.h"

namespace carillon::edge {

struct DeviceOptions {
  std::string directory;
  std::string name;
  double resume_within_s = 0;
  std::string log_level = "info";
};

// The table refers to the fields of `options`.
std::vector<Option> OptionTable(DeviceOptions& options);

Option RingOption(uint32_t& field, uint64_t max);
Option PriorityOption(uint32_t& field, std::string_view help);
// The name of another device.
Option DeviceOption(std::string_view flag, std::string_view key,
                    std::string& field, std::string_view help);

}  // namespace carillon::edge

#endif  // CARILLON_DEVICES_SDK_DEVICE_OPTIONS_H_
