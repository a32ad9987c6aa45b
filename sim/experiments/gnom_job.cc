#include "sim/experiments/gnom_job.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "fmt/format.h"
#include "kernels/forwarding/echo_reply.cuh"
#include "kernels/memcached/gnom_frame.h"
#include "kernels/memcached/gnom_wire.h"
#include "kernels/memcached/memc_gnom_get.cuh"
#include "kernels/memcached/memc_set.cuh"
#include "kernels/paper/fig_vector_multiply.cuh"
#include "sim/experiments/workloads/kernels.h"
#include "sim/timing/gpu.h"

namespace carillon::sim::figures {
namespace {

using forwarding::EchoHeader;
using forwarding::EchoResult;
using forwarding::EchoVerdict;
using kernels::EchoReplyArgs;
using kernels::FigVectorMultiplyArgs;
using kernels::GnomArgs;
using kernels::MemcArgs;
using memcached::GnomResult;
using memcached::GnomVerdict;
using timing::Cycle;
using timing::GridId;

// A job checks after so many cycles whether it must end.
constexpr Cycle kTurn = 1 << 16;
constexpr uint32_t kBatchesBefore = 4;
// Batches with buffers of their own; more of them wait.
constexpr uint32_t kSlots = 64;
constexpr uint32_t kKeys = 8192;
constexpr uint64_t kNow = 1'700'000'000;
constexpr uint32_t kPort = 9960;
// Of a background, at every size of it.
constexpr uint32_t kBlocks = 256;
constexpr uint32_t kThreads = 1024;
// Between two launches of the background, one waits for the other: a launch by
// CUDA's host API takes 5 us (EDGE III).
constexpr double kLaunchUs = 5;

// The paper's GET has 2 B values.
std::string Value(uint32_t i) { return fmt::format("{:02}", i % 100); }

// A client's frame; its UDP has no checksum, as in GNoM's own tests.
std::string RequestFrame(uint32_t id, const std::string& text) {
  return kernels::RequestFrame({.from_port = 1024 + id % 60000,
                                .to_port = kPort,
                                .id = id & 0xffff,
                                .udp_checksum = false},
                               text);
}

// Zeros, aligned as buffers of gpud's are.
struct HostMemory {
  explicit HostMemory(size_t size)
      : room(size + kAlignment), bytes(Aligned(room).first(size)) {}
  static constexpr size_t kAlignment = 128;
  static std::span<uint8_t> Aligned(std::vector<uint8_t>& room) {
    void* at = room.data();
    size_t left = room.size();
    std::align(kAlignment, 1, at, left);
    return std::span(room).last(left);
  }
  simt::Span<uint8_t> span() const { return {bytes.data(), bytes.size()}; }

  std::vector<uint8_t> room;
  std::span<uint8_t> bytes;
};

// The host and the GPU of one run.
class GnomRun {
 public:
  static absl::StatusOr<std::unique_ptr<GnomRun>> Make(
      const Job& job, const timing::Config& config) {
    std::unique_ptr<GnomRun> run(new GnomRun(job, config));
    ASSIGN_OR_RETURN(auto kernels, Kernels::Load(&run->memory_));
    run->kernels_ = std::move(kernels);
    RETURN_IF_ERROR(run->Allocate());
    RETURN_IF_ERROR(run->StoreKeys());
    GnomRun* const self = run.get();
    run->gpu_ = std::make_unique<timing::Gpu>(
        config, &run->memory_,
        timing::Gpu::Options{.ended = [self](const timing::GridResult& grid) {
          self->Ended(grid);
        }});
    return run;
  }

  absl::StatusOr<Json> Run(const JobControl& control) {
    if (period_ != 0) {
      gpu_->CallAt(period_, [this] { Tick(); });
    } else {
      for (uint32_t i = 0; i < concurrent_; ++i) AddBatch();
      SubmitBatches();
    }
    while (!finished_) {
      gpu_->Run(gpu_->cycle() + kTurn);
      gpu_->ForgetResults();
      if (!status_.ok()) return status_;
      if (control.cancelled != nullptr && *control.cancelled) {
        return absl::CancelledError();
      }
      if (gpu_->cycle() > control.limit) {
        return absl::DeadlineExceededError(
            fmt::format("the run takes more than {} cycles", control.limit));
      }
    }
    if (!status_.ok()) return status_;
    RETURN_IF_ERROR(CheckProduct());
    Json arrivals = Json::array();
    Json turnarounds = Json::array();
    for (const Batch& batch : batches_) {
      if (batch.ended == 0) continue;
      arrivals.push_back(static_cast<int64_t>(batch.arrival) -
                         static_cast<int64_t>(began_));
      turnarounds.push_back(batch.ended - batch.arrival);
    }
    return Json{{"core_mhz", core_mhz_},
                {"cycles", launches_ == 0 ? Json() : Json(ended_ - began_)},
                {"batches", arrivals.size()},
                {"arrival", std::move(arrivals)},
                {"turnaround", std::move(turnarounds)}};
  }

