#include "devices/nic/memc_channel.h"

#include <gtest/gtest.h>

#include <ctime>
#include <map>

#include "base/temp_directory.h"
#include "devices/nic/nic_counters.h"
#include "devices/sdk/fake_gpud.h"

namespace carillon::nic {
namespace {

using edge::EventState;
using memcached::Outcome;

constexpr uint32_t kBatch = 4;
constexpr uint32_t kRing = 2;
constexpr uint32_t kStride = 256;

// The test acts as the GPU.
class MemcChannelTest : public ::testing::Test {
 protected:
  MemcChannelTest() {
    gpud_ = std::make_unique<edge::FakeGpud>(directory_);
    edge::AttachOptions attach;
    attach.testbed_directory = directory_;
    attach.name = "nic0";
    attach.kind = "nic";
    device_ = *edge::Device::Attach(attach);
    packets_ = *device_->AllocateBuffer(edge::Place::kInput, 8 * kPacketBytes);
    table_ = *device_->AllocateBuffer(edge::Place::kGpuMemory, 4096);
    store_ = *device_->AllocateBuffer(edge::Place::kGpuMemory, 4096);
    server_ = *device_->AllocateBuffer(edge::Place::kInput,
                                       sizeof(memcached::ServerStats));
  }
  ~MemcChannelTest() override {
    channel_.reset();
    device_.reset();
    gpud_.reset();
  }

  void Open(uint32_t slot_packet_bytes = 0, bool largest = false) {
    auto channel = MemcChannel::Open(
        device_.get(), {.kernel = "memc_get",
                        .label = "get",
                        .batch = kBatch,
                        .ring = kRing,
                        .priority = 3,
                        .reply_stride = kStride,
                        .largest = largest,
                        .packets = slot_packet_bytes == 0 ? &packets_ : nullptr,
                        .slot_packet_bytes = slot_packet_bytes,
                        .table = &table_,
                        .store = &store_,
                        .server = &server_});
    ASSERT_TRUE(channel.ok()) << channel.status();
    channel_ = std::move(*channel);
    registration_ = gpud_->seen().registration;
    for (const auto& binding : registration_.parameters()) {
      bindings_[binding.name()] = binding;
    }
  }
  std::byte* SlotPart(const std::string& parameter, uint32_t slot) {
    const auto& binding = bindings_.at(parameter);
    return gpud_->buffer(binding.buffer_id()).data() + binding.offset() +
           slot * binding.slot_stride();
  }
  memcached::Request& Descriptor(uint32_t slot, uint32_t i) {
    return reinterpret_cast<memcached::Request*>(SlotPart("requests", slot))[i];
  }
  memcached::Reply& Result(uint32_t slot, uint32_t i) {
    return reinterpret_cast<memcached::Reply*>(SlotPart("results", slot))[i];
  }
  static PlacedRequest Placed(uint32_t index, uint32_t offset, uint32_t length,
                              Request::Origin origin) {
    return {{.origin = origin, .index = index, .length = length}, offset};
  }

