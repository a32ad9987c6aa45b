// Takes any text as PTX: it is refused, or its kernels run to an end or a
// fault, or for as long as they may.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "base/testing/fuzz_input.h"
#include "sim/exec/functional.h"
#include "sim/lower/lower.h"
#include "sim/ptx/control_flow.h"

namespace carillon::sim {
namespace {

// Executes a block until it ends, fails, waits for ever, or has had its share.
// Most of what the mutations make runs for ever.
void Run(const Launch& launch, const Dim3& index, const Memory& memory,
         PrintBuffer* printed) {
  constexpr uint64_t kShare = 1 << 11;
  constexpr uint64_t kSlice = 1 << 6;
  Core core(&memory);
  core.printed = printed;
  core.Prepare(*launch.program);
  Block block;
  block.Start(launch, index, &core);
  uint64_t left = kShare;
  for (bool ran = true; ran && left != 0 && block.live_warps() != 0;) {
    ran = false;
    for (uint32_t w = 0; w < block.warps(); ++w) {
      Warp& warp = block.warp(w);
      if (warp.state() != Warp::State::kReady) continue;
      ran = true;
      const uint64_t slice = std::min(left, kSlice);
      uint64_t rest = slice;
      warp.Run(rest);
      left -= slice - rest;
      if (core.fault) {
        FUZZ_CHECK(!Describe(*launch.program, *core.fault).empty());
        return;
      }
      block.WakeReleased();
      // It may spin for other lanes.
      if (warp.state() == Warp::State::kReady && rest == 0) warp.Yield();
    }
  }
}

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
  if (!CheckLaunch(launch).ok()) return;
  PrintBuffer printed;
  for (uint32_t x = 0; x < launch.grid.x; ++x) {
    Run(launch, {x, 0, 0}, memory, &printed);
  }
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
