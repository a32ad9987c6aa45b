#include "devices/router/pcap_files.h"

#include <fmt/format.h>
#include <net/ethernet.h>
#include <pcap/pcap.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace carillon::router {
namespace {

using forwarding::Family;

constexpr int kSnapLength = 65535 + ETHER_HDR_LEN;

uint32_t ByteAt(std::span<const std::byte> bytes, size_t at) {
  return std::to_integer<uint32_t>(bytes[at]);
}

}  // namespace

void PcapReader::Closer::operator()(pcap_t* file) const { pcap_close(file); }

absl::StatusOr<std::unique_ptr<PcapReader>> PcapReader::Open(
    const std::string& path) {
  char error[PCAP_ERRBUF_SIZE] = "";
  std::unique_ptr<pcap_t, Closer> file(pcap_open_offline(path.c_str(), error));
  if (file == nullptr) {
    return absl::InvalidArgumentError(fmt::format("{}: {}", path, error));
  }
  const int link = pcap_datalink(file.get());
  if (link != DLT_EN10MB && link != DLT_RAW) {
    const char* const name = pcap_datalink_val_to_name(link);
    return absl::InvalidArgumentError(
        fmt::format("{}: its link type is {} ({}); it must be Ethernet or raw "
                    "IP",
                    path, link, name == nullptr ? "unknown" : name));
  }
  return std::unique_ptr<PcapReader>(
      new PcapReader(path, std::move(file), link == DLT_EN10MB));
}

absl::StatusOr<std::optional<CapturedPacket>> PcapReader::Next() {
  pcap_pkthdr* header = nullptr;
  const u_char* data = nullptr;
  switch (pcap_next_ex(file_.get(), &header, &data)) {
    case 1:
      break;
    case PCAP_ERROR_BREAK:  // the end
      return std::nullopt;
    default:
      return absl::DataLossError(
          fmt::format("{}: {}", path_, pcap_geterr(file_.get())));
  }
  CapturedPacket packet{.family = std::nullopt,
                        .ip = std::as_bytes(std::span(data, header->caplen)),
                        .time = header->ts};
  if (ethernet_) {
    if (packet.ip.size() < ETHER_HDR_LEN) return packet;
    const uint32_t type = ByteAt(packet.ip, 12) << 8 | ByteAt(packet.ip, 13);
    packet.ip = packet.ip.subspan(ETHER_HDR_LEN);
    if (type == ETHERTYPE_IP) packet.family = Family::kIpv4;
    if (type == ETHERTYPE_IPV6) packet.family = Family::kIpv6;
  } else if (!packet.ip.empty()) {
    const uint32_t version = ByteAt(packet.ip, 0) >> 4;
    if (version == 4) packet.family = Family::kIpv4;
    if (version == 6) packet.family = Family::kIpv6;
  }
  return packet;
}

absl::StatusOr<std::unique_ptr<PcapWriter>> PcapWriter::Open(
    const std::string& path) {
  pcap_t* const format = pcap_open_dead(DLT_EN10MB, kSnapLength);
  pcap_dumper_t* const file = pcap_dump_open(format, path.c_str());
  if (file == nullptr) {
    const absl::Status error =
        absl::InvalidArgumentError(pcap_geterr(format));  // names the file
    pcap_close(format);
    return error;
  }
  return std::unique_ptr<PcapWriter>(new PcapWriter(path, format, file));
}

PcapWriter::~PcapWriter() {
  pcap_dump_close(file_);
  pcap_close(format_);
}

void PcapWriter::Write(std::span<const std::byte> frame, const timeval& time) {
  pcap_pkthdr header{};
  header.ts = time;
  header.caplen = header.len = static_cast<bpf_u_int32>(frame.size());
  pcap_dump(reinterpret_cast<u_char*>(file_), &header,
            reinterpret_cast<const u_char*>(frame.data()));
}

absl::Status PcapWriter::Flush() {
  if (pcap_dump_flush(file_) == 0 && std::ferror(pcap_dump_file(file_)) == 0) {
    return absl::OkStatus();
  }
  return absl::DataLossError(
      fmt::format("{}: not all frames could be written", path_));
}

}  // namespace carillon::router