  const TempDirectory files_;
  const std::string& directory_ = files_.path();
  std::unique_ptr<edge::FakeGpud> gpud_;
  std::unique_ptr<edge::Device> device_;
  edge::Buffer packets_, table_, store_, server_;
  std::unique_ptr<MemcChannel> channel_;
  v1::RegisterEventRequest registration_;
  std::map<std::string, v1::ParameterBinding> bindings_;
};

constexpr auto kDatagram = Request::Origin::kDatagram;
constexpr auto kStream = Request::Origin::kStream;

TEST_F(MemcChannelTest, RegistersAWarpAndGivesEverySlotItsOwnParts) {
  Open();
  EXPECT_EQ(registration_.kernel(), "memc_get");
  EXPECT_EQ(registration_.label(), "get");
  EXPECT_EQ(registration_.priority(), 3u);
  EXPECT_EQ(registration_.max_in_flight(), kRing);
  EXPECT_EQ(registration_.block().x(), 32u);
  EXPECT_EQ(bindings_.at("packets").slot_stride(), 0u);
  EXPECT_EQ(bindings_.at("requests").slot_stride(),
            kBatch * sizeof(memcached::Request));
  EXPECT_EQ(bindings_.at("requests").length(),
            kBatch * sizeof(memcached::Request));
  EXPECT_EQ(bindings_.at("replies").slot_stride(), kBatch * kStride);
  EXPECT_EQ(bindings_.at("results").slot_stride(),
            kBatch * sizeof(memcached::Reply));
  EXPECT_EQ(bindings_.at("reply_stride").unsigned_value(), kStride);
  EXPECT_TRUE(bindings_.at("count").writable());
  EXPECT_TRUE(bindings_.at("now_s").writable());
  EXPECT_GE(MemcChannel::SubmissionBytes({.batch = kBatch, .ring = kRing}),
            kRing * kBatch * sizeof(memcached::Request));
}

TEST_F(MemcChannelTest, AnEventCarriesItsRequestsAndBringsBackTheirReplies) {
  Open();
  for (uint64_t round = 1; round <= 5; ++round) {  // the ring wraps
    const PlacedRequest requests[] = {Placed(2, 4096, 30, kDatagram),
                                      Placed(9, 2048, 17, kStream),
                                      Placed(0, 0, 2048, kDatagram)};
    ASSERT_TRUE(channel_->CanSubmit());
    const uint64_t before = static_cast<uint64_t>(std::time(nullptr));
    channel_->Submit(requests, 1000 + round);
    EXPECT_EQ(channel_->in_flight(), 1u);
    EXPECT_FALSE(channel_->Poll().has_value());

    const shm::GpuRing ring = gpud_->ring();
    EXPECT_EQ(ring.LoadDoorbell(), round);
    const shm::Sequence sequence(round);
    const uint32_t slot = ring.layout().SlotOf(sequence);
    for (uint32_t i = 0; i < 3; ++i) {
      EXPECT_EQ(Descriptor(slot, i).offset, requests[i].offset);
      EXPECT_EQ(Descriptor(slot, i).length, requests[i].request.length);
      EXPECT_EQ(Descriptor(slot, i).flags, i == 1 ? memcached::kStream : 0u);
    }
    std::vector<std::byte> entry(ring.layout().entry_bytes);
    ring.CopyEntry(sequence, entry.data(), ring.layout().entry_bytes);
    uint64_t now_s;
    uint32_t count;
    std::memcpy(&now_s, entry.data() + ring.layout().parameter_offset, 8);
    std::memcpy(&count, entry.data() + ring.layout().parameter_offset + 8, 4);
    EXPECT_EQ(count, 3u);
    EXPECT_GE(now_s + 1, before);
    EXPECT_LE(now_s, before + 60);

    std::memcpy(SlotPart("replies", slot) + kStride, "reply", 5);
    Result(slot, 0) = {.outcome = Outcome::kSilent};
    Result(slot, 1) = {.offset = kStride,
                       .length = 5,
                       .datagrams = 1,
                       .outcome = Outcome::kAnswered,
                       .flags = memcached::kQuit,
                       .hits = 2,
                       .misses = 1};
    Result(slot, 2) = {.length = 5000, .outcome = Outcome::kTooLarge};
    ring.Complete(sequence, EventState::kDone, 0);

    const auto batch = channel_->Poll();
    ASSERT_TRUE(batch.has_value());
    EXPECT_EQ(batch->state, EventState::kDone);
    EXPECT_EQ(batch->rung_ns, 1000 + round);
    ASSERT_EQ(batch->requests.size(), 3u);
    EXPECT_EQ(batch->requests[1].index, 9u);
    EXPECT_EQ(batch->requests[1].origin, kStream);
    EXPECT_EQ(channel_->ResultOf(*batch, 0).outcome, Outcome::kSilent);
    const RequestResult result = channel_->ResultOf(*batch, 1);
    EXPECT_EQ(result.outcome, Outcome::kAnswered);
    EXPECT_TRUE(result.quit);
    EXPECT_EQ(result.hits, 2u);
    EXPECT_EQ(result.misses, 1u);
    ASSERT_EQ(result.reply.size(), 5u);
    EXPECT_EQ(std::memcmp(result.reply.data(), "reply", 5), 0);
    EXPECT_EQ(channel_->ResultOf(*batch, 2).outcome, Outcome::kTooLarge);
    EXPECT_EQ(channel_->in_flight(), 1u);
    channel_->Free();
    EXPECT_EQ(channel_->in_flight(), 0u);
  }
}

TEST_F(MemcChannelTest, RepliesOutsideTheirBufferAreNoReplies) {
  Open();
  const uint32_t room = kBatch * kStride;
  struct {
    uint32_t offset, length;
    bool good;
  } const cases[] = {
      {0, room, true},      {room, 0, true},  {room - 1, 1, true},
      {0, room + 1, false}, {1, room, false}, {room + 1, 0, false},
      {~0u, 1, false},      {8, ~0u, false},  {0x80000000, 0x80000000, false}};
  const shm::GpuRing ring = gpud_->ring();
  shm::Sequence sequence(0);
  for (const auto& one : cases) {
    const PlacedRequest request = Placed(0, 0, 10, kDatagram);
    channel_->Submit({&request, 1}, 1);
    ++sequence;
    Result(ring.layout().SlotOf(sequence), 0) = {.offset = one.offset,
                                                 .length = one.length,
                                                 .datagrams = 1,
                                                 .outcome = Outcome::kAnswered};
    ring.Complete(sequence, EventState::kDone, 0);
    const auto batch = channel_->Poll();
    ASSERT_TRUE(batch.has_value());
    const RequestResult result = channel_->ResultOf(*batch, 0);
    EXPECT_EQ(result.outcome, one.good ? Outcome::kAnswered : Outcome::kCorrupt)
        << one.offset << " " << one.length;
    EXPECT_EQ(result.reply.size(), one.good ? one.length : 0);
    channel_->Free();
  }
}

TEST_F(MemcChannelTest, CopiesLargeRequestsIntoTheirSlot) {
  Open(/*slot_packet_bytes=*/1000, /*largest=*/true);
  const shm::GpuRing ring = gpud_->ring();
  for (uint64_t round = 1; round <= 2; ++round) {
    const std::string text = "get k" + std::to_string(round) + "\r\n";
    channel_->SubmitCopy(
        {.origin = round == 1 ? kDatagram : kStream, .index = 5, .length = 1},
        text, 1);
    const uint32_t slot = ring.layout().SlotOf(shm::Sequence(round));
    EXPECT_EQ(std::memcmp(SlotPart("packets", slot), text.data(), text.size()),
              0);
    EXPECT_EQ(Descriptor(slot, 0).offset, 0u);
    EXPECT_EQ(Descriptor(slot, 0).length, text.size());
    // A stream can ask again in pieces instead of being refused.
    EXPECT_EQ(Descriptor(slot, 0).flags,
              round == 1 ? memcached::kLargestStride : memcached::kStream);
  }
  EXPECT_FALSE(channel_->CanSubmit());
}

TEST_F(MemcChannelTest, AFailedEventKeepsItsRequests) {
  Open();
  const PlacedRequest request = Placed(3, 0, 10, kDatagram);
  channel_->Submit({&request, 1}, 1);
  gpud_->ring().Complete(shm::Sequence(1), EventState::kFailed, 1100);
  const auto batch = channel_->Poll();
  ASSERT_TRUE(batch.has_value());
  EXPECT_EQ(batch->state, EventState::kFailed);
  EXPECT_EQ(batch->status, 1100u);
  ASSERT_EQ(batch->requests.size(), 1u);
  EXPECT_EQ(batch->requests[0].index, 3u);
}

TEST(NicCounters, HaveOneNameEach) {
  EXPECT_EQ(CounterNames(/*gnom=*/true).size(), kCounters);
  EXPECT_LE(CounterNames(/*gnom=*/true).size(), shm::kMaxTelemetryCounters);
  EXPECT_LE(HistogramNames().size(), shm::kMaxTelemetryHistograms);
}

}  // namespace
}  // namespace carillon::nic
