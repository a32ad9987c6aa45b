#include "tools/bench/launch/workload.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"

namespace carillon::bench {
namespace {

constexpr uint32_t kBlock = 256;
constexpr uint32_t kTile = 16;  // of matmul
constexpr std::chrono::seconds kFirstEventTime{10};
constexpr std::chrono::seconds kLaunchTime{10};  // of a background kernel

uint32_t Blocks(uint64_t threads, uint32_t block) {
  return static_cast<uint32_t>((threads + block - 1) / block);
}

// With small integers the sums of products are exact in a float.
float ValueOfA(uint64_t i) { return static_cast<float>(i % 7); }
float ValueOfB(uint64_t i) { return static_cast<float>(i % 5); }

float Expected(const Workload& workload, uint64_t i) {
  if (workload.kernel == "vector_add") return ValueOfA(i) + ValueOfB(i);
  const uint64_t n = workload.size;
  float sum = 0;
  for (uint64_t k = 0; k < n; ++k) {
    sum += ValueOfA(i / n * n + k) * ValueOfB(k * n + i % n);
  }
  return sum;
}

}  // namespace

std::span<const Workload> LaunchWorkloads() {
  static const auto* const workloads = new std::array<Workload, 4>{{
      {"empty", "empty, 1 thread", "null_event", {}, {1, 1, 1}, 0},
      {"warp", "1 warp", "vector_add", {}, {32, 1, 1}, 32},
      // No matrix is exactly two tiles in a square, so the second block lies
      // outside of the matrix and works on zeros.
      {"tb2", "2 TBs", "matmul", {2, 1, 1}, {kTile, kTile, 1}, kTile},
      // 10x10 blocks hold the matrix, the other 20 work on zeros.
      {"tb120", "120 TBs", "matmul", {12, 10, 1}, {kTile, kTile, 1}, 160},
  }};
  return *workloads;
}

const Workload* FindWorkload(std::string_view name) {
  for (const Workload& workload : LaunchWorkloads()) {
    if (workload.name == name) return &workload;
  }
  return nullptr;
}

Workload PacketBatch(uint32_t packets) {
  const uint32_t block = std::min(packets, kBlock);
  return {fmt::format("batch_{}", packets),
          fmt::format("{} packets", packets),
          "vector_add",
          {Blocks(packets, block), 1, 1},
          {block, 1, 1},
          packets};
}

uint64_t OpenWorkload::elements() const {
  const uint64_t size = workload_.size;
  return workload_.kernel == "matmul" ? size * size : size;
}

absl::StatusOr<std::unique_ptr<OpenWorkload>> OpenWorkload::Open(
    edge::Device& device, const Workload& workload, std::string_view path,
    uint32_t max_in_flight) {
  std::unique_ptr<OpenWorkload> open(new OpenWorkload(device, workload));
  // An InvalidArgument of filling must not look like a refused registration.
  if (auto status = open->FillBuffers(); !status.ok()) {
    return absl::InternalError(
        fmt::format("cannot fill the buffers: {}", status.message()));
  }
  RETURN_IF_ERROR(open->Register(path, max_in_flight));
  RETURN_IF_ERROR(open->LaunchOnce());
  RETURN_IF_ERROR(open->CheckResult());
  return open;
}

OpenWorkload::~OpenWorkload() { Close().IgnoreError(); }

absl::Status OpenWorkload::Close() {
  absl::Status result;
  if (queue_ != nullptr) {
    result = edge::edgeUnregisterEvent(device_, std::exchange(queue_, nullptr));
  }
  for (const edge::Buffer& buffer : std::exchange(buffers_, {})) {
    result.Update(device_.FreeBuffer(buffer));
  }
  return result;
}

absl::StatusOr<edge::Buffer> OpenWorkload::Allocate(edge::Place place,
                                                    uint64_t bytes) {
  auto buffer = device_.AllocateBuffer(place, bytes);
  if (buffer.ok()) buffers_.push_back(*buffer);
  return buffer;
}

absl::Status OpenWorkload::Copy(const edge::Buffer& from,
                                const edge::Buffer& to) {
  return device_
      .LaunchKernel(
          {.kernel = "vector_add",
           .grid = {Blocks(elements(), kBlock), 1, 1},
           .block = {kBlock, 1, 1},
           .parameters = {edge::Fixed("a", from), edge::Fixed("b", zeros_),
                          edge::Fixed("c", to)},
           .timeout = kLaunchTime})
      .status();
}

absl::Status OpenWorkload::FillBuffers() {
  const uint64_t bytes = elements() * sizeof(float);
  if (bytes == 0) return absl::OkStatus();
  for (edge::Buffer* buffer : {&zeros_, &a_, &b_, &c_}) {
    ASSIGN_OR_RETURN(*buffer, Allocate(edge::Place::kGpuMemory, bytes));
  }
  ASSIGN_OR_RETURN(const auto input, Allocate(edge::Place::kInput, bytes));
  for (const auto& [buffer, value] :
       {std::pair(&a_, &ValueOfA), std::pair(&b_, &ValueOfB)}) {
    for (uint64_t i = 0; i < elements(); ++i) {
      const float element = value(i);
      std::memcpy(input.bytes.data() + i * sizeof(float), &element,
                  sizeof(float));
    }
    RETURN_IF_ERROR(Copy(input, *buffer));
  }
  return absl::OkStatus();
}

absl::Status OpenWorkload::Register(std::string_view path,
                                    uint32_t max_in_flight) {
  edge::EventSpec spec{.kernel = workload_.kernel,
                       .grid = workload_.grid,
                       .block = workload_.block,
                       .max_in_flight = max_in_flight,
                       .label = workload_.name,
                       .launch_path = std::string(path)};
  const bool null = workload_.kernel == "null_event";
  if (null) {
    spec.parameters = {edge::Writable("token")};
  } else {
    spec.parameters = {edge::Fixed("a", a_), edge::Fixed("b", b_),
                       edge::Fixed("c", c_)};
    if (workload_.kernel == "matmul") {
      spec.parameters.push_back(edge::Constant("n", workload_.size));
    }
  }
  ASSIGN_OR_RETURN(queue_, edge::edgeRegisterEvent(device_, spec));
  if (null) {
    ASSIGN_OR_RETURN(token_, queue_->ParameterOffset("token"));
  }
  return absl::OkStatus();
}

absl::Status OpenWorkload::LaunchOnce() {
  Commit();
  queue_->RingCommitted();
  ASSIGN_OR_RETURN(const auto done, queue_->Wait(kFirstEventTime));
  queue_->Free();
  if (done.state == edge::EventState::kDone) return absl::OkStatus();
  return absl::InternalError(
      fmt::format("the first event ended in state {} with status {}",
                  static_cast<int>(done.state), done.status));
}

absl::Status OpenWorkload::CheckResult() {
  const uint64_t bytes = elements() * sizeof(float);
  if (bytes == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const auto output, Allocate(edge::Place::kOutput, bytes));
  if (auto status = Copy(c_, output); !status.ok()) {
    return absl::InternalError(
        fmt::format("cannot read the result: {}", status.message()));
  }
  for (uint64_t i = 0; i < elements(); ++i) {
    float got;
    std::memcpy(&got, output.bytes.data() + i * sizeof(float), sizeof(float));
    if (got != Expected(workload_, i)) {
      return absl::DataLossError(fmt::format("{}: element {} is {}, not {}",
                                             workload_.kernel, i, got,
                                             Expected(workload_, i)));
    }
  }
  return absl::OkStatus();
}

}  // namespace carillon::bench
