// The fences, acquires, releases and warp barriers of a kernel's PTX, by where
// they are in the source, and PTX without one of them: a bug to be found.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_SIM_DRIVER_FENCES_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_SIM_DRIVER_FENCES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace carillon::gpud::cuda {

struct FenceSite {
  // "st.release.cta StoreBlock <- Publish": what, in which function, which this
  // one calls. An inlined function's copies are one site.
  std::string name;
  std::vector<size_t> lines;  // of the text, from 0
};

// Those of one function of a module that was compiled with -lineinfo, in the
// order of the text.
std::vector<FenceSite> FindFences(std::string_view ptx,
                                  std::string_view function);

// For each line of the text, from 1, that is of the function: which function of
// the source it comes from.
std::map<uint32_t, std::string> OwnersOf(std::string_view ptx,
                                         std::string_view function);

// Fences and barriers of a site are gone; what acquires or releases is relaxed.
std::string Weaken(std::string_view ptx, const FenceSite& site);

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_SIM_DRIVER_FENCES_H_
