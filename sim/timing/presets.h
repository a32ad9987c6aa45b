// The presets' texts (presets/*.yaml), which the build puts into the library.
#ifndef CARILLON_SIM_TIMING_PRESETS_H_
#define CARILLON_SIM_TIMING_PRESETS_H_

#include <array>
#include <string_view>

namespace carillon::sim::timing {

struct Preset {
  std::string_view name;
  std::string_view text;
};
extern const std::array<Preset, 3> kPresets;

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_PRESETS_H_
