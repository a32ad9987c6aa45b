// A file of tunnels, whatever its bytes: the input is the file.
#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <string_view>

#include "base/testing/fuzz_input.h"
#include "devices/router/ipsec/sa_file.h"

namespace carillon::router {
namespace {

// The refusal of one line, or of the file, without a part of a key: no number in
// a message is as long as 8 digits.
void CheckRefusal(const absl::Status& status, std::string_view text) {
  FUZZ_CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  std::string message(status.message());
  // What every SPI may be.
  if (const size_t limit = message.find("0xffffffff"); limit != message.npos) {
    message.erase(limit, 10);
  }
  size_t digits = 0;
  for (const char c : message) {
    FUZZ_CHECK(static_cast<unsigned char>(c) >= ' ' && c != 0x7f,
               "a control character in: %s", message.c_str());
    digits = std::isxdigit(static_cast<unsigned char>(c)) ? digits + 1 : 0;
    FUZZ_CHECK(digits < 8, "a part of a key: %s", message.c_str());
  }
  constexpr std::string_view kLine = "line ";
  if (!message.starts_with(kLine)) {
    FUZZ_CHECK(message.starts_with("there is no SA") ||
                   message.starts_with("the SPIs of the 'in' SAs"),
               "no line: %s", message.c_str());
    return;
  }
  const int line = std::atoi(message.c_str() + kLine.size());
  FUZZ_CHECK(line >= 1 && line <= 1 + std::ranges::count(text, '\n'), "%s",
             message.c_str());
}

void CheckTable(const SaTable& table) {
  FUZZ_CHECK(!table.places.empty() && table.places.size() <= 65536);
  std::set<std::string> keys;
  std::set<uint32_t> in_use;
  for (size_t i = 0; i < table.places.size(); ++i) {
    const ipsec::Sa& sa = table.places[i].sa;
    const std::string& fingerprint = table.places[i].fingerprint;
    if (sa.spi == 0) {
      FUZZ_CHECK(fingerprint.empty());
      continue;
    }
    FUZZ_CHECK(sa.spi >= 256 && (sa.family == 4 || sa.family == 6));
    FUZZ_CHECK(fingerprint.size() == 40);
    FUZZ_CHECK(keys.insert(fingerprint).second, "two SAs have one key");
    // Where the kernel looks.
    if (sa.direction == ipsec::Direction::kInbound) {
      FUZZ_CHECK(sa.spi % table.places.size() == i);
      FUZZ_CHECK(std::ranges::any_of(table.places,
                                     [&sa](const auto& other) {
                                       return other.sa.direction ==
                                                  ipsec::Direction::kOutbound &&
                                              other.sa.family == sa.family &&
                                              std::ranges::equal(other.sa.peer,
                                                                 sa.peer);
                                     }),
                 "nothing can come from this SA's peer");
    } else {
      FUZZ_CHECK(sa.direction == ipsec::Direction::kOutbound);
      in_use.insert(static_cast<uint32_t>(i));
    }
  }
  std::set<uint32_t> led_to;
  std::set<std::string> networks;
  for (const auto* const policies : {&table.policies4, &table.policies6}) {
    for (const forwarding::Route& route : *policies) {
      FUZZ_CHECK((route.prefix.family == forwarding::Family::kIpv4) ==
                 (policies == &table.policies4));
      FUZZ_CHECK(networks.insert(forwarding::ToString(route.prefix)).second,
                 "a network is behind two peers");
      led_to.insert(route.next_hop);
    }
  }
  FUZZ_CHECK(led_to == in_use, "policies lead to other than the outbound SAs");
}

}  // namespace
}  // namespace carillon::router

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto table = carillon::router::ParseSas(text);
  if (table.ok()) {
    carillon::router::CheckTable(*table);
  } else {
    carillon::router::CheckRefusal(table.status(), text);
  }
  return 0;
}
