// GNoM's `offline` mode (thesis 4.4.4, Figs. 4.15 to 4.17): what the GET kernel
// answers when nothing comes from a network. A device fills its GRXBs with
// requests once, and rings batch after batch of them through a gpud that runs.
// Beside memc_gnom_get it measures the same kernel with the copies of NGD, and
// memc_get on the same requests without their headers. Every reply of the first
// and of the last batch is checked. Writes a line of CSV for each.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "devices/sdk/edge.h"
#include "fmt/format.h"
#include "kernels/memcached/gnom_frame.h"
#include "kernels/memcached/gnom_wire.h"
#include "kernels/memcached/wire.h"

namespace carillon {
namespace {

using edge::Place;
using memcached::kGnomReplyBytes;
using memcached::kGrxbBytes;

using Clock = std::chrono::steady_clock;

constexpr uint32_t kPort = 11211;
constexpr uint32_t kHeads = 14 + 20 + 8;  // of Ethernet, IPv4 and UDP
constexpr uint64_t kNow = 1'700'000'000;
constexpr std::chrono::seconds kPatience{60};

struct Options {
  std::string directory;
  uint32_t batch = 512;
  uint32_t in_flight = 16;  // batches
  uint32_t keys = 8192;
  uint32_t key_bytes = 16;
  uint32_t value_bytes = 2;
  uint32_t milliseconds = 1000;
  uint32_t rounds = 3;
};

// A client's frame; its UDP has no checksum, as in GNoM's own tests.
std::string RequestFrame(uint32_t id, const std::string& text) {
  return kernels::RequestFrame({.from_port = 1024 + id % 60000,
                                .to_port = kPort,
                                .id = id & 0xffff,
                                .udp_checksum = false},
                               text);
}

edge::BufferPart BySlot(uint64_t bytes) {
  return {.offset = 0, .length = bytes, .slot_stride = bytes};
}

// A device with requests and a table in its memory.
class Bench {
 public:
  struct Result {
    double requests_per_s = 0;
    double batch_us = 0;  // from the ring to the completion, the median
  };

  static absl::StatusOr<Bench> Open(const Options& options) {
    Bench bench(options);
    RETURN_IF_ERROR(bench.Attach());
    RETURN_IF_ERROR(bench.StoreKeys());
    return bench;
  }

  absl::StatusOr<Result> Gnom(bool copies) {
    const auto prepare = [&](uint32_t slot) {
      gnom_->Set<uint64_t>(gnom_first_, First(slot) * kGrxbBytes);
      gnom_->Set<uint32_t>(gnom_count_, options_.batch);
      if (!copies) return;
      // The frames come to the host's memory, and from there.
      for (uint32_t i = 0; i < options_.batch; ++i) {
        const uint64_t at = (First(slot) + i) * kGrxbBytes;
        uint16_t length;
        std::memcpy(&length, &host_[at], sizeof(length));
        std::memcpy(&grxbs_.bytes[at], &host_[at],
                    memcached::kGrxbFrame + size_t{length});
      }
    };
    const auto finish = [&](uint32_t slot, bool check) -> absl::Status {
      for (uint32_t i = 0; copies && i < options_.batch; ++i) {
        const uint64_t at = First(slot) + i;
        std::memcpy(&host_[at * kGrxbBytes + kGrxbBytes / 2],
                    &gnom_replies_.bytes[at * kGnomReplyBytes],
                    ReplyOf(at).length + size_t{memcached::kGrxbFrame});
      }
      return check ? CheckFrames(slot) : absl::OkStatus();
    };
    return Run(gnom_, prepare, finish);
  }

  absl::StatusOr<Result> MemcGet() {
    const auto prepare = [&](uint32_t) {
      get_->Set<uint64_t>(get_now_, kNow);
      get_->Set<uint32_t>(get_count_, options_.batch);
    };
    const auto finish = [&](uint32_t slot, bool check) {
      return check ? CheckDatagrams(slot) : absl::OkStatus();
    };
    return Run(get_, prepare, finish);
  }

 private:
  explicit Bench(const Options& options) : options_(options) {}

