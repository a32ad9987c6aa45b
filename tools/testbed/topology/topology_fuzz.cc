// Any text as a topology file: every accepted setting lies within its key's
// limits, every problem has a place in the file and words, and a topology
// without problems can be started.
#include <set>
#include <string>
#include <string_view>

#include "base/testing/fuzz_input.h"
#include "tools/testbed/topology/reader.h"

namespace carillon::testbed {
namespace {

void CheckSetting(const Setting& setting) {
  FUZZ_CHECK(setting.option != nullptr);
  const Option& key = *setting.option;
  switch (key.type) {
    case OptionType::kInteger:
    case OptionType::kSize:
      FUZZ_CHECK((setting.number >= key.min && setting.number <= key.max) ||
                 (key.or_zero && setting.number == 0));
      FUZZ_CHECK(!key.power_of_two ||
                 (setting.number & (setting.number - 1)) == 0);
      break;
    case OptionType::kBoolean:
      FUZZ_CHECK(setting.number <= 1);
      break;
    case OptionType::kChoice:
      FUZZ_CHECK(std::find(key.choices.begin(), key.choices.end(),
                           setting.text) != key.choices.end());
      break;
    case OptionType::kText:
    case OptionType::kPath:
      FUZZ_CHECK(setting.text.size() <= key.max);
      break;
    case OptionType::kDecimal:
    case OptionType::kDimensions:
      break;
  }
  for (const std::string& flag : setting.ToFlags()) {
    FUZZ_CHECK(flag.find('\0') == std::string::npos, "a flag with a zero");
  }
}

void Run(std::string_view text) {
  const TopologyReading reading = ReadTopology(text, "fuzz");
  const int lines =
      1 + static_cast<int>(std::count(text.begin(), text.end(), '\n') +
                           std::count(text.begin(), text.end(), '\r'));
  for (const Problem& problem : reading.problems) {
    FUZZ_CHECK(!problem.text.empty());
    FUZZ_CHECK(problem.line >= 0 && problem.line <= lines + 1, "line %d of %d",
               problem.line, lines);
    FUZZ_CHECK(problem.column >= 0);
    FUZZ_CHECK(problem.ToString("f").size() < text.size() + 4096);
  }
  if (!reading.problems.empty()) return;
  const Topology& topology = reading.topology;
  FUZZ_CHECK(CheckName(topology.name).empty());
  FUZZ_CHECK(topology.devices.size() <= kMaxDevices);
  for (const Setting& setting : topology.gpu) CheckSetting(setting);
  std::set<std::string> names;
  for (const DeviceEntry& device : topology.devices) {
    FUZZ_CHECK(CheckName(device.name).empty());
    FUZZ_CHECK(names.insert(device.name).second, "two devices of one name");
    FUZZ_CHECK(device.kind != nullptr);
    FUZZ_CHECK(device.kind->name != kExecKind || !device.command.empty());
    for (const std::string& word : device.command) {
      FUZZ_CHECK(word.find('\0') == std::string::npos, "a word with a zero");
    }
    for (const Setting& setting : device.settings) CheckSetting(setting);
  }
}

}  // namespace
}  // namespace carillon::testbed

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  carillon::testbed::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