 private:
  struct Batch {
    Cycle arrival = 0;
    Cycle ended = 0;
  };

  GnomRun(const Job& job, const timing::Config& config)
      : launches_(job.runs),
        batch_(job.gnom_batch),
        period_(job.arrivals.least),
        concurrent_(job.arrivals.concurrent),
        ending_(job.gnom_batches),
        hits_(job.gnom_hits),
        pings_(job.gnom_pings),
        elements_(uint64_t{kBlocks} * kThreads *
                  (job.size == Size::kSmall ? 2 : 16)),
        core_mhz_(config.clock.core_mhz),
        launch_cycles_(static_cast<Cycle>(kLaunchUs * core_mhz_)),
        random_(job.seed),
        key_bytes_(KeyLengths(job.gnom_keys)) {}

  // One a key, in a random order. The shares make 100 %.
  std::vector<uint32_t> KeyLengths(
      const std::vector<std::pair<uint32_t, uint32_t>>& shares) {
    std::vector<uint32_t> lengths;
    uint32_t percent = 0;
    for (const auto& [bytes, share] : shares) {
      percent += share;
      lengths.resize(uint64_t{kKeys} * percent / 100, bytes);
    }
    // std::shuffle differs between libraries.
    for (size_t i = lengths.size() - 1; i > 0; --i) {
      std::swap(lengths[i], lengths[random_() % (i + 1)]);
    }
    return lengths;
  }

  std::string Key(uint32_t i) const {
    return fmt::format("key-{:0{}}", i, key_bytes_[i] - 4);
  }
  // Of the same length, and nobody's.
  std::string MissingKey(uint32_t i) const { return "not" + Key(i).substr(3); }

  absl::Status Allocate() {
    using memcached::kGnomReplyBytes;
    using memcached::kGrxbBytes;
    const uint64_t frames = uint64_t{kSlots} * batch_;
    grxbs_ = kernels_->Allocate<uint8_t>(frames * kGrxbBytes, "GRXBs");
    replies_ = kernels_->Allocate<uint8_t>(frames * kGnomReplyBytes, "replies");
    results_ = kernels_->Allocate<GnomResult>(frames, "results");
    table_ = kernels_->Allocate<uint8_t>(memcached::TableBytes(8 * kKeys),
                                         "hash table");
    store_ = kernels_->Allocate<uint8_t>(4 << 20, "value store");
    failure_ = kernels_->Allocate<uint32_t>(1, "status");
    if (pings_) {
      descriptors_ =
          kernels_->Allocate<forwarding::Packet>(frames, "descriptors");
      echo_headers_ = kernels_->Allocate<EchoHeader>(frames, "headers");
      echo_results_ = kernels_->Allocate<EchoResult>(frames, "echo results");
    }
    if (launches_ != 0) {
      a_ = kernels_->Allocate<float>(elements_, "a");
      b_ = kernels_->Allocate<float>(elements_, "b");
      c_ = kernels_->Allocate<float>(elements_, "c");
    }
    RETURN_IF_ERROR(kernels_->status());
    for (uint64_t i = 0; i < a_.values.size(); ++i) {
      a_.values[i] = static_cast<float>(i % 1000);
      b_.values[i] = static_cast<float>(i % 7);
    }
    for (uint64_t i = 0; i < frames; ++i) {
      missing_.push_back(hits_ < 100 && random_() % 100 >= hits_);
      const std::string frame = FrameOf(i);
      const auto length = static_cast<uint16_t>(frame.size());
      uint8_t* const to = &grxbs_.values[i * kGrxbBytes];
      std::memcpy(to, &length, sizeof(length));
      std::memcpy(to + memcached::kGrxbFrame, frame.data(), frame.size());
      if (!pings_) continue;
      descriptors_.values[i] = {
          .offset =
              static_cast<uint32_t>(i * kGrxbBytes + forwarding::kEthernetRoom),
          .length = static_cast<uint32_t>(frame.size() - kEthernetBytes)};
    }
    return absl::OkStatus();
  }
  std::string FrameOf(uint64_t frame) const {
    const uint32_t key = KeyOf(frame);
    return RequestFrame(
        static_cast<uint32_t>(frame),
        fmt::format("get {}\r\n",
                    missing_[frame] ? MissingKey(key) : Key(key)));
  }
  static uint32_t KeyOf(uint64_t frame) {
    return static_cast<uint32_t>(frame * 2654435761u % kKeys);
  }