  uint64_t First(uint32_t slot) const {
    return uint64_t{slot} * options_.batch;
  }
  uint64_t Requests() const { return First(options_.in_flight); }
  std::string Key(uint32_t i) const {
    return fmt::format("{:0{}}", i, options_.key_bytes);
  }
  std::string Value(uint32_t i) const {
    return fmt::format("{:0{}}", i % 10, options_.value_bytes);
  }
  std::string Reply(uint64_t request) const {
    return fmt::format("VALUE {} 0 {}\r\n{}\r\nEND\r\n", Key(keys_[request]),
                       options_.value_bytes, Value(keys_[request]));
  }
  memcached::GnomResult ReplyOf(uint64_t request) const {
    memcached::GnomResult result;
    std::memcpy(&result, &gnom_results_.bytes[request * sizeof(result)],
                sizeof(result));
    return result;
  }

  absl::Status Attach() {
    const uint64_t requests = Requests();
    const uint64_t replies = requests * memcached::kSmallReplyStride;
    edge::AttachOptions attach;
    attach.testbed_directory = options_.directory;
    attach.name = "gnom-offline";
    attach.kind = "bench";
    attach.submission_bytes =
        requests * (kGrxbBytes + sizeof(memcached::Request)) + (1 << 20);
    attach.completion_bytes =
        requests * (kGnomReplyBytes + sizeof(memcached::Reply) + 4) + replies +
        (1 << 20);
    ASSIGN_OR_RETURN(device_, edge::Device::Attach(attach));
    const auto allocate = [&](Place place, uint64_t bytes, edge::Buffer* to) {
      auto buffer = device_->AllocateBuffer(place, bytes);
      if (buffer.ok()) *to = *buffer;
      return buffer.status();
    };
    RETURN_IF_ERROR(allocate(Place::kInput, requests * kGrxbBytes, &grxbs_));
    RETURN_IF_ERROR(allocate(
        Place::kInput, requests * sizeof(memcached::Request), &descriptors_));
    RETURN_IF_ERROR(allocate(Place::kOutput,
                             requests * sizeof(memcached::GnomResult),
                             &gnom_results_));
    RETURN_IF_ERROR(
        allocate(Place::kOutput, requests * kGnomReplyBytes, &gnom_replies_));
    RETURN_IF_ERROR(allocate(Place::kOutput,
                             requests * sizeof(memcached::Reply), &results_));
    RETURN_IF_ERROR(allocate(Place::kOutput, replies, &replies_));
    RETURN_IF_ERROR(allocate(
        Place::kGpuMemory, memcached::TableBytes(8 * options_.keys), &table_));
    RETURN_IF_ERROR(allocate(
        Place::kGpuMemory,
        (2 << 20) + uint64_t{options_.keys} *
                        (options_.key_bytes + options_.value_bytes + 128) * 2,
        &store_));
    return RegisterKernels();
  }

  absl::Status RegisterKernels() {
    const uint32_t batch = options_.batch;
    const uint32_t pairs = std::min(batch, memcached::kGnomPairs);
    edge::EventSpec gnom = {
        .kernel = "memc_gnom_get",
        .grid = {(batch + pairs - 1) / pairs, 1, 1},
        .block = {2 * pairs, 1, 1},
        .max_in_flight = options_.in_flight,
        .parameters = {
            edge::Fixed("grxbs", grxbs_),
            edge::Fixed("replies", gnom_replies_,
                        BySlot(uint64_t{batch} * kGnomReplyBytes)),
            edge::Fixed("results", gnom_results_,
                        BySlot(batch * sizeof(memcached::GnomResult))),
            edge::Fixed("table", table_), edge::Fixed("store", store_),
            edge::Writable("first"), edge::Constant("now_s", kNow),
            edge::Writable("count"),
            edge::Constant("address", kernels::kServerAddress),
            edge::Constant("port", kPort)}};
    ASSIGN_OR_RETURN(gnom_, edge::edgeRegisterEvent(*device_, gnom));
    ASSIGN_OR_RETURN(gnom_first_, gnom_->ParameterOffset("first"));
    ASSIGN_OR_RETURN(gnom_count_, gnom_->ParameterOffset("count"));
    for (const auto& [kernel, queue] :
         {std::pair("memc_get", &get_), std::pair("memc_set", &set_)}) {
      edge::EventSpec spec = {
          .kernel = kernel,
          .block = {batch, 1, 1},
          .max_in_flight = options_.in_flight,
          .parameters = {
              edge::Fixed("packets", grxbs_),
              edge::Fixed("requests", descriptors_,
                          BySlot(batch * sizeof(memcached::Request))),
              edge::Fixed(
                  "replies", replies_,
                  BySlot(uint64_t{batch} * memcached::kSmallReplyStride)),
              edge::Fixed("results", results_,
                          BySlot(batch * sizeof(memcached::Reply))),
              edge::Fixed("table", table_), edge::Fixed("store", store_),
              // No `stats` is asked for; any bytes do.
              edge::Fixed("server", grxbs_,
                          {.length = sizeof(memcached::ServerStats)}),
              edge::Writable("now_s"), edge::Writable("count"),
              edge::Constant("reply_stride", memcached::kSmallReplyStride)}};
      ASSIGN_OR_RETURN(*queue, edge::edgeRegisterEvent(*device_, spec));
    }
    ASSIGN_OR_RETURN(get_now_, get_->ParameterOffset("now_s"));
    ASSIGN_OR_RETURN(get_count_, get_->ParameterOffset("count"));
    return absl::OkStatus();
  }

