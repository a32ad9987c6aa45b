#include "gpu_daemon/backends/cuda/fake/fake_settings.h"

#include <algorithm>
#include <charconv>
#include <concepts>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace carillon::gpud::cuda {
namespace {

bool Parse(std::string_view text, uint64_t& number) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end;
}

bool Parse(std::string_view text, bool& flag) {
  flag = text == "1";
  return text == "0" || text == "1";
}

bool Parse(std::string_view text, std::chrono::microseconds& time) {
  uint64_t number = 0;
  if (!Parse(text, number)) return false;
  time = std::chrono::microseconds(number);
  return true;
}

template <std::integral Integer>
bool Parse(std::string_view text, Integer& value) {
  uint64_t number = 0;
  if (!Parse(text, number)) return false;
  value = static_cast<Integer>(number);
  return static_cast<uint64_t>(value) == number;
}

bool ParseVersion(std::string_view text, FakeSettings& settings) {
  const size_t dot = text.find('.');
  int major = 0;
  int minor = 0;
  if (dot == std::string_view::npos || !Parse(text.substr(0, dot), major) ||
      !Parse(text.substr(dot + 1), minor)) {
    return false;
  }
  settings.driver_version = major * 1000 + minor * 10;
  return true;
}

bool Parse(std::string_view text, std::vector<FakeSettings::Fate>& fates) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  FakeSettings::Fate fate;
  fate.kernel = text.substr(0, colon);
  text.remove_prefix(colon + 1);
  if (text.starts_with('=')) {
    if (!Parse(text.substr(1), fate.first_word)) return false;
  } else if (!Parse(text, fate.nth) || fate.nth == 0) {
    return false;
  }
  fates.push_back(std::move(fate));
  return true;
}

template <auto kField>
bool ParseInto(std::string_view text, FakeSettings& settings) {
  return Parse(text, settings.*kField);
}

constexpr struct {
  std::string_view name;
  bool (*parse)(std::string_view text, FakeSettings& settings);
} kParts[] = {
    {"devices", ParseInto<&FakeSettings::devices>},
    {"version", ParseVersion},
    {"memory", ParseInto<&FakeSettings::memory_bytes>},
    {"exec_memory", ParseInto<&FakeSettings::graph_exec_bytes>},
    {"sms", ParseInto<&FakeSettings::sms>},
    {"green", ParseInto<&FakeSettings::green_contexts>},
    {"memops", ParseInto<&FakeSettings::stream_memory_operations>},
    {"queues", ParseInto<&FakeSettings::hardware_queues>},
    {"depth", ParseInto<&FakeSettings::stream_depth>},
    {"device_graphs", ParseInto<&FakeSettings::device_graphs>},
    {"host_pointers", ParseInto<&FakeSettings::host_pointers>},
    {"budget", ParseInto<&FakeSettings::launch_budget>},
    {"refused_tails", ParseInto<&FakeSettings::refused_tails>},
    {"retire_us", ParseInto<&FakeSettings::retire_delay>},
    {"gap_us", ParseInto<&FakeSettings::relaunch_gap>},
    {"free_waits", ParseInto<&FakeSettings::free_waits_for_idle>},
    {"faults_stay", ParseInto<&FakeSettings::faults_stay>},
    {"check_buffers", ParseInto<&FakeSettings::check_buffers>},
    {"fault", ParseInto<&FakeSettings::faults>},
    {"hang", ParseInto<&FakeSettings::hangs>},
};

bool ParsePart(std::string_view name, std::string_view value,
               FakeSettings& settings) {
  const auto* const part =
      std::ranges::find(kParts, name, [](const auto& p) { return p.name; });
  return part != std::end(kParts) && part->parse(value, settings);
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
