// A test of kernels in one PTX file, whose name is the parameter.
#ifndef CARILLON_SIM_EVERYDAY_PTX_TEST_H_
#define CARILLON_SIM_EVERYDAY_PTX_TEST_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "sim/exec/functional.h"
#include "sim/lower/lower.h"

namespace carillon::sim {

// NAME.ptx is in the repository; with nvcc, the build adds those of the
// architectures.
inline std::vector<std::string> FilesOf(
    const std::string& name, const std::vector<std::string>& architectures) {
  std::vector<std::string> files = {name + ".ptx"};
  for (const std::string& architecture : architectures) {
    if (CARILLON_HAS_NVCC == 0) break;
    files.push_back(name + ".compute_" + architecture + ".ptx");
  }
  return files;
}

// Names a test by its file.
inline std::string NameOfFile(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& c : name) c = c == '.' ? '_' : c;
  return name;
}

// The kernels of one PTX file of this folder, and memory for them.
class PtxKernels {
 protected:
  void Load(const std::string& file) {
    auto module = ptx::ParseModuleFile("sim/everyday/" + file);
    ASSERT_TRUE(module.ok()) << module.status();
    auto program = Lower(
        std::make_shared<const ptx::Module>(*std::move(module)), &memory_);
    ASSERT_TRUE(program.ok()) << program.status();
    program_ = *std::move(program);
  }

  template <class T>
  DeviceAddress Copy(const std::vector<T>& values) {
    const DeviceAddress at =
        *memory_.Allocate(values.size() * sizeof(T), "values");
    std::memcpy(memory_.At(at, 1)->data(), values.data(),
                values.size() * sizeof(T));
    return at;
  }
  template <class T = int32_t>
  std::vector<T> Values(DeviceAddress at, size_t count) {
    std::vector<T> values(count);
    std::memcpy(values.data(), memory_.At(at, count * sizeof(T))->data(),
                count * sizeof(T));
    return values;
  }

  Memory memory_;
  std::shared_ptr<const Program> program_;
};

class PtxTest : public testing::TestWithParam<std::string>,
                protected PtxKernels {
 protected:
  void SetUp() override { Load(GetParam()); }

  bool Has(const char* kernel) const {
    return program_->FindEntry(kernel) != nullptr;
  }
  // Each parameter has 8 bytes.
  void Run(const char* kernel, uint32_t blocks, uint32_t threads,
           const std::vector<uint64_t>& parameters) {
    Launch launch{.program = program_.get(),
                  .kernel = program_->FindEntry(kernel),
                  .grid = {blocks, 1, 1},
                  .block = {threads, 1, 1}};
    ASSERT_NE(launch.kernel, nullptr) << kernel;
    launch.parameters.resize(parameters.size() * 8);
    std::memcpy(launch.parameters.data(), parameters.data(),
                launch.parameters.size());
    FunctionalGpu gpu(&memory_, {});
    const auto result = gpu.Run(launch);
    ASSERT_TRUE(result.ok()) << result.status();
  }
};

// Some numbers; the same each time.
inline std::vector<int> Numbers(size_t count) {
  std::vector<int> numbers(count);
  uint32_t state = 7;
  for (int& number : numbers) {
    state = state * 1664525 + 1013904223;
    number = static_cast<int>(state >> 17);
  }
  return numbers;
}

}  // namespace carillon::sim

#endif  // CARILLON_SIM_EVERYDAY_PTX_TEST_H_
