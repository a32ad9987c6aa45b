// Does a child grid start while its parent spins (CUDA dynamic parallelism)?
// This is an executable of its own, because a module with such launches takes
// two SMs from every green context of its process.
#include <cuda_runtime.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

namespace {

constexpr int kNoGpuCode = 77;

struct Words {
  uint32_t bell, pad0[31];
  uint32_t done, pad1[31];
  uint32_t stop, pad2[31];
  uint32_t running, error;
};

__device__ uint32_t Poll(const uint32_t* word) {
  uint32_t value;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];"
               : "=r"(value)
               : "l"(word)
               : "memory");
  return value;
}

__global__ void child(Words* words, uint32_t sequence) {
  if (threadIdx.x == 0) {
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(&words->done),
                 "r"(sequence)
                 : "memory");
  }
}

__global__ void parent(Words* words) {
  uint32_t seen = 0;
  words->running = 1;
  __threadfence_system();
  while (Poll(&words->stop) == 0) {
    const uint32_t bell = Poll(&words->bell);
    if (bell == seen) continue;
    seen = bell;
    child<<<1, 32, 0, cudaStreamFireAndForget>>>(words, seen);
    const cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess) words->error = error;
  }
}

using Clock = std::chrono::steady_clock;

bool Await(const uint32_t* word, uint32_t value, double seconds) {
  const auto start = Clock::now();
  while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value) {
    if (std::chrono::duration<double>(Clock::now() - start).count() > seconds) {
      return false;
    }
  }
  return true;
}

int Fail(const char* what, cudaError_t error) {
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--help") == 0) {
    std::printf("usage: cdp_probe cdp_spinning\n");
    return 0;
  }
  int devices = 0;
  cudaError_t error = cudaGetDeviceCount(&devices);
  if (error != cudaSuccess || devices == 0) {
    std::fprintf(stderr, "no NVIDIA GPU here: %s\n", cudaGetErrorString(error));
    return kNoGpuCode;
  }
  Words* words = nullptr;
  error = cudaHostAlloc(reinterpret_cast<void**>(&words), sizeof(Words),
                        cudaHostAllocMapped | cudaHostAllocPortable);
  if (error != cudaSuccess) return Fail("pinned memory", error);
  std::memset(words, 0, sizeof(*words));
  cudaDeviceSetLimit(cudaLimitDevRuntimePendingLaunchCount, 4096);
  cudaStream_t stream;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  parent<<<1, 1, 0, stream>>>(words);
  error = cudaGetLastError();
  if (error != cudaSuccess) return Fail("launch the parent", error);
  if (!Await(&words->running, 1, 5)) {
    std::fprintf(stderr, "the parent does not begin\n");
    return 1;
  }
  constexpr uint32_t kEvents = 3000;
  std::vector<double> us;
  for (uint32_t i = 1; i <= kEvents; ++i) {
    const auto start = Clock::now();
    __atomic_store_n(&words->bell, i, __ATOMIC_RELEASE);
    if (!Await(&words->done, i, 2)) break;
    us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start)
                     .count());
  }
  const bool while_spinning = us.size() == kEvents;
  __atomic_store_n(&words->stop, 1u, __ATOMIC_RELEASE);
  error = cudaStreamSynchronize(stream);
  std::sort(us.begin(), us.end());
  const double p50 = us.empty() ? 0 : us[us.size() / 2];
  const double p99 = us.empty() ? 0 : us[us.size() * 99 / 100];
  std::printf(
      "{\"probe\": \"cdp_spinning\", \"question\": \"Does a child grid start "
      "while its parent spins?\", \"started\": %zu, \"of\": %u, \"p50_us\": "
      "%.2f, \"p99_us\": %.2f, \"launch_error\": %u}\n",
      us.size(), kEvents, p50, p99, words->error);
  if (while_spinning) {
    std::printf(
        "finding: yes: doorbell to child's store p50 %.2f us, p99 %.2f "
        "us\n",
        p50, p99);
  } else {
    std::printf("finding: no: %zu of %u children started (error %u)\n",
                us.size(), kEvents, words->error);
  }
  std::fflush(stdout);
  _exit(error == cudaSuccess ? 0 : Fail("end the parent", error));
}