  // By memc_set, on this machine's own processor.
  absl::Status StoreKeys() {
    // There in memory that has the alignment that the kernel wants.
    HostMemory table(table_.values.size());
    HostMemory store(store_.values.size());
    for (uint32_t i = 0; i < kKeys; ++i) {
      const std::string set =
          fmt::format("set {} 0 0 2\r\n{}\r\n", Key(i), Value(i));
      const memcached::Request request = {
          .offset = 0,
          .length = static_cast<uint32_t>(set.size()),
          .flags = memcached::kStream,
          .reserved = 0};
      std::vector<uint8_t> reply(kernels::memc::kMinReplyStride);
      memcached::Reply result{};
      MemcArgs args{};
      args.packets = {reinterpret_cast<const uint8_t*>(set.data()), set.size()};
      args.requests = {&request, 1};
      args.replies = {reply.data(), reply.size()};
      args.results = {&result, 1};
      args.table = table.span();
      args.store = store.span();
      args.now_s = kNow;
      args.count = 1;
      args.reply_stride = kernels::memc::kMinReplyStride;
      uint32_t failure = 0;
      simt::BlockLaunch launch;
      launch.block_index = {0, 0, 0};
      launch.fail_status = &failure;
      kernels::memc_set_info.run_block(launch, &args);
      if (failure != 0 || result.outcome != memcached::Outcome::kAnswered) {
        return absl::InternalError(
            fmt::format("key {} is not stored: {}", i, failure));
      }
    }
    std::ranges::copy(table.bytes, table_.values.begin());
    std::ranges::copy(store.bytes, store_.values.begin());
    return absl::OkStatus();
  }

  void Tick() {
    if (finished_ || !status_.ok()) return;
    if (batches_.size() == kBatchesBefore && launches_ != 0 && !begun_) {
      begun_ = true;
      began_ = gpu_->cycle();
      LaunchSlice();
    }
    AddBatch();
    SubmitBatches();
    gpu_->CallAt(gpu_->cycle() + period_, [this] { Tick(); });
  }

  void AddBatch() {
    waiting_.push_back(batches_.size());
    batches_.push_back({.arrival = gpu_->cycle()});
  }

  void SubmitBatches() {
    while (!waiting_.empty() && in_flight_.size() < kSlots) {
      const size_t index = waiting_.front();
      const uint64_t first = index % kSlots * batch_;
      // The slot's last batch may be the one that has not ended.
      for (const auto& [grid, other] : in_flight_) {
        if (other % kSlots == index % kSlots) return;
      }
      waiting_.pop_front();
      const auto pairs = static_cast<uint32_t>(
          std::min<uint64_t>(batch_, memcached::kGnomPairs));
      const uint32_t blocks = static_cast<uint32_t>(batch_ / pairs);
      if (pings_) {
        const EchoReplyArgs args = {
            .packets = grxbs_.read_only(),
            .descriptors = descriptors_.part(first, batch_).read_only(),
            .headers = echo_headers_.part(first, batch_).span(),
            .results = echo_results_.part(first, batch_).span(),
            .count = static_cast<uint32_t>(batch_)};
        Start(kernels::echo_reply_info, {blocks, 1, 1}, {pairs, 1, 1}, args,
              index);
        continue;
      }
      using memcached::kGnomReplyBytes;
      const GnomArgs args = {
          .grxbs = grxbs_.read_only(),
          .replies =
              replies_.part(first * kGnomReplyBytes, batch_ * kGnomReplyBytes)
                  .span(),
          .results = results_.part(first, batch_).span(),
          .table = table_.span(),
          .store = store_.span(),
          .first = first * memcached::kGrxbBytes,
          .now_s = kNow,
          .count = static_cast<uint32_t>(batch_),
          .address = kernels::kServerAddress,
          .port = kPort};
      Start(kernels::memc_gnom_get_info, {blocks, 1, 1}, {2 * pairs, 1, 1},
            args, index);
    }
  }

