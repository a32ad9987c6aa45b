// Every field of the requests that devices send, with every value that it must
// not have: the code, the reason and the words that it is refused with. And
// nothing is taken by a request that is refused.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "gpu_daemon/control/error_detail.h"
#include "gpu_daemon/control/testing/test_testbed.h"

namespace carillon::gpud {
namespace {

using grpc::StatusCode;

constexpr uint32_t kMax32 = std::numeric_limits<uint32_t>::max();
constexpr uint64_t kMax64 = std::numeric_limits<uint64_t>::max();
constexpr auto kInvalid = StatusCode::INVALID_ARGUMENT;
constexpr auto kNotFound = StatusCode::NOT_FOUND;
constexpr auto kExhausted = StatusCode::RESOURCE_EXHAUSTED;
constexpr auto kPrecondition = StatusCode::FAILED_PRECONDITION;
// A sequence that no text in UTF-8 has. gRPC itself refuses the message, and
// has neither reason nor words.
const std::string kNoUtf8 = "a\xff";
const std::string kControl = "a\x1b[2J";

template <class Request>
struct Row {
  const char* what;
  std::function<void(Request&)> spoil;
  StatusCode code;
  const char* reason;
  const char* words;
};

// One gpud and one device for all rows of a request: what a row leaves behind
// is seen by the next.
class MalformedRequest : public testing::Test {
 protected:
  MalformedRequest()
      : testbed_({.ekt_entries = 4, .memory_bytes = 4 << 20}),
        device_(&testbed_, "dev0"),
        input_(device_.Buffer(v1::INPUT, 256)),
        output_(device_.Buffer(v1::OUTPUT, 256)),
        ring_(device_.RingOf(device_.NullEvent())) {}

  struct ResourceUse {
    uint64_t memory = 0;
    uint32_t devices = 0;
    uint32_t ekt = 0;
    size_t descriptors = 0;
    bool operator==(const ResourceUse&) const = default;
  };
  ResourceUse Held() {
    const auto status = testbed_.Status();
    return {status.memory_used(), status.devices(), status.ekt_used(),
            OpenDescriptors()};
  }

  template <class Stub, class Request, class Response>
  void Refused(Stub& stub,
               grpc::Status (Stub::*method)(grpc::ClientContext*,
                                            const Request&, Response*),
               const Request& good, const std::vector<Row<Request>>& rows) {
    const ResourceUse before = Held();
    for (const Row<Request>& row : rows) {
      SCOPED_TRACE(row.what);
      Request request = good;
      row.spoil(request);
      Response response;
      const Outcome outcome =
          TestTestbed::Call(stub, method, request, &response);
      const std::string& words = outcome.status.error_message();
      EXPECT_EQ(outcome.status.error_code(), row.code) << words;
      EXPECT_EQ(outcome.reason, row.reason) << words;
      EXPECT_NE(words.find(row.words), std::string::npos) << words;
      EXPECT_EQ(words.empty(), std::string(row.words).empty());
      // gRPC's own threads open and close some in between.
      EXPECT_TRUE(Eventually([&] { return Held() == before; }));
    }
    // The request that all of them were made of is none of them.
    Response response;
    EXPECT_TRUE(TestTestbed::Call(stub, method, good, &response).ok());
  }

