// The event kernels that `carillon bench launch` launches, and how a device
// opens them.
#ifndef CARILLON_TOOLS_BENCH_LAUNCH_WORKLOAD_H_
#define CARILLON_TOOLS_BENCH_LAUNCH_WORKLOAD_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devices/sdk/edge.h"

namespace carillon::bench {

// All data lie in GPU memory, so that only the launch differs.
struct Workload {
  std::string name;   // in the results
  std::string label;  // for people
  std::string kernel;
  edge::Dim3 grid;
  edge::Dim3 block;
  // null_event: 0; vector_add: elements; matmul: rows and columns.
  uint32_t size = 0;
};

// empty (one thread), warp, tb2 and tb120: the kernel sizes of EDGE Fig. 4b and
// smaller ones.
std::span<const Workload> LaunchWorkloads();
const Workload* FindWorkload(std::string_view name);
// `packets` packets, one thread each, as in EDGE Fig. 5.
Workload PacketBatch(uint32_t packets);

// A registered workload. Its destructor unregisters it and frees its buffers;
// the device must outlive it. One thread.
class OpenWorkload {
 public:
  // Fills the buffers, registers on the launch path, launches once and checks
  // the result. Errors: those of edgeRegisterEvent (InvalidArgument: refused);
  // Internal (no buffers, the event failed); DataLoss for a wrong result;
  // DeadlineExceeded when the event does not end.
  static absl::StatusOr<std::unique_ptr<OpenWorkload>> Open(
      edge::Device& device, const Workload& workload, std::string_view path,
      uint32_t max_in_flight);
  ~OpenWorkload();
  OpenWorkload(const OpenWorkload&) = delete;
  OpenWorkload& operator=(const OpenWorkload&) = delete;

  edge::EventQueue& queue() { return *queue_; }

  // Commits one event without ringing the doorbell. Needs a free slot.
  void Commit() {
    if (token_) queue_->Set<uint64_t>(*token_, ++committed_);
    queue_->Commit();
  }
  // Does what the destructor does, and reports errors.
  absl::Status Close();

 private:
  OpenWorkload(edge::Device& device, const Workload& workload)
      : device_(device), workload_(workload) {}
  absl::StatusOr<edge::Buffer> Allocate(edge::Place place, uint64_t bytes);
  absl::Status FillBuffers();
  absl::Status Register(std::string_view path, uint32_t max_in_flight);
  absl::Status LaunchOnce();
  absl::Status CheckResult();
  // c = a + 0 by a background kernel: host memory to GPU memory, or back.
  absl::Status Copy(const edge::Buffer& from, const edge::Buffer& to);
  uint64_t elements() const;

  edge::Device& device_;
  const Workload workload_;
  std::vector<edge::Buffer> buffers_;
  edge::Buffer zeros_, a_, b_, c_;
  edge::EventQueue* queue_ = nullptr;
  std::optional<uint32_t> token_;
  uint64_t committed_ = 0;
};

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_LAUNCH_WORKLOAD_H_