  void LaunchSlice() {
    const uint64_t part = elements_ / launches_;
    const uint64_t at = slices_ * part;
    const FigVectorMultiplyArgs args = {.a = a_.part(at, part).read_only(),
                                        .b = b_.part(at, part).read_only(),
                                        .c = c_.part(at, part).span()};
    ++slices_;
    Start(kernels::fig_vector_multiply_info, {kBlocks / launches_, 1, 1},
          {kThreads, 1, 1}, args, kBackground);
  }

  template <class Args>
  void Start(const simt::KernelInfo& kernel, const Dim3& grid,
             const Dim3& block, const Args& args, size_t batch) {
    auto launch = kernels_->Make(kernel, grid, block, args, failure_);
    status_.Update(kernels_->status());
    if (!status_.ok()) return;
    // As ptxas gives them, which needs fewer than the PTX has.
    const auto id = gpu_->Submit(std::move(launch),
                                 {.registers = kernel.registers_per_thread});
    status_.Update(id.status());
    if (!id.ok()) return;
    if (batch == kBackground) {
      background_ = *id;
    } else {
      in_flight_[*id] = batch;
    }
  }

  void Ended(const timing::GridResult& grid) {
    status_.Update(grid.status);
    if (failure_.values[0] != 0) {
      status_.Update(absl::InternalError(
          fmt::format("a kernel failed: {}", failure_.values[0])));
    }
    if (!status_.ok() || finished_) return;
    if (grid.id == background_) {
      background_ = 0;
      ended_ = grid.completed;
      if (slices_ < launches_) {
        gpu_->CallAt(gpu_->cycle() + launch_cycles_, [this] { LaunchSlice(); });
      }
      return;
    }
    const auto found = in_flight_.find(grid.id);
    const size_t index = found->second;
    in_flight_.erase(found);
    batches_[index].ended = grid.completed;
    if (pings_) {
      CheckEchoes(index);
    } else {
      CheckReplies(index);
    }
    if (period_ == 0) AddBatch();
    SubmitBatches();
    // Without a background, `ended_` is 0.
    if (slices_ < launches_ || background_ != 0) return;
    const auto before = [this](size_t other) {
      return batches_[other].arrival < ended_;
    };
    if (!before(index)) ++after_;
    const bool all = std::ranges::none_of(waiting_, before) &&
                     std::ranges::none_of(in_flight_, [&](const auto& one) {
                       return before(one.second);
                     });
    finished_ = all && after_ >= ending_;
  }

  void CheckReplies(size_t index) {
    for (uint64_t i = 0; i < batch_ && status_.ok(); ++i) {
      const uint64_t at = index % kSlots * batch_ + i;
      const uint32_t key = KeyOf(at);
      const std::string text =
          missing_[at] ? "END\r\n"
                       : fmt::format("VALUE {} 0 2\r\n{}\r\nEND\r\n", Key(key),
                                     Value(key));
      const GnomResult& result = results_.values[at];
      const auto* const reply = reinterpret_cast<const char*>(
          &replies_.values[at * memcached::kGnomReplyBytes]);
      constexpr size_t kText = memcached::kGrxbText;
      if (result.verdict != GnomVerdict::kAnswered ||
          result.length != kText - memcached::kGrxbFrame + text.size() ||
          std::string_view(reply + kText, text.size()) != text) {
        status_.Update(absl::DataLossError(
            fmt::format("batch {}, packet {}: verdict {}, {} bytes", index, i,
                        static_cast<uint32_t>(result.verdict), result.length)));
      }
    }
    // A later batch has the slot's results anew.
    std::memset(&results_.values[index % kSlots * batch_], 0,
                batch_ * sizeof(GnomResult));
  }