  TestTestbed testbed_;
  AttachedDevice device_;
  const uint32_t input_;
  const uint32_t output_;
  shm::DeviceRing ring_;
};

TEST_F(MalformedRequest, Attach) {
  using R = v1::AttachRequest;
  Refused<v1::Devices::Stub, R, v1::AttachResponse>(
      testbed_.devices(), &v1::Devices::Stub::Attach, AttachRequestFor("dev1"),
      {
          {"no name", [](R& r) { r.clear_name(); }, kInvalid, reason::kBadName,
           "device name '': must be 1 to 32 characters of a-z, 0-9, '_' and "
           "'-'"},
          {"longest name and one more",
           [](R& r) { r.set_name(std::string(33, 'a')); }, kInvalid,
           reason::kBadName,
           "': must be 1 to 32 characters of a-z, 0-9, '_' and '-'"},
          {"endless name", [](R& r) { r.set_name(std::string(10'000, 'a')); },
           kInvalid, reason::kBadName,
           "...': must be 1 to 32 characters of a-z, 0-9, '_' and '-'"},
          {"name in capitals", [](R& r) { r.set_name("NIC"); }, kInvalid,
           reason::kBadName,
           "device name 'NIC': must be 1 to 32 characters of a-z, 0-9, '_' and "
           "'-'"},
          {"name with a zero", [](R& r) { r.set_name(std::string("a\0b", 3)); },
           kInvalid, reason::kBadName,
           "device name 'a\\x00b': must be 1 to 32 characters of a-z, 0-9, '_' "
           "and '-'"},
          {"name that steers", [](R& r) { r.set_name(kControl); }, kInvalid,
           reason::kBadName,
           "device name 'a\\x1b[2J': must be 1 to 32 characters of a-z, 0-9, "
           "'_' and '-'"},
          {"name not UTF-8", [](R& r) { r.set_name(kNoUtf8); },
           StatusCode::INTERNAL, "", ""},
          {"name that is taken", [](R& r) { r.set_name("dev0"); },
           StatusCode::ALREADY_EXISTS, reason::kDeviceNameTaken,
           "a device 'dev0' is attached already (pid"},
          {"no kind", [](R& r) { r.clear_kind(); }, kInvalid, reason::kBadName,
           "device kind '': must be 1 to 32 characters of a-z, 0-9, '_' and "
           "'-'"},
          {"kind too long", [](R& r) { r.set_kind(std::string(33, 'k')); },
           kInvalid, reason::kBadName,
           "': must be 1 to 32 characters of a-z, 0-9, '_' and '-'"},
          {"kind not UTF-8", [](R& r) { r.set_kind(kNoUtf8); },
           StatusCode::INTERNAL, "", ""},
          {"no submission bytes", [](R& r) { r.clear_submission_bytes(); },
           kInvalid, reason::kBadSize,
           "submission_bytes of 0 bytes: must be from 1 to 1099511627776"},
          {"most submission bytes",
           [](R& r) { r.set_submission_bytes(kMax64); }, kInvalid,
           reason::kBadSize,
           "submission_bytes of 18446744073709551615 bytes: must be from 1 to "
           "1099511627776"},
          {"-1 submission bytes",
           [](R& r) { r.set_submission_bytes(static_cast<uint64_t>(-1)); },
           kInvalid, reason::kBadSize,
           "submission_bytes of 18446744073709551615 bytes: must be from 1 to "
           "1099511627776"},
          {"more submission bytes than gpud has",
           [](R& r) { r.set_submission_bytes(uint64_t{1} << 40); }, kExhausted,
           reason::kMemoryBudget, "attaching device 'dev1' needs 1099511"},
          {"no completion bytes", [](R& r) { r.clear_completion_bytes(); },
           kInvalid, reason::kBadSize,
           "completion_bytes of 0 bytes: must be from 1 to 1099511627776"},
          {"most completion bytes",
           [](R& r) { r.set_completion_bytes(kMax64); }, kInvalid,
           reason::kBadSize,
           "completion_bytes of 18446744073709551615 bytes: must be from 1 to "
           "1099511627776"},
          {"sizes whose sum is 0",
           [](R& r) {
             r.set_submission_bytes(uint64_t{1} << 63);
             r.set_completion_bytes(uint64_t{1} << 63);
           },
           kInvalid, reason::kBadSize,
           "submission_bytes of 9223372036854775808 bytes: must be from 1 to "
           "1099511627776"},
          {"empty counter name", [](R& r) { r.add_counter_names(""); },
           kInvalid, reason::kBadName,
           "counter '': must be 1 to 48 characters of letters, digits, '_', "
           "'.' and '-'"},
          {"counter name with a blank",
           [](R& r) { r.add_counter_names("a b"); }, kInvalid, reason::kBadName,
           "counter 'a b': must be 1 to 48 characters of letters, digits, '_', "
           "'.' and '-'"},
          {"counter name too long",
           [](R& r) { r.add_counter_names(std::string(49, 'c')); }, kInvalid,
           reason::kBadName,
           "': must be 1 to 48 characters of letters, digits, '_', '.' and "
           "'-'"},
          {"counter name not UTF-8", [](R& r) { r.add_counter_names(kNoUtf8); },
           StatusCode::INTERNAL, "", ""},
          {"two counters of one name",
           [](R& r) {
             r.add_counter_names("a");
             r.add_counter_names("a");
           },
           kInvalid, reason::kBadName, "counter 'a': must be named only once"},
          {"65 counters",
           [](R& r) {
             for (int i = 0; i < 65; ++i) {
               r.add_counter_names("c" + std::to_string(i));
             }
           },
           kInvalid, reason::kTooMany,
           "65 counters were named: the limit is 64"},
          {"100000 counters",
           [](R& r) {
             for (int i = 0; i < 100'000; ++i) r.add_counter_names("c");
           },
           kInvalid, reason::kBadSize,
           "Attach: a request of 300022 bytes: the limit is 16384"},
          {"5 histograms",
           [](R& r) {
             for (int i = 0; i < 5; ++i) {
               r.add_histogram_names("h" + std::to_string(i));
             }
           },
           kInvalid, reason::kTooMany,
           "5 histograms were named: the limit is 4"},
          {"histogram name that steers",
           [](R& r) { r.add_histogram_names(kControl); }, kInvalid,
           reason::kBadName,
           "histogram 'a\\x1b[2J': must be 1 to 48 characters of letters, "
           "digits, '_', '.' and '-'"},
          {"no layout version", [](R& r) { r.clear_layout_version(); },
           kPrecondition, reason::kLayoutVersion,
           "the device speaks layout version 0, gpud 2; build both from the "
           "same source"},
          {"another layout version",
           [](R& r) { r.set_layout_version(shm::kLayoutVersion + 1); },
           kPrecondition, reason::kLayoutVersion,
           "the device speaks layout version 3, gpud 2; build both from the "
           "same source"},
          {"largest layout version", [](R& r) { r.set_layout_version(kMax32); },
           kPrecondition, reason::kLayoutVersion,
           "the device speaks layout version 4294967295, gpud 2; build both "
           "from the same source"},
      });
}

TEST_F(MalformedRequest, StreamSnapshots) {
  using R = v1::StreamSnapshotsRequest;
  const ResourceUse before = Held();
  for (const Row<R>& row : std::vector<Row<R>>{
           {"too impatient", [](R& r) { r.set_interval_ms(49); }, kInvalid,
            reason::kBadInterval,
            "interval_ms 49: must be from 50 to 3600000, or 0 for 100"},
           {"most milliseconds", [](R& r) { r.set_interval_ms(kMax32); },
            kInvalid, reason::kBadInterval,
            "interval_ms 4294967295: must be from 50 to 3600000, or 0 for 100"},
           {"histograms too often", [](R& r) { r.set_histograms_ms(499); },
            kInvalid, reason::kBadInterval,
            "histograms_ms 499: must be from 500 to 3600000, or 0 for 1000"},
           {"histograms of most milliseconds",
            [](R& r) { r.set_histograms_ms(kMax32); }, kInvalid,
            reason::kBadInterval,
            "histograms_ms 4294967295: must be from 500 to 3600000, or 0 for "
            "1000"}}) {
    SCOPED_TRACE(row.what);
    R request;
    row.spoil(request);
    const auto context = Within();
    const auto stream =
        testbed_.admin().StreamSnapshots(context.get(), request);
    v1::Snapshot message;
    EXPECT_FALSE(stream->Read(&message));
    const grpc::Status status = stream->Finish();
    EXPECT_EQ(status.error_code(), row.code);
    EXPECT_EQ(DetailIn(*context).reason(), row.reason);
    EXPECT_EQ(status.error_message(), row.words);
    EXPECT_TRUE(Eventually([&] { return Held() == before; }));
  }
}

TEST_F(MalformedRequest, ReportReady) {
  using R = v1::ReportReadyRequest;
  R good;
  good.set_session(device_.session());
  good.set_note("udp :11211");
  Refused<v1::Devices::Stub, R, v1::ReportReadyResponse>(
      testbed_.devices(), &v1::Devices::Stub::ReportReady, good,
      {
          {"no session", [](R& r) { r.clear_session(); }, kNotFound,
           reason::kUnknownSession,
           "unknown session: attach first, and pass the session that Attach "
           "returned"},
          {"half a session", [](R& r) { r.mutable_session()->resize(8); },
           kNotFound, reason::kUnknownSession,
           "unknown session: attach first, and pass the session that Attach "
           "returned"},
          {"a session of another byte",
           [](R& r) { (*r.mutable_session())[0] ^= 1; }, kNotFound,
           reason::kUnknownSession,
           "unknown session: attach first, and pass the session that Attach "
           "returned"},
          {"an endless session",
           [](R& r) { r.set_session(std::string(10'000, 's')); }, kNotFound,
           reason::kUnknownSession,
           "unknown session: attach first, and pass the session that Attach "
           "returned"},
          {"note too long", [](R& r) { r.set_note(std::string(257, 'n')); },
           kInvalid, reason::kBadName,
           "...': must be at most 256 bytes without control characters"},
          {"note that steers", [](R& r) { r.set_note(kControl); }, kInvalid,
           reason::kBadName,
           "note 'a\\x1b[2J': must be at most 256 bytes without control "
           "characters"},
          {"note with a zero", [](R& r) { r.set_note(std::string(1, '\0')); },
           kInvalid, reason::kBadName,
           "note '\\x00': must be at most 256 bytes without control "
           "characters"},
          {"note not UTF-8", [](R& r) { r.set_note(kNoUtf8); },
           StatusCode::INTERNAL, "", ""},
      });
}

TEST_F(MalformedRequest, AllocateBuffer) {
  using R = v1::AllocateBufferRequest;
  R good;
  good.set_session(device_.session());
  good.set_place(v1::INPUT);
  good.set_bytes(128);
  Refused<v1::Events::Stub, R, v1::AllocateBufferResponse>(
      testbed_.events(), &v1::Events::Stub::AllocateBuffer, good,
      {
          {"no session", [](R& r) { r.clear_session(); }, kNotFound,
           reason::kUnknownSession,
           "unknown session: attach first, and pass the session that Attach "
           "returned"},
          {"no place", [](R& r) { r.clear_place(); }, kInvalid,
           reason::kBadSize, "place 0: must be INPUT, OUTPUT or GPU_MEMORY"},
          {"a place that there is not",
           [](R& r) { r.set_place(static_cast<v1::BufferPlace>(4)); }, kInvalid,
           reason::kBadSize, "place 4: must be INPUT, OUTPUT or GPU_MEMORY"},
          {"place -1",
           [](R& r) { r.set_place(static_cast<v1::BufferPlace>(-1)); },
           kInvalid, reason::kBadSize,
           "place -1: must be INPUT, OUTPUT or GPU_MEMORY"},
          {"no bytes", [](R& r) { r.clear_bytes(); }, kInvalid,
           reason::kBadSize,
           "a buffer of 0 bytes: must be from 1 to 1099511627776"},
          {"most bytes", [](R& r) { r.set_bytes(kMax64); }, kInvalid,
           reason::kBadSize,
           "a buffer of 18446744073709551615 bytes: must be from 1 to "
           "1099511627776"},
          {"more bytes than the aperture can have",
           [](R& r) { r.set_bytes(1 << 30); }, kExhausted, reason::kNoHeapRoom,
           "the buffer needs 1073741824 bytes in the submission aperture of "
           "device 'dev0', which has 131072 bytes and may grow by 268369920; "
           "attach with a larger submission_bytes"},
          {"more bytes than the testbed has",
           [](R& r) { r.set_bytes(100 << 20); }, kExhausted,
           reason::kMemoryBudget,
           "the buffer, for which the submission aperture of device 'dev0' "
           "would grow, needs 104857600 bytes: "},
          {"more GPU memory than gpud has",
           [](R& r) {
             r.set_place(v1::GPU_MEMORY);
             r.set_bytes(uint64_t{1} << 40);
           },
           kExhausted, reason::kMemoryBudget,
           "GPU memory for device 'dev0' needs 1099511627776 bytes"},
          {"again where something is",
           [this](R& r) {
             r.mutable_resumed()->set_buffer_id(77);
             r.mutable_resumed()->set_offset(shm::kSubmissionHeapOffset);
           },
           kPrecondition, reason::kNoHeapRoom,
           "the buffer cannot be at offset 65536 of the submission aperture of "
           "device 'dev0' again: its 128 bytes must lie inside 65536 to "
           "131072, from a multiple of 128 on, where nothing else is"},
          {"again before the heap",
           [](R& r) {
             r.mutable_resumed()->set_buffer_id(77);
             r.mutable_resumed()->set_offset(0);
           },
           kPrecondition, reason::kNoHeapRoom, "cannot be at offset 0 of"},
          {"again at the end of all numbers",
           [](R& r) {
             r.mutable_resumed()->set_buffer_id(77);
             r.mutable_resumed()->set_offset(kMax64 - 127);
           },
           kPrecondition, reason::kNoHeapRoom,
           "cannot be at offset 18446744073709551488 of"},
          {"again with an id that is taken",
           [this](R& r) {
             r.mutable_resumed()->set_buffer_id(input_);
             r.mutable_resumed()->set_offset(shm::kSubmissionHeapOffset + 4096);
           },
           kPrecondition, reason::kUnknownBuffer,
           "cannot have buffer 1 again: it must be from 1 to"},
          {"again with id 0",
           [](R& r) {
             r.mutable_resumed()->set_offset(shm::kSubmissionHeapOffset + 4096);
           },
           kPrecondition, reason::kUnknownBuffer,
           "cannot have buffer 0 again: it must be from 1 to"},
      });
}

TEST_F(MalformedRequest, FreeBuffer) {
  using R = v1::FreeBufferRequest;
  R good;
  good.set_session(device_.session());
  good.set_buffer_id(input_);
  Refused<v1::Events::Stub, R, v1::FreeBufferResponse>(
      testbed_.events(), &v1::Events::Stub::FreeBuffer, good,
      {
          {"no session", [](R& r) { r.clear_session(); }, kNotFound,
           reason::kUnknownSession,
           "unknown session: attach first, and pass the session that Attach "
           "returned"},
          {"no buffer", [](R& r) { r.clear_buffer_id(); }, kNotFound,
           reason::kUnknownBuffer, "device 'dev0' has no buffer 0"},
          {"largest buffer id", [](R& r) { r.set_buffer_id(kMax32); },
           kNotFound, reason::kUnknownBuffer,
           "device 'dev0' has no buffer 4294967295"},
      });
}

TEST_F(MalformedRequest, RegisterEvent) {
  using R = v1::RegisterEventRequest;
  const auto bind = [](R& r) { return r.mutable_parameters(0); };
  // "token", fixed.
  const auto fixed = [bind](R& r) {
    bind(r)->set_writable(false);
    return bind(r);
  };
  const auto echo = [this](R& r) {
    r.set_kernel("echo");
    r.clear_parameters();
    *r.add_parameters() = Part("in", input_, 0, 64, 64);
    *r.add_parameters() = Part("out", output_, 0, 64, 64);
  };
  const auto resumed = [](R& r) {
    auto* const again = r.mutable_resumed();
    again->set_event_id(2);
    again->set_esq_offset(shm::kSubmissionHeapOffset + (8 << 10));
    again->set_ecq_offset(shm::kCompletionHeapOffset + (8 << 10));
    return again;
  };
  Refused<v1::Events::Stub, R, v1::RegisterEventResponse>(
      testbed_.events(), &v1::Events::Stub::RegisterEvent, device_.NullEvent(),
      {
          {"no session", [](R& r) { r.clear_session(); }, kNotFound,
           reason::kUnknownSession,
           "unknown session: attach first, and pass the session that Attach "
           "returned"},
          {"no kernel", [](R& r) { r.clear_kernel(); }, kNotFound,
           reason::kUnknownKernel,
           "there is no kernel ''; 'carillon kernels' lists those there are"},
          {"kernel that there is not", [](R& r) { r.set_kernel("nul_event"); },
           kNotFound, reason::kUnknownKernel,
           "there is no kernel 'nul_event': did you mean 'null_event'?"},
          {"endless kernel",
           [](R& r) { r.set_kernel(std::string(100'000, 'k')); }, kNotFound,
           reason::kUnknownKernel,
           "...'; 'carillon kernels' lists those there are"},
          {"kernel that steers", [](R& r) { r.set_kernel(kControl); },
           kNotFound, reason::kUnknownKernel,
           "there is no kernel 'a\\x1b[2J'; 'carillon kernels' lists those "
           "there are"},
          {"kernel not UTF-8", [](R& r) { r.set_kernel(kNoUtf8); },
           StatusCode::INTERNAL, "", ""},
          {"grid of no blocks", [](R& r) { r.mutable_grid()->set_x(0); },
           kInvalid, reason::kBadDimensions,
           "grid.x is 0: must be from 1 to 2147483647"},
          {"largest grid",
           [](R& r) {
             r.mutable_grid()->set_x(kMax32);
             r.mutable_grid()->set_y(kMax32);
             r.mutable_grid()->set_z(kMax32);
           },
           kInvalid, reason::kBadDimensions,
           "grid.x is 4294967295: must be from 1 to 2147483647"},
          {"grid -1 high",
           [](R& r) {
             r.mutable_grid()->set_x(1);
             r.mutable_grid()->set_y(static_cast<uint32_t>(-1));
             r.mutable_grid()->set_z(1);
           },
           kInvalid, reason::kBadDimensions,
           "grid.y is 4294967295: must be from 1 to 65535"},
          {"block of no threads", [](R& r) { r.mutable_block()->set_z(0); },
           kInvalid, reason::kBadDimensions,
           "block.z is 0: must be from 1 to 64"},
          {"1025 threads", [](R& r) { r.mutable_block()->set_x(1025); },
           kInvalid, reason::kBadDimensions,
           "block.x is 1025: must be from 1 to 1024"},
          {"block whose threads are 0 in 32 bits",
           [](R& r) {
             r.mutable_block()->set_x(1 << 16);
             r.mutable_block()->set_y(1 << 16);
           },
           kInvalid, reason::kBadDimensions,
           "block.x is 65536: must be from 1 to 1024"},
          {"most shared memory", [](R& r) { r.set_shared_bytes(kMax32); },
           kInvalid, reason::kBadDimensions,
           "4294967295 + 0 bytes of shared memory: an SM has 49152"},
          {"no ring", [](R& r) { r.clear_max_in_flight(); }, kInvalid,
           reason::kBadRingSize,
           "a ring of 0 entries: must be a power of two from 1 to 65536"},
          {"ring of 3", [](R& r) { r.set_max_in_flight(3); }, kInvalid,
           reason::kBadRingSize,
           "a ring of 3 entries: must be a power of two from 1 to 65536"},
          {"ring of 2^17", [](R& r) { r.set_max_in_flight(1 << 17); }, kInvalid,
           reason::kBadRingSize,
           "a ring of 131072 entries: must be a power of two from 1 to 65536"},
          {"largest ring", [](R& r) { r.set_max_in_flight(kMax32); }, kInvalid,
           reason::kBadRingSize,
           "a ring of 4294967295 entries: must be a power of two from 1 to "
           "65536"},
          {"ring larger than the testbed's memory",
           [](R& r) { r.set_max_in_flight(65536); }, kExhausted,
           reason::kMemoryBudget,
           "the ESQ, for which the submission aperture of device 'dev0' would "
           "grow, needs 4194304 bytes: "},
          {"priority 8", [](R& r) { r.set_priority(8); }, kInvalid,
           reason::kBadPriority, "priority 8: must be from 0 (lowest) to 7"},
          {"largest priority", [](R& r) { r.set_priority(kMax32); }, kInvalid,
           reason::kBadPriority,
           "priority 4294967295: must be from 0 (lowest) to 7"},
          {"label too long", [](R& r) { r.set_label(std::string(65, 'l')); },
           kInvalid, reason::kBadName,
           "...': must be at most 64 bytes without control characters"},
          {"label that steers", [](R& r) { r.set_label(kControl); }, kInvalid,
           reason::kBadName,
           "label 'a\\x1b[2J': must be at most 64 bytes without control "
           "characters"},
          {"label not UTF-8", [](R& r) { r.set_label(kNoUtf8); },
           StatusCode::INTERNAL, "", ""},
          {"launch path that there is not",
           [](R& r) { r.set_launch_path("magic"); }, kNotFound,
           reason::kUnknownLaunchPath,
           "no launch path 'magic'; there are: edge"},
          {"endless launch path",
           [](R& r) { r.set_launch_path(std::string(100'000, 'p')); },
           kNotFound, reason::kUnknownLaunchPath, "ppp'; there are: edge"},
          {"launch path that steers", [](R& r) { r.set_launch_path(kControl); },
           kNotFound, reason::kUnknownLaunchPath,
           "this back-end has no launch path 'a\\x1b[2J'; there are: edge, "
           "baseline, baseline_flag, persistent, pagoda, pagoda_ring"},
          // Parameters.
          {"no parameter", [](R& r) { r.clear_parameters(); }, kInvalid,
           reason::kBadBinding,
           "parameter 'token' of kernel 'null_event' is not bound (ignored by "
           "the kernel)"},
          {"parameter without a name", [bind](R& r) { bind(r)->clear_name(); },
           kInvalid, reason::kBadBinding,
           "kernel 'null_event' has no parameter ''; it has: token"},
          {"parameter that there is not",
           [bind](R& r) { bind(r)->set_name("tokem"); }, kInvalid,
           reason::kBadBinding, "tokem"},
          {"parameter with an endless name",
           [bind](R& r) { bind(r)->set_name(std::string(100'000, 'p')); },
           kInvalid, reason::kBadBinding, "...'; it has: token"},
          {"parameter that steers",
           [bind](R& r) { bind(r)->set_name(kControl); }, kInvalid,
           reason::kBadBinding,
           "kernel 'null_event' has no parameter 'a\\x1b[2J'; it has: token"},
          {"parameter not UTF-8", [bind](R& r) { bind(r)->set_name(kNoUtf8); },
           StatusCode::INTERNAL, "", ""},
          {"parameter bound twice",
           [](R& r) { *r.add_parameters() = r.parameters(0); }, kInvalid,
           reason::kBadBinding, "parameter 'token' is bound twice"},
          {"100000 parameters",
           [](R& r) {
             for (int i = 0; i < 100'000; ++i) r.add_parameters();
           },
           kInvalid, reason::kBadSize,
           "RegisterEvent: a request of 200051 bytes: the limit is 131072"},
          {"fixed without a value", [fixed](R& r) { fixed(r); }, kInvalid,
           reason::kBadBinding,
           "parameter 'token' needs an integer (unsigned_value or "
           "signed_value)"},
          {"negative for unsigned",
           [fixed](R& r) { fixed(r)->set_signed_value(-1); }, kInvalid,
           reason::kBadBinding,
           "parameter 'token' cannot hold -1: it is a U64"},
          {"float for an integer",
           [fixed](R& r) { fixed(r)->set_float_value(1); }, kInvalid,
           reason::kBadBinding,
           "parameter 'token' needs an integer (unsigned_value or "
           "signed_value)"},
          {"no number for an integer",
           [fixed](R& r) { fixed(r)->set_float_value(std::nan("")); }, kInvalid,
           reason::kBadBinding,
           "parameter 'token' needs an integer (unsigned_value or "
           "signed_value)"},
          {"writable with a value",
           [bind](R& r) { bind(r)->set_unsigned_value(1); }, kInvalid,
           reason::kBadBinding,
           "parameter 'token' is writable: its value comes with every event, "
           "not with the registration"},
          {"value with a buffer",
           [bind, this](R& r) { bind(r)->set_buffer_id(input_); }, kInvalid,
           reason::kBadBinding,
           "parameter 'token' is a value: it takes no buffer, offset, length "
           "or slot stride"},
          {"value with a slot stride",
           [bind](R& r) { bind(r)->set_slot_stride(kMax64); }, kInvalid,
           reason::kBadBinding,
           "parameter 'token' is a value: it takes no buffer, offset, length "
           "or slot stride"},
          {"buffer without an id",
           [echo](R& r) {
             echo(r);
             r.mutable_parameters(0)->clear_buffer_id();
           },
           kNotFound, reason::kUnknownBuffer,
           "parameter 'in' needs a buffer: this device has no buffer 0"},
          {"largest buffer id",
           [echo](R& r) {
             echo(r);
             r.mutable_parameters(0)->set_buffer_id(kMax32);
           },
           kNotFound, reason::kUnknownBuffer,
           "parameter 'in' needs a buffer: this device has no buffer "
           "4294967295"},
          {"buffer with a value",
           [echo](R& r) {
             echo(r);
             r.mutable_parameters(0)->set_unsigned_value(1);
           },
           kInvalid, reason::kBadBinding,
           "parameter 'in' is a buffer: it takes no value"},
          {"written buffer of the device's own",
           [echo, this](R& r) {
             echo(r);
             r.mutable_parameters(1)->set_buffer_id(input_);
           },
           kInvalid, reason::kBadBinding,
           "parameter 'out' is written by the kernel: bind an OUTPUT or "
           "GPU_MEMORY buffer, not an INPUT one"},
          {"offset at the buffer's end",
           [echo](R& r) {
             echo(r);
             r.mutable_parameters(0)->set_offset(256);
           },
           kInvalid, reason::kBadBinding,
           "parameter 'in' starts at offset 256 of a buffer of 256 bytes"},
          {"largest offset",
           [echo](R& r) {
             echo(r);
             r.mutable_parameters(0)->set_offset(kMax64);
           },
           kInvalid, reason::kBadBinding,
           "parameter 'in' starts at offset 18446744073709551615 of a buffer "
           "of 256 bytes"},
          {"length beyond the buffer",
           [echo](R& r) {
             echo(r);
             r.mutable_parameters(0)->set_length(257);
           },
           kInvalid, reason::kBadBinding,
           "parameter 'in' reaches beyond its buffer: 257 bytes from offset 0, "
           "for each of 4 slots 64 apart in 256 bytes"},
          {"largest length",
           [echo](R& r) {
             echo(r);
             r.mutable_parameters(0)->set_length(kMax64);
           },
           kInvalid, reason::kBadBinding,
           "parameter 'in' reaches beyond its buffer: 18446744073709551615 "
           "bytes from offset 0, for each of 4 slots 64 apart in 256 bytes"},
          {"offset and length whose sum is 0",
           [echo](R& r) {
             echo(r);
             r.mutable_parameters(0)->set_offset(64);
             r.mutable_parameters(0)->set_length(kMax64 - 63);
           },
           kInvalid, reason::kBadBinding,
           "parameter 'in' reaches beyond its buffer: 18446744073709551552 "
           "bytes from offset 64, for each of 4 slots 64 apart in 256 bytes"},
          {"last slot beyond the buffer",
           [echo](R& r) {
             echo(r);
             r.mutable_parameters(0)->set_slot_stride(65);
           },
           kInvalid, reason::kBadBinding,
           "parameter 'in' reaches beyond its buffer: 64 bytes from offset 0, "
           "for each of 4 slots 65 apart in 256 bytes"},
          {"largest slot stride",
           [echo](R& r) {
             echo(r);
             r.mutable_parameters(0)->set_slot_stride(kMax64);
           },
           kInvalid, reason::kBadBinding,
           "parameter 'in' reaches beyond its buffer: 64 bytes from offset 0, "
           "for each of 4 slots 18446744073709551615 apart in 256 bytes"},
          {"slot stride whose steps come round to 0",
           [echo](R& r) {
             echo(r);
             r.mutable_parameters(0)->set_slot_stride(uint64_t{1} << 62);
           },
           kInvalid, reason::kBadBinding,
           "parameter 'in' reaches beyond its buffer: 64 bytes from offset 0, "
           "for each of 4 slots 4611686018427387904 apart in 256 bytes"},
          // A ring of an earlier gpud.
          {"again with an event that is there",
           [resumed](R& r) { resumed(r)->set_event_id(0); }, kPrecondition,
           reason::kEktFull,
           "device 'dev0' cannot have doorbell 0 again: it has 32 of them, and "
           "this one is taken"},
          {"again beyond the doorbells",
           [resumed](R& r) { resumed(r)->set_event_id(kMax32); }, kPrecondition,
           reason::kEktFull,
           "device 'dev0' cannot have doorbell 4294967295 again: it has 32 of "
           "them"},
          {"again where the ESQ cannot be",
           [resumed](R& r) {
             resumed(r)->set_esq_offset(shm::kSubmissionHeapOffset);
           },
           kPrecondition, reason::kNoHeapRoom,
           "the ESQ cannot be at offset 65536 of the submission aperture"},
          {"again with the ESQ at the end of all numbers",
           [resumed](R& r) { resumed(r)->set_esq_offset(kMax64 - 127); },
           kPrecondition, reason::kNoHeapRoom,
           "the ESQ cannot be at offset 18446744073709551488"},
          {"again with the ECQ before the heap",
           [resumed](R& r) { resumed(r)->set_ecq_offset(0); }, kPrecondition,
           reason::kNoHeapRoom,
           "the ECQ cannot be at offset 0 of the completion aperture"},
          {"again, not on a cache line",
           [resumed](R& r) {
             resumed(r)->set_esq_offset(shm::kSubmissionHeapOffset + 8193);
           },
           kPrecondition, reason::kNoHeapRoom,
           "the ESQ cannot be at offset 73729"},
          {"again after all numbers",
           [resumed](R& r) { resumed(r)->set_consumed(kMax64); }, kInvalid,
           reason::kBadRingSize,
           "18446744073709551615 events were consumed: no device has come that "
           "far"},
      });
}

TEST_F(MalformedRequest, UnregisterEvent) {
  using R = v1::UnregisterEventRequest;
  R good;
  good.set_session(device_.session());
  Refused<v1::Events::Stub, R, v1::UnregisterEventResponse>(
      testbed_.events(), &v1::Events::Stub::UnregisterEvent, good,
      {
          {"no session", [](R& r) { r.clear_session(); }, kNotFound,
           reason::kUnknownSession,
           "unknown session: attach first, and pass the session that Attach "
           "returned"},
          {"an event that there is not", [](R& r) { r.set_event_id(3); },
           kNotFound, reason::kUnknownEvent,
           "device 'dev0' has no event kernel 3"},
          {"largest event", [](R& r) { r.set_event_id(kMax32); }, kNotFound,
           reason::kUnknownEvent,
           "device 'dev0' has no event kernel 4294967295"},
      });
}

TEST_F(MalformedRequest, ScheduleEvent) {
  using R = v1::ScheduleEventRequest;
  R good;
  good.set_session(device_.session());
  Refused<v1::Events::Stub, R, v1::ScheduleEventResponse>(
      testbed_.events(), &v1::Events::Stub::ScheduleEvent, good,
      {
          {"no session", [](R& r) { r.clear_session(); }, kNotFound,
           reason::kUnknownSession,
           "unknown session: attach first, and pass the session that Attach "
           "returned"},
          {"largest event", [](R& r) { r.set_event_id(kMax32); }, kNotFound,
           reason::kUnknownEvent,
           "device 'dev0' has no event kernel 4294967295"},
          {"one more than the ring holds", [](R& r) { r.set_through(5); },
           kInvalid, reason::kBadCount,
           "events up to sequence 5 to schedule: 0 are launched, and the ring "
           "has 4 entries"},
          {"all numbers", [](R& r) { r.set_through(kMax64); }, kInvalid,
           reason::kBadCount,
           "events up to sequence 18446744073709551615 to schedule: 0 are "
           "launched, and the ring has 4 entries"},
      });
}

TEST_F(MalformedRequest, LaunchKernel) {
  using R = v1::LaunchKernelRequest;
  R good;
  good.set_session(device_.session());
  good.set_kernel("null_event");
  good.mutable_block()->set_x(32);
  good.mutable_block()->set_y(1);
  good.mutable_block()->set_z(1);
  *good.add_parameters() = Value("token", 1);
  Refused<v1::Events::Stub, R, v1::LaunchKernelResponse>(
      testbed_.events(), &v1::Events::Stub::LaunchKernel, good,
      {
          {"no session", [](R& r) { r.clear_session(); }, kNotFound,
           reason::kUnknownSession,
           "unknown session: attach first, and pass the session that Attach "
           "returned"},
          {"no kernel", [](R& r) { r.clear_kernel(); }, kNotFound,
           reason::kUnknownKernel,
           "there is no kernel ''; 'carillon kernels' lists those there are"},
          {"kernel not UTF-8", [](R& r) { r.set_kernel(kNoUtf8); },
           StatusCode::INTERNAL, "", ""},
          {"block of no threads", [](R& r) { r.mutable_block()->set_x(0); },
           kInvalid, reason::kBadDimensions,
           "block.x is 0: must be from 1 to 1024"},
          {"largest block", [](R& r) { r.mutable_block()->set_x(kMax32); },
           kInvalid, reason::kBadDimensions,
           "block.x is 4294967295: must be from 1 to 1024"},
          {"most shared memory", [](R& r) { r.set_shared_bytes(kMax32); },
           kInvalid, reason::kBadDimensions,
           "4294967295 + 0 bytes of shared memory: an SM has 49152"},
          {"largest priority", [](R& r) { r.set_priority(kMax32); }, kInvalid,
           reason::kBadPriority,
           "priority 4294967295: must be from 0 (lowest) to 7"},
          {"no parameter", [](R& r) { r.clear_parameters(); }, kInvalid,
           reason::kBadBinding,
           "parameter 'token' of kernel 'null_event' is not bound (ignored by "
           "the kernel)"},
          {"writable parameter",
           [](R& r) { *r.mutable_parameters(0) = WritableParameter("token"); },
           kInvalid, reason::kBadBinding,
           "an ordinary launch has no ESQ entry: no parameter can be writable "
           "or have a slot stride"},
          {"slot stride",
           [](R& r) { r.mutable_parameters(0)->set_slot_stride(1); }, kInvalid,
           reason::kBadBinding,
           "an ordinary launch has no ESQ entry: no parameter can be writable "
           "or have a slot stride"},
      });
}

TEST_F(MalformedRequest, Copy) {
  using R = v1::CopyRequest;
  R good;
  good.set_session(device_.session());
  good.set_from_buffer(device_.Buffer(v1::INPUT, 64));
  good.set_to_buffer(device_.Buffer(v1::GPU_MEMORY, 64));
  good.set_bytes(64);
  Refused<v1::Events::Stub, R, v1::CopyResponse>(
      testbed_.events(), &v1::Events::Stub::Copy, good,
      {
          {"no session", [](R& r) { r.clear_session(); }, kNotFound,
           reason::kUnknownSession,
           "unknown session: attach first, and pass the session that Attach "
           "returned"},
          {"no source", [](R& r) { r.clear_from_buffer(); }, kNotFound,
           reason::kUnknownBuffer, "device 'dev0' has no buffer 0"},
          {"into its source", [](R& r) { r.set_to_buffer(r.from_buffer()); },
           kInvalid, reason::kBadCopy,
           "a copy goes from an input buffer to GPU memory, or from GPU memory "
           "to an output buffer: have a kernel copy the rest"},
          {"no bytes", [](R& r) { r.clear_bytes(); }, kInvalid,
           reason::kBadCopy, "a copy of 0 bytes"},
          {"most bytes", [](R& r) { r.set_bytes(~uint64_t{0}); },
           StatusCode::OUT_OF_RANGE, reason::kBadCopy,
           "from_offset 0 and 18446744073709551615 bytes leave a buffer of 64 "
           "bytes"},
          {"past its target", [](R& r) { r.set_to_offset(1); },
           StatusCode::OUT_OF_RANGE, reason::kBadCopy,
           "to_offset 1 and 64 bytes leave a buffer of 64 bytes"},
          {"largest priority", [](R& r) { r.set_priority(kMax32); }, kInvalid,
           reason::kBadPriority,
           "priority 4294967295: must be from 0 (lowest) to 7"},
      });
}

}  // namespace
}  // namespace carillon::gpud
