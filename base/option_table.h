// A program describes its options in one table. Its flags (base/option_flags.h),
// its keys in a topology file, the file's JSON schema and the documentation are
// made from that table.
#ifndef CARILLON_BASE_OPTION_TABLE_H_
#define CARILLON_BASE_OPTION_TABLE_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace carillon {

enum class OptionType {
  kBoolean,
  kInteger,     // min to max
  kDecimal,     // the same, with a fraction
  kSize,        // bytes, min to max, with units
  kText,        // min to max bytes
  kPath,        // as kText, from the file's folder; or a word of `choices`
  kChoice,      // one of `choices`
  kDimensions,  // WIDTHxHEIGHT, each min to max
};

// The field that an option sets. It holds the default at first.
using OptionField = std::variant<std::monostate, bool*, uint16_t*, uint32_t*,
                                 uint64_t*, double*, std::string*>;

// If the option `key` of the same table has this value, `max` is the limit.
struct LowerMax {
  std::string_view key;
  std::string_view value;
  uint64_t max = 0;
};

struct Option {
  std::string_view flag;      // "--udp-port"; a boolean is the bare flag
  std::string_view key = {};  // in a topology file; empty if it has none
  // The map below the program's own in which the key stands: "model".
  std::string_view section = {};
  OptionType type;
  OptionField field = {};
  uint64_t min = 0;
  uint64_t max = 0;
  bool or_zero = false;  // 0 is allowed, too, and has a meaning of its own
  bool power_of_two = false;
  std::vector<std::string_view> choices = {};
  uint64_t unit = 1;  // the field holds the number times this
  // This environment variable stands in for the flag.
  std::string_view environment = {};
  // The documentation shows this in place of the default.
  std::string_view default_means = {};
  std::string_view help;
  std::vector<LowerMax> lower_max = {};  // kInteger
  bool required = false;                 // the flag
};

// The plain cases.
Option BooleanOption(std::string_view flag, std::string_view key, bool* field,
                     std::string_view help);
Option IntegerOption(std::string_view flag, std::string_view key,
                     OptionField field, uint64_t min, uint64_t max,
                     std::string_view help);
Option ChoiceOption(std::string_view flag, std::string_view key,
                    std::string* field, std::vector<std::string_view> choices,
                    std::string_view help);
// It has no default, and at most 4096 bytes.
Option PathOption(std::string_view flag, std::string_view key,
                  std::string* field, std::string_view help);

// "1 to 1024", "4 KiB to 1 TiB", "a power of two, 1 to 65536", "cpu, cuda".
std::string AllowedValues(const Option& option);
// Returns what the field holds, in the form that the option takes.
std::string ValueOf(const Option& option);
// The same for a table of defaults, for people.
std::string DefaultOf(const Option& option);

// An option with the value that a user gave it.
struct Setting {
  const Option* option = nullptr;
  uint64_t number = 0;  // kInteger, kSize, kBoolean (0 or 1)
  std::string text;     // the other types

  // As the program's flag takes it: {} for false, {"--trace"} for true, else
  // {"--ring=64"}.
  std::vector<std::string> ToFlags() const;
};

// InvalidArgument: "'2048' is out of range; allowed: 1 to 1024". The setting
// refers to `option`.
absl::StatusOr<Setting> ReadSetting(const Option& option,
                                    std::string_view text);
// Puts a setting into the field of `option`, which may belong to another copy of
// the setting's table.
void Store(const Setting& setting, const Option& option);

// Read numbers that are in no table, and refuse them in the same words.
absl::StatusOr<uint64_t> ReadInteger(std::string_view text, uint64_t min,
                                     uint64_t max);
absl::StatusOr<double> ReadDecimal(std::string_view text, double min,
                                   double max);
// InvalidArgument: neither "true" nor "false".
absl::StatusOr<bool> ReadBoolean(std::string_view text);

// Checks every Option::lower_max. The message begins with the flag: "--size:
// '4097' is out of range with ...".
absl::Status CheckLowerMaxima(std::span<const Option> table);

// Checks settings together, as the program itself does. OptionTable() and
// Check() are those beside the type of its options.
template <class Options>
absl::Status CheckTogether(std::span<const Setting> settings) {
  Options options;
  const std::vector<Option> table = OptionTable(options);
  for (const Setting& setting : settings) {
    const auto own = std::find_if(
        table.begin(), table.end(),
        [&](const Option& one) { return one.flag == setting.option->flag; });
    if (own != table.end()) Store(setting, *own);
  }
  return Check(options);
}

}  // namespace carillon

#endif  // CARILLON_BASE_OPTION_TABLE_H_