  // Puts a text into a GRXB, and its descriptor. Of a datagram, `skip` bytes
  // before it are headers.
  void PutRequest(uint64_t at, const std::string& bytes, uint32_t skip,
                  uint32_t flags) {
    const auto length = static_cast<uint16_t>(bytes.size());
    std::byte* const to = &grxbs_.bytes[at * kGrxbBytes];
    std::memcpy(to, &length, sizeof(length));
    std::memcpy(to + memcached::kGrxbFrame, bytes.data(), bytes.size());
    const memcached::Request request = {
        .offset = static_cast<uint32_t>(at * kGrxbBytes +
                                        memcached::kGrxbFrame + skip),
        .length = length - skip,
        .flags = flags,
        .reserved = 0};
    std::memcpy(&descriptors_.bytes[at * sizeof(request)], &request,
                sizeof(request));
  }

  absl::Status StoreKeys() {
    ASSIGN_OR_RETURN(const uint32_t now, set_->ParameterOffset("now_s"));
    ASSIGN_OR_RETURN(const uint32_t count, set_->ParameterOffset("count"));
    for (uint32_t key = 0; key < options_.keys; key += options_.batch) {
      const uint32_t sets = std::min(options_.batch, options_.keys - key);
      const uint32_t slot = set_->next_slot();
      for (uint32_t i = 0; i < sets; ++i) {
        PutRequest(First(slot) + i,
                   fmt::format("set {} 0 0 {}\r\n{}\r\n", Key(key + i),
                               options_.value_bytes, Value(key + i)),
                   0, memcached::kStream);
      }
      set_->Set<uint64_t>(now, kNow);
      set_->Set<uint32_t>(count, sets);
      set_->RingDoorbell();
      ASSIGN_OR_RETURN(const auto done, set_->Wait(kPatience));
      if (done.state != edge::EventState::kDone) {
        return absl::InternalError("memc_set failed");
      }
      set_->Free();
    }
    std::mt19937 random(1);
    for (uint64_t i = 0; i < Requests(); ++i) {
      keys_.push_back(random() % options_.keys);
      PutRequest(i,
                 RequestFrame(static_cast<uint32_t>(i),
                              fmt::format("get {}\r\n", Key(keys_[i]))),
                 kHeads, 0);
    }
    host_.assign(grxbs_.bytes.begin(), grxbs_.bytes.end());
    return absl::OkStatus();
  }

