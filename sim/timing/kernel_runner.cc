#include "sim/timing/kernel_runner.h"

#include <cstdio>
#include <cstdlib>
#include <span>

#include "sim/lower/lower.h"

namespace carillon::sim::timing {
namespace {

template <class T>
T Checked(absl::StatusOr<T> result) {
  if (result.ok()) return *std::move(result);
  std::fprintf(stderr, "%s\n", result.status().ToString().c_str());
  std::abort();
}

}  // namespace

void KernelRunner::Load(std::string ptx) {
  Use(Checked(ptx::ParseModule(std::move(ptx), "test.ptx")));
}

void KernelRunner::LoadFile(const std::string& name) {
  Use(Checked(ptx::ParseModuleFile("sim/testdata/" + name)));
}

void KernelRunner::Use(ptx::Module module) {
  auto program = Checked(
      Lower(std::make_shared<const ptx::Module>(std::move(module)), &memory_));
  if (program_ != nullptr) earlier_.push_back(program_);
  program_ = std::move(program);
}

std::span<std::byte> KernelRunner::Bytes(DeviceAddress address,
                                         uint64_t bytes) {
  return Checked(memory_.At(address, bytes));
}

DeviceAddress KernelRunner::Allocate(uint64_t bytes) {
  return Checked(memory_.Allocate(bytes, "test"));
}

DeviceAddress KernelRunner::Floats(uint64_t count, float (*value)(uint64_t)) {
  const DeviceAddress address = Allocate(count * 4);
  const std::span<float> values = At<float>(address, count);
  for (uint64_t i = 0; i < count; ++i) values[i] = value(i);
  return address;
}

Launch KernelRunner::MakeLaunch(const char* kernel, Dim3 grid, Dim3 block,
                                const std::vector<uint64_t>& wide,
                                const std::vector<uint32_t>& narrow) const {
  Launch launch{.program = program_.get(),
                .kernel = program_->FindEntry(kernel),
                .grid = grid,
                .block = block};
  if (launch.kernel == nullptr) {
    Checked<Launch>(absl::NotFoundError(kernel));
  }
  const auto add = [&](std::span<const std::byte> bytes) {
    launch.parameters.insert(launch.parameters.end(), bytes.begin(),
                             bytes.end());
  };
  add(std::as_bytes(std::span(wide)));
  add(std::as_bytes(std::span(narrow)));
  return launch;
}

Launch KernelRunner::VectorAdd(uint32_t count) {
  LoadFile("vectoradd.compute_75.ptx");
  const auto value = [](uint64_t i) { return static_cast<float>(i); };
  const DeviceAddress a = Floats(count, value);
  const DeviceAddress b = Floats(count, value);
  output_ = Allocate(uint64_t{count} * 4);
  output_count_ = count;
  return MakeLaunch("vectoradd", {(count + 255) / 256, 1, 1}, {256, 1, 1},
                    {a, b, output_}, {count});
}

Launch KernelRunner::MatrixProduct(uint32_t n) {
  LoadFile("matmul.compute_75.ptx");
  const auto value = [](uint64_t i) {
    return static_cast<float>(i * 7919 % 201) - 100;
  };
  const DeviceAddress a = Floats(uint64_t{n} * n, value);
  const DeviceAddress b = Floats(uint64_t{n} * n, value);
  output_ = Allocate(uint64_t{n} * n * 4);
  output_count_ = uint64_t{n} * n;
  return MakeLaunch("matmul", {n / 16, n / 16, 1}, {16, 16, 1}, {output_, a, b},
                    {n, n});
}

std::span<const float> KernelRunner::output() {
  return At<const float>(output_, output_count_);
}

}  // namespace carillon::sim::timing
