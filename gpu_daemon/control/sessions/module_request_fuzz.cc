// A client's own kernels: the request, any bytes read as RegisterModuleRequest,
// and what an image says of them. No argument of a kernel that is taken leaves
// the argument block.
//
//   8 bytes     offset (u32) and size (u32) of a parameter in the image, for
//               each of the first 4; a size of 0: as declared, one after the other
//   rest        the request
#include <google/protobuf/stubs/logging.h>

#include <array>

#include "base/testing/fuzz_input.h"
#include "gpu_daemon/control/sessions/module_request.h"
#include "gpu_daemon/event/argument_plan.h"
#include "gpu_daemon/event/user_kernel.h"

namespace carillon::gpud {
namespace {

using Place = KernelLayout::Parameter;

void Run(fuzz::FuzzInput input) {
  const auto places = input.Take<std::array<Place, 4>>();
  const std::string_view bytes = input.TakeRest();
  v1::RegisterModuleRequest request;
  if (!request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return;
  }
  const auto source = ReadModuleRequest(request);
  if (!source.ok()) {
    FUZZ_CHECK(!source.status().message().empty());
    return;
  }
  FUZZ_CHECK(static_cast<int>(source->kernels.size()) ==
             request.kernels_size());
  for (const KernelDeclaration& declared : source->kernels) {
    KernelLayout layout;
    uint32_t end = 0;
    for (size_t i = 0; i < declared.parameters.size(); ++i) {
      const simt::ParamKind kind = declared.parameters[i].kind;
      const bool small = kind == simt::ParamKind::kU32 ||
                         kind == simt::ParamKind::kI32 ||
                         kind == simt::ParamKind::kF32;
      Place place{.offset = end, .bytes = small ? 4u : 8u};
      if (!small) place.offset = (place.offset + 7) & ~7u;
      if (i < places.size() && places[i].bytes != 0) place = places[i];
      end = place.offset + place.bytes;
      layout.parameters.push_back(place);
    }
    const auto kernel = UserKernel::Make(declared, source->file, layout);
    if (!kernel.ok()) {
      FUZZ_CHECK(!kernel.status().message().empty());
      continue;
    }
    const simt::KernelInfo& info = (*kernel)->info();
    FUZZ_CHECK(info.args_size <= shm::kMaxParameterBytes);
    // As a device would bind them: all writable.
    std::array<std::byte, 64> buffer;
    std::vector<ParameterBinding> bindings;
    for (const simt::ParamInfo& param : info.params) {
      FUZZ_CHECK(param.offset <= info.args_size);
      bindings.push_back(
          {.writable = true,
           .buffer = {param.is_buffer() ? buffer.data() : nullptr,
                      param.is_buffer() ? buffer.size() : 0}});
    }
    const auto plan = ArgumentPlan::Make(info, bindings);
    if (!plan.ok()) continue;
    FUZZ_CHECK(plan->entry_parameter_bytes() <= shm::kMaxParameterBytes);
    const std::vector<std::byte> entry(plan->entry_parameter_bytes());
    const auto args = std::make_unique<ArgumentBlock>();
    (void)plan->Build(0, entry.data(), args->data());
  }
}

}  // namespace
}  // namespace carillon::gpud

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // What it cannot read is an answer here.
  google::protobuf::SetLogHandler(nullptr);
  carillon::gpud::Run({data, size});
  return 0;
}
