// memcached clients' requests through the event kernels memc_get and memc_set,
// as datagrams or as pieces of a stream that a NIC cuts, and descriptors with
// arbitrary offsets. Every buffer ends where its allocation does, so
// AddressSanitizer sees an access one byte too far.
//
//   u8       bit 0: a stream; bit 1: the largest stride; bit 2: descriptors
//            from the input; bits 4..7: requests of one event, less one
//   u8       stride of the replies, in steps of 64 bytes above 512
//   rest     requests, each ended by a 0 byte (or by a descriptor of 8 bytes)
#include <string>
#include <string_view>
#include <vector>

#include "base/testing/fuzz_input.h"
#include "kernels/memcached/memc_test_util.h"

namespace carillon::kernels {
namespace {

using memcached::Outcome;

// Every input begins with the same empty server. It is allocated only once,
// since that costs more than a run.
MemcServer& EmptyServer() {
  static auto* const server = new MemcServer(4, 3);
  std::memset(server->table_memory.data(), 0, server->table_memory.size());
  // Only the bookkeeping must be cleared; items are written before they are
  // read.
  std::memset(server->store_memory.data(), 0, memc::kPageTableOffset + 4096);
  return *server;
}

// Checks what a NIC relies on without checking.
void CheckAnswers(const std::vector<Answer>& answers) {
  for (const Answer& answer : answers) {
    FUZZ_CHECK(answer.outcome != Outcome::kNone);
    FUZZ_CHECK(answer.outcome != Outcome::kCorrupt);
    FUZZ_CHECK((answer.outcome == Outcome::kAnswered) ==
               !answer.datagrams.empty());
    for (const std::string& datagram : answer.datagrams) {
      FUZZ_CHECK(datagram != "<outside of the reply buffer>");
      FUZZ_CHECK(!datagram.empty());
    }
    if (answer.outcome == Outcome::kAnswered) {
      FUZZ_CHECK(answer.datagrams.back().ends_with("\r\n"));
    }
  }
}

void Run(fuzz::FuzzInput input) {
  const auto how = input.Take<uint8_t>();
  MemcServer& server = EmptyServer();
  server.stride = memc::kMinReplyStride + input.Take<uint8_t>() * 64;
  server.request_flags = how & 3;
  const size_t batch = (how >> 4) + 1;
  // One lane has no request; more of them cost more than the requests.
  server.block = static_cast<uint32_t>(batch) + 1;
  if ((how & 4) != 0) {
    std::vector<memcached::Request> requests(batch);
    for (memcached::Request& request : requests) {
      request.offset = input.Take<uint32_t>();
      request.length = input.Take<uint32_t>();
      request.flags = how & 3;
    }
    const std::string_view packets = input.TakeRest();
    for (const simt::KernelInfo* kernel : {&memc_set_info, &memc_get_info}) {
      const auto answers = server.RunRaw(*kernel, packets, requests);
      FUZZ_CHECK(server.event_status == 0);
      CheckAnswers(answers);
      for (size_t i = 0; i < requests.size(); ++i) {
        const bool inside =
            uint64_t{requests[i].offset} + requests[i].length <= packets.size();
        FUZZ_CHECK((answers[i].outcome == Outcome::kBadDescriptor) == !inside);
      }
    }
    return;
  }
  const std::string_view all = input.TakeRest();
  size_t at = 0;
  while (at < all.size()) {
    std::vector<std::string> requests;
    while (at < all.size() && requests.size() < batch) {
      const size_t end = std::min(all.find('\0', at), all.size());
      requests.emplace_back(all.substr(at, end - at));
      if ((how & 1) == 0) requests.back() = Frame(7, 0, 1, 0, requests.back());
      at = end + 1;
    }
    CheckAnswers(server.Run(memc_set_info, requests));
    FUZZ_CHECK(server.event_status == 0);
    ++server.now_s;
    CheckAnswers(server.Run(memc_get_info, requests));
    FUZZ_CHECK(server.event_status == 0);
  }
}

}  // namespace
}  // namespace carillon::kernels

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  carillon::kernels::Run({data, size});
  return 0;
}
