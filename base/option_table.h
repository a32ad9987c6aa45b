// What a program can be told, as a table of options. The program's flags
// (base/option_flags.h), the keys of a topology file, the file's JSON schema and
// the documentation are all made from it.
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

// The field that an option sets. What the field holds is the default.
using OptionField = std::variant<std::monostate, bool*, uint16_t*, uint32_t*,
                                 uint64_t*, double*, std::string*>;

// Beside another option of the table that has this value, no more than `max` is
// allowed.
struct LowerMax {
  std::string_view key;
  std::string_view value;
  uint64_t max = 0;
};

struct Option {
  std::string_view flag;      // "--udp-port"; a boolean is the bare flag
  std::string_view key = {};  // in a topology file; empty: only a flag
  // The map of the topology's in which the key stands; empty: the program's own.
  std::string_view section = {};
  OptionType type;
  OptionField field = {};
  uint64_t min = 0;
  uint64_t max = 0;
  bool or_zero = false;  // 0 is allowed, too, and means something else
  bool power_of_two = false;
  std::vector<std::string_view> choices = {};
  uint64_t unit = 1;  // the field has this many of the number: nanoseconds, say
  // The environment variable that holds it where the flag is missing.
  std::string_view environment = {};
  // What the default means, for people; empty: it speaks for itself.
  std::string_view default_means = {};
  std::string_view help;
  std::vector<LowerMax> lower_max = {};  // kInteger
  bool required = false;                 // the flag
};

// "1 to 1024", "4 KiB to 1 TiB", "a power of two, 1 to 65536", "cpu, cuda".
std::string AllowedValues(const Option& option);
// What the field holds, as the option would be given.
std::string ValueOf(const Option& option);
// The same of a table of defaults; or what the default means.
std::string DefaultOf(const Option& option);

// An option and what it was told.
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
// Puts a setting into the field of `option`, which stands in a table of other
// fields than the setting's own.
void Store(const Setting& setting, const Option& option);

// Numbers beside a table, refused in the same words.
absl::StatusOr<uint64_t> ReadInteger(std::string_view text, uint64_t min,
                                     uint64_t max);
absl::StatusOr<double> ReadDecimal(std::string_view text, double min,
                                   double max);
// InvalidArgument: neither "true" nor "false".
absl::StatusOr<bool> ReadBoolean(std::string_view text);

// Whether what the fields hold keeps to each other's lower maxima. A sentence on
// one option begins with its flag: "--size: '4097' is out of range with ...".
absl::Status CheckLowerMaxima(std::span<const Option> table);

// What the program itself would say of these settings together: its table and
// its check are found by the type of its options.
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
