// Random kernels give on the simulated GPU what the host computes: without time,
// with it, and one warp after the other in an order that a seed chooses.
//
//   CARILLON_DIFFERENTIAL_KERNELS=100000 CARILLON_DIFFERENTIAL_SEED=7
//       bazel-bin/sim/differential/differential_test
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "sim/differential/random_kernel.h"
#include "sim/exec/functional.h"
#include "sim/exec/interleaved.h"
#include "sim/lower/lower.h"
#include "sim/timing/gpu.h"

namespace carillon::sim::differential {
namespace {

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

enum class How { kFunctional, kInterleaved, kTimed };

class Simulated {
 public:
  explicit Simulated(const std::string& ptx) {
    auto module = ptx::ParseModule(ptx, "random.ptx");
    if (!module.ok()) {
      status_ = module.status();
      return;
    }
    auto program = Lower(
        std::make_shared<const ptx::Module>(*std::move(module)), &memory_);
    status_ = program.status();
    if (program.ok()) program_ = *std::move(program);
  }

  absl::Status Run(const RandomKernel& kernel, Data& data, How how,
                   uint64_t seed) {
    if (!status_.ok()) return status_;
    Launch launch{.program = program_.get(),
                  .kernel = program_->FindEntry("kernel"),
                  .grid = {kernel.blocks, 1, 1},
                  .block = {kernel.threads, 1, 1}};
    std::vector<DeviceAddress> parameters;
    const auto copy_in = [&](const auto& values) {
      const size_t bytes = values.size() * sizeof(values[0]);
      parameters.push_back(*memory_.Allocate(bytes, "data"));
      std::memcpy(memory_.At(parameters.back(), bytes)->data(), values.data(),
                  bytes);
    };
    copy_in(data.out);
    copy_in(data.sums);
    copy_in(data.own);
    launch.parameters.resize(parameters.size() * 8);
    std::memcpy(launch.parameters.data(), parameters.data(),
                launch.parameters.size());
    const absl::Status status = Launched(launch, how, seed);
    const auto copy_out = [&](size_t which, auto& values) {
      const size_t bytes = values.size() * sizeof(values[0]);
      std::memcpy(values.data(), memory_.At(parameters[which], bytes)->data(),
                  bytes);
    };
    copy_out(0, data.out);
    copy_out(1, data.sums);
    copy_out(2, data.own);
    return status;
  }

 private:
  absl::Status Launched(const Launch& launch, How how, uint64_t seed) {
    switch (how) {
      case How::kFunctional:
        return FunctionalGpu(&memory_, {}).Run(launch).status();
      case How::kInterleaved: {
        InterleavedGpu gpu(
            &memory_,
            {.seed = seed, .longest_turn = 64, .weak_memory = seed % 2 == 0});
        absl::Status ended = absl::UnknownError("it has not ended");
        const auto grid =
            gpu.Begin(launch, 0, [&](absl::Status status) { ended = status; });
        if (!grid.ok()) return grid.status();
        while (gpu.grids() != 0) gpu.Step();
        return ended;
      }
      case How::kTimed: {
        timing::Gpu gpu(*timing::LoadConfig(seed % 2 == 0 ? "tiny" : "gtx980"),
                        &memory_, {});
        const auto grid = gpu.Submit(launch, {});
        if (!grid.ok()) return grid.status();
        gpu.Run();
        return gpu.result(*grid)->status;
      }
    }
    return absl::OkStatus();
  }

  Memory memory_;
  absl::Status status_;
  std::shared_ptr<const Program> program_;
};

std::string Difference(const RandomKernel& kernel, const Data& host,
                       const Data& simulated) {
  for (size_t i = 0; i < host.out.size(); ++i) {
    const size_t variable = i % kVariableCount;
    if (Same(kVariables[variable], host.out[i], simulated.out[i])) continue;
    const size_t thread = i / kVariableCount;
    return fmt::format(
        "variable {} of thread {} of block {}: host {:#x}, simulated {:#x}",
        variable, thread % kernel.threads, thread / kernel.threads, host.out[i],
        simulated.out[i]);
  }
  if (host.sums != simulated.sums) return "the sums";
  if (host.own != simulated.own) return "the threads' own cells";
  return "";
}

void Check(uint64_t seed) {
  const RandomKernel kernel = Draw(seed);
  Data host = MakeData(kernel, seed);
  const std::string ptx = ToPtx(kernel, host);
  RunOnHost(kernel, host);
  for (const How how : {How::kFunctional, How::kInterleaved, How::kTimed}) {
    if (how == How::kTimed && seed % 4 != 0) continue;  // it is slower
    Data data = MakeData(kernel, seed);
    const absl::Status status = Simulated(ptx).Run(kernel, data, how, seed);
    const std::string difference =
        status.ok() ? Difference(kernel, host, data) : status.ToString();
    EXPECT_EQ(difference, "")
        << "seed " << seed << ", way " << static_cast<int>(how) << "\n"
        << ptx;
    if (!difference.empty()) return;
  }
}

TEST(Differential, RandomKernelsGiveWhatTheHostComputes) {
  const uint64_t first = FromEnvironment("CARILLON_DIFFERENTIAL_SEED", 1);
  const uint64_t count = FromEnvironment("CARILLON_DIFFERENTIAL_KERNELS", 1000);
  for (uint64_t seed = first; seed < first + count && !HasFailure(); ++seed) {
    Check(seed);
  }
}

}  // namespace
}  // namespace carillon::sim::differential
