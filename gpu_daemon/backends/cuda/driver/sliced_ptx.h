// Users' PTX with a second version of each kernel, which can be launched on a box
// of its grid (grid_slice.h), as GPES rewrites kernels at load (IV-A2):
//
//   carillon_slice_<kernel>(its parameters, GridPart)
//
// Where the kernel reads %ctaid and %nctaid, it takes its place in the whole grid and
// that grid's size from its last parameter; it is otherwise the same. The functions
// that it calls have a version, too, and find both in shared memory. The user's own
// text stays as it is, and the module's variables are the same ones for both.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_SLICED_PTX_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_SLICED_PTX_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace carillon::gpud::cuda {

inline constexpr std::string_view kSlicePrefix = "carillon_slice_";

// Why a launch runs whole under policy gpes.
enum class WholeReason : uint8_t {
  kOneSlice,     // the GPU holds all of its blocks
  kNoPtx,        // its file is machine code
  kUnknownPtx,   // its PTX is not understood
  kGridWide,     // its code tells one grid from another, or syncs all of one
  kForeignCall,  // it calls code that is not in its file, or by address
  kModuleState,  // it may change a variable of its file
  kParameters,   // it has as many bytes of them as there may be
  kWaits,        // a slice of it has not ended: blocks may wait for later ones
  kRefused,      // the driver does not take its second version
};
inline constexpr size_t kWholeReasons = 9;
// "one_slice"
std::string_view NameOf(WholeReason reason);

struct WhyWhole {
  WholeReason reason = WholeReason::kNoPtx;
  std::string what;  // for people
};

struct SlicedPtx {
  std::string text;
  // Kernels that have no second version.
  std::map<std::string, WhyWhole, std::less<>> whole;
};

// Errors: InvalidArgument, the text is no PTX that is understood here.
absl::StatusOr<SlicedPtx> MakeSlicedPtx(std::string_view ptx);

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_SLICED_PTX_H_