  absl::Status CheckFrames(uint32_t slot) const {
    for (uint32_t i = 0; i < options_.batch; ++i) {
      const uint64_t at = First(slot) + i;
      const std::string expected = Reply(at);
      const auto* const text = reinterpret_cast<const char*>(
          &gnom_replies_.bytes[at * kGnomReplyBytes + memcached::kGrxbText]);
      if (ReplyOf(at).verdict != memcached::GnomVerdict::kAnswered ||
          ReplyOf(at).length != kHeads + 8 + expected.size() ||
          std::string_view(text, expected.size()) != expected) {
        return absl::DataLossError(fmt::format(
            "request {}: verdict {}, {} bytes", at,
            static_cast<int>(ReplyOf(at).verdict), ReplyOf(at).length));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckDatagrams(uint32_t slot) const {
    for (uint32_t i = 0; i < options_.batch; ++i) {
      const uint64_t at = First(slot) + i;
      memcached::Reply reply;
      std::memcpy(&reply, &results_.bytes[at * sizeof(reply)], sizeof(reply));
      const std::string expected = Reply(at);
      const auto* const text = reinterpret_cast<const char*>(
          &replies_.bytes[at * memcached::kSmallReplyStride + 8]);
      if (reply.outcome != memcached::Outcome::kAnswered ||
          reply.length != 8 + expected.size() ||
          std::string_view(text, expected.size()) != expected) {
        return absl::DataLossError(
            fmt::format("request {}: outcome {}, {} bytes", at,
                        static_cast<int>(reply.outcome), reply.length));
      }
    }
    return absl::OkStatus();
  }

  // Rings batches until the time is over, as many in flight as there are slots.
  absl::StatusOr<Result> Run(
      edge::EventQueue* queue, const std::function<void(uint32_t)>& prepare,
      const std::function<absl::Status(uint32_t, bool)>& finish) {
    const auto began = Clock::now();
    const auto ends = began + std::chrono::milliseconds(options_.milliseconds);
    std::vector<Clock::time_point> rung(options_.in_flight);
    std::vector<double> took;
    auto ended = began;
    while (true) {
      while (queue->free_slots() > 0 && Clock::now() < ends) {
        const uint32_t slot = queue->next_slot();
        prepare(slot);
        rung[slot] = Clock::now();
        queue->RingDoorbell();
      }
      if (queue->in_flight() == 0) break;
      ASSIGN_OR_RETURN(const auto done, queue->Wait(kPatience));
      ended = Clock::now();
      if (done.state != edge::EventState::kDone) {
        return absl::InternalError(
            fmt::format("{} failed: {}", queue->kernel(), done.status));
      }
      const uint32_t slot = queue->SlotOf(done.sequence);
      took.push_back(
          std::chrono::duration<double, std::micro>(ended - rung[slot])
              .count());
      const bool last = Clock::now() >= ends && queue->in_flight() == 1;
      RETURN_IF_ERROR(finish(slot, took.size() == 1 || last));
      queue->Free();
    }
    const double seconds = std::chrono::duration<double>(ended - began).count();
    const double requests = static_cast<double>(took.size()) * options_.batch;
    const auto middle = took.begin() + static_cast<long>(took.size() / 2);
    std::nth_element(took.begin(), middle, took.end());
    return Result{requests / seconds, *middle};
  }

  Options options_;
  std::unique_ptr<edge::Device> device_;
  edge::Buffer grxbs_, descriptors_, gnom_results_, gnom_replies_, results_,
      replies_, table_, store_;
  edge::EventQueue* gnom_ = nullptr;
  edge::EventQueue* get_ = nullptr;
  edge::EventQueue* set_ = nullptr;
  uint32_t gnom_first_ = 0, gnom_count_ = 0, get_now_ = 0, get_count_ = 0;
  std::vector<uint32_t> keys_;  // by request
  std::vector<std::byte> host_;
};

absl::Status Run(const Options& options) {
  ASSIGN_OR_RETURN(Bench bench, Bench::Open(options));
  fmt::print("round,contender,requests_per_s,batch_us_p50\n");
  // Forwards and backwards in turn, so that a drift is everybody's.
  const char* const names[] = {"gnom", "ngd", "memc_get"};
  for (uint32_t round = 0; round < options.rounds; ++round) {
    for (int i = 0; i < 3; ++i) {
      const int which = round % 2 == 0 ? i : 2 - i;
      ASSIGN_OR_RETURN(const auto result,
                       which == 2 ? bench.MemcGet() : bench.Gnom(which == 1));
      fmt::print("{},{},{:.0f},{:.1f}\n", round + 1, names[which],
                 result.requests_per_s, result.batch_us);
    }
  }
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app(
      "gnom_offline: what GNoM's GET kernel answers without a network.");
  app.add_option("--dir", options.directory, "the testbed's directory")
      ->required();
  app.add_option("--batch", options.batch, "requests of an event")
      ->check(CLI::IsMember({32, 64, 128, 256, 512}));
  app.add_option("--in-flight", options.in_flight, "batches, a power of two")
      ->check(CLI::IsMember({1, 2, 4, 8, 16, 32, 64}));
  app.add_option("--keys", options.keys)->check(CLI::Range(1, 1'000'000));
  app.add_option("--key-bytes", options.key_bytes)->check(CLI::Range(7, 250));
  app.add_option("--value-bytes", options.value_bytes)
      ->check(CLI::Range(1, 150));
  app.add_option("--milliseconds", options.milliseconds, "of each measurement")
      ->check(CLI::Range(1, 60'000));
  app.add_option("--rounds", options.rounds)->check(CLI::Range(1, 1000));
  CLI11_PARSE(app, argc, argv);
  const absl::Status ran = Run(options);
  if (ran.ok()) return 0;
  fmt::print(stderr, "gnom_offline: {}\n", ran.message());
  return 1;
}

}  // namespace
}  // namespace carillon

int main(int argc, char** argv) { return carillon::Main(argc, argv); }