  // Compares what each packet's way back begins with.
  void CheckEchoes(size_t index) {
    for (uint64_t i = 0; i < batch_ && status_.ok(); ++i) {
      const uint64_t at = index % kSlots * batch_ + i;
      const std::string frame = FrameOf(at);
      const std::string ip = frame.substr(kEthernetBytes, 20);
      std::string expected = ip.substr(0, 8) + '\x40' + ip[9];
      expected += kernels::Big16(0) + ip.substr(16, 4) + ip.substr(12, 4);
      expected.replace(10, 2, kernels::Big16(kernels::ChecksumOf(expected)));
      // Addresses of Ethernet and ports of UDP change places.
      expected = frame.substr(6, 6) + frame.substr(0, 6) + frame.substr(12, 2) +
                 expected + frame.substr(36, 2) + frame.substr(34, 2);
      const EchoResult& result = echo_results_.values[at];
      const auto* const bytes =
          reinterpret_cast<const char*>(echo_headers_.values[at].bytes);
      if (result.verdict != EchoVerdict::kReply ||
          result.length != frame.size() - kEthernetBytes ||
          std::string_view(bytes + 2, expected.size()) != expected) {
        status_.Update(absl::DataLossError(
            fmt::format("batch {}, packet {}: verdict {}, {} bytes", index, i,
                        static_cast<uint32_t>(result.verdict), result.length)));
      }
    }
    std::memset(&echo_results_.values[index % kSlots * batch_], 0,
                batch_ * sizeof(EchoResult));
  }

  absl::Status CheckProduct() const {
    for (uint64_t i = 0; i < c_.values.size(); ++i) {
      if (c_.values[i] == a_.values[i] * b_.values[i]) continue;
      return absl::DataLossError(fmt::format("product {} is wrong", i));
    }
    return absl::OkStatus();
  }

  static constexpr size_t kBackground = ~size_t{0};
  static constexpr uint32_t kEthernetBytes = 14;
  const uint32_t launches_;
  const uint64_t batch_;
  const Cycle period_;         // 0: flat out,
  const uint32_t concurrent_;  // with so many batches in flight
  const uint32_t ending_;      // batches that end the run
  const uint32_t hits_;        // %
  const bool pings_;
  const uint64_t elements_;
  const double core_mhz_;
  const Cycle launch_cycles_;
  std::mt19937 random_;
  const std::vector<uint32_t> key_bytes_;  // by key
  std::vector<bool> missing_;              // by frame
  Memory memory_;
  std::unique_ptr<Kernels> kernels_;
  Array<uint8_t> grxbs_, replies_, table_, store_;
  Array<GnomResult> results_;
  Array<forwarding::Packet> descriptors_;
  Array<EchoHeader> echo_headers_;
  Array<EchoResult> echo_results_;
  Array<uint32_t> failure_;
  Array<float> a_, b_, c_;
  std::unique_ptr<timing::Gpu> gpu_;
  std::vector<Batch> batches_;
  std::deque<size_t> waiting_;
  std::map<GridId, size_t> in_flight_;
  GridId background_ = 0;
  uint32_t slices_ = 0;  // launched
  bool begun_ = false;
  Cycle began_ = 0;
  Cycle ended_ = 0;
  uint32_t after_ = 0;  // batches that came since then and have ended
  bool finished_ = false;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<Json> RunGnom(const Job& job, const timing::Config& config,
                             const JobControl& control) {
  const bool flat_out = job.arrivals.least == 0;
  const auto percent = std::accumulate(
      job.gnom_keys.begin(), job.gnom_keys.end(), 0u,
      [](uint32_t sum, const auto& one) { return sum + one.second; });
  const bool lengths_fit = std::ranges::all_of(
      job.gnom_keys, [](const auto& one) { return one.first >= 8; });
  if (job.gnom_batch % 32 != 0 || (flat_out && job.runs != 0) ||
      (flat_out &&
       (job.arrivals.concurrent == 0 || job.arrivals.concurrent > kSlots)) ||
      (job.runs != 0 && kBlocks % job.runs != 0) || percent != 100 ||
      !lengths_fit) {
    return absl::InvalidArgumentError(fmt::format(
        "batches have a multiple of 32 requests, of keys of 8 bytes at least "
        "whose shares make 100 %; flat out 1 to {} are in flight and nothing "
        "is beside them; 256 blocks are divided evenly",
        kSlots));
  }
  const auto run = GnomRun::Make(job, config);
  return run.ok() ? (*run)->Run(control) : run.status();
}

}  // namespace carillon::sim::figures
