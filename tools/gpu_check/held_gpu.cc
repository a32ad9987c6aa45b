#include "tools/gpu_check/held_gpu.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <vector>

#include "base/unique_fd.h"
#include "fmt/format.h"

namespace carillon::gpu_check {

HeldGpu::HeldGpu(const std::string& self, const std::string& folder) {
  auto pipe = MakePipe();
  if (!pipe.ok()) {
    about_ = fmt::format("the GPU is not held open: {}",
                         std::string(pipe.status().message()));
    return;
  }
  auto process = Subprocess::Start(
      {.argv = {self, "--part-hold", folder}, .out = pipe->writer.get()});
  pipe->writer.reset();
  if (!process.ok()) {
    about_ = fmt::format("the GPU is not held open: {}",
                         std::string(process.status().message()));
    return;
  }
  process_.emplace(*std::move(process));
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!about_.ends_with('\n')) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd readable{pipe->reader.get(), POLLIN, 0};
    char bytes[512];
    if (left.count() <= 0 ||
        poll(&readable, 1, static_cast<int>(left.count())) <= 0) {
      about_ = "the GPU's device files take more than 10 s to open\n";
      break;
    }
    const ssize_t size = read(pipe->reader.get(), bytes, sizeof(bytes));
    if (size <= 0) break;
    about_.append(bytes, static_cast<size_t>(size));
  }
  if (about_.ends_with('\n')) about_.pop_back();
}

int HoldGpu(const std::string& folder) {
  std::vector<UniqueFd> held;
  std::string names;
  std::string why;
  const auto hold = [&](const std::string& name) {
    const std::string path = fmt::format("{}/{}", folder, name);
    UniqueFd file(open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!file) {
      if (why.empty()) why = fmt::format("{}: {}", path, strerror(errno));
      return;
    }
    held.push_back(std::move(file));
    names += (names.empty() ? "" : ", ") + path;
  };
  hold("nvidiactl");
  // The device's file is what initialises it. A machine may show us any of its
  // GPUs.
  const size_t before = held.size();
  constexpr int kMostGpus = 32;
  for (int i = 0; i < kMostGpus; ++i) {
    const std::string name = fmt::format("nvidia{}", i);
    if (i == 0 || access(fmt::format("{}/{}", folder, name).c_str(), F_OK) == 0)
      hold(name);
  }
  if (held.size() == before) {
    fmt::print("the GPU is not held open between steps: {}\n", why);
    return 1;
  }
  fmt::print("held open between steps: {}\n", names);
  std::fflush(stdout);
  while (true) pause();
}

}  // namespace carillon::gpu_check
