// Takes any text as PTX: it is refused, or its kernels run to an end or a
// fault.
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "sim/exec/functional.h"
#include "sim/lower/lower.h"
#include "sim/ptx/control_flow.h"

namespace carillon::sim {
namespace {

void Run(const Program& program, const ProgramFunction& entry,
         const Memory& memory) {
  const ptx::Function& source = *entry.source;
  Launch launch{.program = &program,
                .kernel = &entry,
                .grid = {2, 1, 1},
                .block = {48, 1, 1}};
  if (source.required_block[0] != 0) {
    launch.block = {source.required_block[0], source.required_block[1],
                    source.required_block[2]};
  }
  if (source.ParameterBytes() > 1 << 12) return;
  launch.parameters.resize(source.ParameterBytes());
  std::string printed;
  int turns = 0;
  FunctionalGpu gpu(&memory, {.no_progress_limit = 1 << 12,
                              .cancelled = [&] { return ++turns > 4; },
                              .printed = &printed});
  gpu.Run(launch).IgnoreError();
}

}  // namespace
}  // namespace carillon::sim

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace carillon::sim;
  auto parsed = ptx::ParseModule(
      std::string(reinterpret_cast<const char*>(data), size), "fuzz.ptx");
  if (!parsed.ok()) return 0;
  auto module = std::make_shared<const ptx::Module>(*std::move(parsed));
  uint64_t bytes = 0;
  for (const ptx::Variable& variable : module->variables) {
    bytes += variable.bytes;
  }
  if (bytes > 1 << 20) return 0;
  Memory memory;
  const auto program = Lower(module, &memory);
  if (!program.ok()) return 0;
  for (const ProgramFunction& function : (*program)->functions) {
    if (function.is_entry) Run(**program, function, memory);
  }
  return 0;
}
