#include "gpu_daemon/backends/cuda/fake/fake_settings.h"

#include <charconv>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace carillon::gpud::cuda {
namespace {

bool ParseNumber(std::string_view text, uint64_t& number) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end;
}

bool ParseFlag(std::string_view text, bool& flag) {
  flag = text == "1";
  return text == "0" || text == "1";
}

bool ParseMicroseconds(std::string_view text, std::chrono::microseconds& time) {
  uint64_t number = 0;
  if (!ParseNumber(text, number)) return false;
  time = std::chrono::microseconds(number);
  return true;
}

template <class Integer>
bool ParseInteger(std::string_view text, Integer& value) {
  uint64_t number = 0;
  if (!ParseNumber(text, number)) return false;
  value = static_cast<Integer>(number);
  return static_cast<uint64_t>(value) == number;
}

bool ParseVersion(std::string_view text, int& version) {
  const size_t dot = text.find('.');
  int major = 0;
  int minor = 0;
  if (dot == std::string_view::npos ||
      !ParseInteger(text.substr(0, dot), major) ||
      !ParseInteger(text.substr(dot + 1), minor)) {
    return false;
  }
  version = major * 1000 + minor * 10;
  return true;
}

bool ParseFate(std::string_view text, std::vector<FakeSettings::Fate>& fates) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  FakeSettings::Fate fate;
  fate.kernel = text.substr(0, colon);
  text.remove_prefix(colon + 1);
  if (text.starts_with('=')) {
    if (!ParseInteger(text.substr(1), fate.first_word)) return false;
  } else if (!ParseInteger(text, fate.nth) || fate.nth == 0) {
    return false;
  }
  fates.push_back(std::move(fate));
  return true;
}

bool ParsePart(std::string_view name, std::string_view value,
               FakeSettings& settings) {
  if (name == "devices") return ParseInteger(value, settings.devices);
  if (name == "version") return ParseVersion(value, settings.driver_version);
  if (name == "memory") return ParseNumber(value, settings.memory_bytes);
  if (name == "exec_memory")
    return ParseNumber(value, settings.graph_exec_bytes);
  if (name == "sms") return ParseInteger(value, settings.sms);
  if (name == "green") return ParseFlag(value, settings.green_contexts);
  if (name == "memops") {
    return ParseFlag(value, settings.stream_memory_operations);
  }
  if (name == "device_graphs") return ParseFlag(value, settings.device_graphs);
  if (name == "host_pointers") return ParseFlag(value, settings.host_pointers);
  if (name == "budget") return ParseInteger(value, settings.launch_budget);
  if (name == "refused_tails") {
    return ParseInteger(value, settings.refused_tails);
  }
  if (name == "retire_us") {
    return ParseMicroseconds(value, settings.retire_delay);
  }
  if (name == "gap_us") return ParseMicroseconds(value, settings.relaunch_gap);
  if (name == "free_waits") {
    return ParseFlag(value, settings.free_waits_for_idle);
  }
  if (name == "check_buffers") return ParseFlag(value, settings.check_buffers);
  if (name == "fault") return ParseFate(value, settings.faults);
  if (name == "hang") return ParseFate(value, settings.hangs);
  return false;
}

}  // namespace

absl::StatusOr<FakeSettings> ParseFakeSettings(std::string_view text) {
  FakeSettings settings;
  const std::vector<std::string> parts = absl::StrSplit(
      absl::string_view(text.data(), text.size()), ',', absl::SkipEmpty());
  for (const std::string& part : parts) {
    const size_t equals = part.find('=');
    if (equals == std::string::npos ||
        !ParsePart(std::string_view(part).substr(0, equals),
                   std::string_view(part).substr(equals + 1), settings)) {
      return absl::InvalidArgumentError(
          absl::StrCat("CARILLON_FAKE_CUDA: cannot read \"", part, "\""));
    }
  }
  return settings;
}

}  // namespace carillon::gpud::cuda
