#include "devices/router/ipsec/sa_file.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "base/file_error.h"
#include "base/read_file.h"
#include "base/status.h"
#include "kernels/ipsec/sa.h"

namespace carillon::router {
namespace {

using forwarding::Family;
using forwarding::Prefix;
using ipsec::Direction;
using ipsec::Suite;
using Bytes = std::vector<uint8_t>;

// More places than a table of so many SAs ever needs.
constexpr uint32_t kMostPlaces = 65536;

struct Line {
  ipsec::Sa sa;
  std::string fingerprint;
  std::vector<Prefix> networks;
};

// No message repeats a word: it may be a key that has got to the wrong place.
absl::StatusOr<uint32_t> ReadSpi(const std::string& text) {
  const bool hex = text.starts_with("0x");
  const char* const begin = text.data() + (hex ? 2 : 0);
  const char* const end = text.data() + text.size();
  uint32_t spi = 0;
  const auto read = std::from_chars(begin, end, spi, hex ? 16 : 10);
  if (read.ec == std::errc() && read.ptr == end && spi >= 256) return spi;
  return absl::InvalidArgumentError(
      "the second word is no SPI; allowed: 0x100 to 0xffffffff");
}

absl::StatusOr<Bytes> ReadAddress(const std::string& text, const char* what) {
  Bytes bytes(16);
  if (inet_pton(AF_INET6, text.c_str(), bytes.data()) == 1) return bytes;
  bytes.resize(4);
  if (inet_pton(AF_INET, text.c_str(), bytes.data()) == 1) return bytes;
  return absl::InvalidArgumentError(
      fmt::format("the {} address is neither IPv4's nor IPv6's", what));
}

absl::StatusOr<Bytes> ReadKey(std::string_view text, const char* what) {
  if (text.starts_with("0x")) text.remove_prefix(2);
  Bytes bytes(text.size() / 2);
  bool right = !text.empty() && text.size() % 2 == 0;
  for (size_t i = 0; right && i < bytes.size(); ++i) {
    const char* const at = text.data() + 2 * i;
    right = std::from_chars(at, at + 2, bytes[i], 16).ptr == at + 2;
  }
  if (right) return bytes;
  return absl::InvalidArgumentError(
      fmt::format("{} is no even number of hex digits", what));
}

absl::StatusOr<Line> ParseLine(const std::string& line) {
  std::istringstream words(line);
  std::string direction, spi, local_text, peer_text, suite, key, auth_key, word;
  words >> direction >> spi >> local_text >> peer_text >> suite >> key;
  ipsec::SaSpec spec;
  if (direction == "out" || direction == "in") {
    spec.direction =
        direction == "out" ? Direction::kOutbound : Direction::kInbound;
  } else {
    return absl::InvalidArgumentError("an SA begins with 'out' or 'in'");
  }
  if (key.empty()) {
    return absl::InvalidArgumentError(
        "an SA is 'out' or 'in', an SPI, the tunnel's local and remote "
        "addresses, aes-gcm or 3des-sha1, and its keys");
  }
  ASSIGN_OR_RETURN(spec.spi, ReadSpi(spi));
  ASSIGN_OR_RETURN(const Bytes local, ReadAddress(local_text, "local"));
  ASSIGN_OR_RETURN(const Bytes peer, ReadAddress(peer_text, "remote"));
  if (suite == "aes-gcm") {
    spec.suite = Suite::kAesGcm;
  } else if (suite == "3des-sha1") {
    spec.suite = Suite::kTripleDesSha1;
    words >> auth_key;
  } else {
    return absl::InvalidArgumentError(
        "behind the addresses stands aes-gcm or 3des-sha1");
  }
  ASSIGN_OR_RETURN(const Bytes cipher, ReadKey(key, "the key"));
  Bytes integrity;
  if (spec.suite == Suite::kTripleDesSha1) {
    ASSIGN_OR_RETURN(integrity, ReadKey(auth_key, "the key of HMAC-SHA1"));
  }
  spec.local = local;
  spec.peer = peer;
  spec.cipher_key = cipher;
  spec.integrity_key = integrity;
  Line made;
  ASSIGN_OR_RETURN(made.sa, ipsec::MakeSa(spec));
  made.fingerprint = ipsec::FingerprintOf(spec);
  while (words >> word) {
    const auto network = forwarding::ParsePrefix(word);
    if (!network.ok()) {
      return absl::InvalidArgumentError(
          fmt::format("word {} behind the keys is no network such as "
                      "10.0.0.0/8",
                      made.networks.size() + 1));
    }
    made.networks.push_back(*network);
  }
  if (spec.direction == Direction::kInbound && !made.networks.empty()) {
    return absl::InvalidArgumentError(
        "an 'in' SA has no networks: they stand at the 'out' SA to its peer");
  }
  if (spec.direction == Direction::kOutbound && made.networks.empty()) {
    return absl::InvalidArgumentError(
        "an 'out' SA needs a network behind its peer");
  }
  return made;
}

using Peer = std::pair<uint32_t, std::array<uint8_t, 16>>;
Peer PeerOf(const ipsec::Sa& sa) {
  Peer peer{sa.family, {}};
  std::ranges::copy(sa.peer, peer.second.begin());
  return peer;
}

// The size of a table in which each inbound SA has a place of its own; 0: none.
uint32_t PlacesFor(const std::vector<Line>& lines) {
  for (uint32_t size = static_cast<uint32_t>(lines.size()); size <= kMostPlaces;
       ++size) {
    std::set<uint32_t> taken;
    if (std::ranges::all_of(lines, [&](const Line& line) {
          return line.sa.direction == Direction::kOutbound ||
                 taken.insert(line.sa.spi % size).second;
        })) {
      return size;
    }
  }
  return 0;
}

absl::StatusOr<SaTable> MakeTable(const std::vector<Line>& lines) {
  SaTable table;
  table.places.resize(PlacesFor(lines));
  if (table.places.empty()) {
    return absl::InvalidArgumentError(
        lines.empty() ? "there is no SA in it"
                      : "the SPIs of the 'in' SAs fit into no table; two of "
                        "them should be other ones");
  }
  const auto put = [&](size_t place, const Line& line) {
    table.places[place] = {line.sa, line.fingerprint};
  };
  for (const Line& line : lines) {
    if (line.sa.direction == Direction::kInbound) {
      put(line.sa.spi % table.places.size(), line);
    }
  }
  uint32_t place = 0;
  for (const Line& line : lines) {
    if (line.sa.direction != Direction::kOutbound) continue;
    while (table.places[place].sa.spi != 0) ++place;
    put(place, line);
    for (const Prefix& network : line.networks) {
      (network.family == Family::kIpv4 ? table.policies4 : table.policies6)
          .push_back({network, place});
    }
  }
  return table;
}

}  // namespace

absl::StatusOr<SaTable> ParseSas(std::string_view text) {
  std::vector<Line> read;
  std::map<std::string, uint64_t> keys;      // and their lines
  std::map<std::string, uint64_t> networks;  // the same
  std::map<uint32_t, uint64_t> inbound;      // SPIs, the same
  std::map<Peer, uint64_t> senders;          // peers of inbound SAs, the same
  std::set<Peer> receivers;
  std::istringstream lines{std::string(text)};
  std::string line;
  const auto refuse = [](uint64_t number, const auto& reason) {
    return absl::InvalidArgumentError(
        fmt::format("line {}: {}", number, reason));
  };
  for (uint64_t number = 1; std::getline(lines, line); ++number) {
    const size_t first = line.find_first_not_of(" \t\r");
    if (first == line.npos || line[first] == '#') continue;
    const auto parsed = ParseLine(line);
    if (!parsed.ok()) return refuse(number, parsed.status().message());
    const auto [key, new_key] = keys.try_emplace(parsed->fingerprint, number);
    if (!new_key) {
      return refuse(number,
                    fmt::format("its key is that of line {}: each SA, also of "
                                "the other direction, needs one of its own",
                                key->second));
    }
    for (const Prefix& network : parsed->networks) {
      const auto [entry, is_new] =
          networks.try_emplace(forwarding::ToString(network), number);
      if (!is_new) {
        return refuse(number, fmt::format("{} is a network of line {}",
                                          entry->first, entry->second));
      }
    }
    if (parsed->sa.direction == Direction::kInbound) {
      const auto [entry, is_new] = inbound.try_emplace(parsed->sa.spi, number);
      if (!is_new) {
        return refuse(number,
                      fmt::format("its SPI is that of line {}", entry->second));
      }
      senders.try_emplace(PeerOf(parsed->sa), number);
    } else {
      receivers.insert(PeerOf(parsed->sa));
    }
    read.push_back(*parsed);
  }
  for (const auto& [peer, number] : senders) {
    if (receivers.contains(peer)) continue;
    return refuse(number,
                  "its peer has no 'out' SA, whose networks are those from "
                  "which packets may come");
  }
  return MakeTable(read);
}

absl::StatusOr<SaTable> ReadSas(const std::string& path) {
  constexpr char kThing[] = "file of tunnels";
  struct stat status;
  if (stat(path.c_str(), &status) != 0) return FileError("read", kThing, path);
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return absl::PermissionDeniedError(
        fmt::format("{} has keys in it, and others than its owner may use it "
                    "(mode {:03o}): "
                    "chmod 600 {}",
                    path, status.st_mode & 0777, path));
  }
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kThing));
  auto table = ParseSas(text);
  if (table.ok()) return table;
  return absl::InvalidArgumentError(
      fmt::format("{}: {}", path, table.status().message()));
}

}  // namespace carillon::router
