#include "devices/packet_io/pcap_port.h"

#include <fmt/format.h>
#include <net/ethernet.h>
#include <pcap/pcap.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/status.h"

namespace carillon::packet_io {
namespace {

constexpr int kSnapLength = 65535 + ETHER_HDR_LEN;
constexpr uint32_t kBurst = 64;
constexpr int64_t kUsPerSecond = 1'000'000;

// A broken file can have any time.
int64_t MicrosecondsOf(const timeval& time) {
  constexpr int64_t kMostSeconds = int64_t{1} << 33;
  return std::clamp<int64_t>(time.tv_sec, 0, kMostSeconds) * kUsPerSecond +
         std::clamp<int64_t>(time.tv_usec, 0, kUsPerSecond - 1);
}

}  // namespace

absl::StatusOr<std::unique_ptr<PcapPort>> PcapPort::Open(const Options& options,
                                                         FramePool* pool) {
  std::unique_ptr<PcapPort> port(new PcapPort(options, pool));
  if (!options.from.empty()) {
    char error[PCAP_ERRBUF_SIZE] = "";
    pcap_t* const file = pcap_open_offline(options.from.c_str(), error);
    RETURN_IF_ERROR(port->OpenSource(file, error));
  }
  RETURN_IF_ERROR(port->OpenSink());
  RETURN_IF_ERROR(port->OpenTimer());
  return port;
}

absl::StatusOr<std::unique_ptr<PcapPort>> PcapPort::OpenStream(
    std::FILE* file, const std::string& name, FramePool* pool) {
  std::unique_ptr<PcapPort> port(new PcapPort({.from = name}, pool));
  char error[PCAP_ERRBUF_SIZE] = "";
  pcap_t* const source = pcap_fopen_offline(file, error);
  if (source == nullptr) std::fclose(file);
  RETURN_IF_ERROR(port->OpenSource(source, error));
  RETURN_IF_ERROR(port->OpenTimer());
  return port;
}

PcapPort::~PcapPort() {
  if (source_ != nullptr) pcap_close(source_);
  if (sink_ != nullptr) pcap_dump_close(sink_);
  if (format_ != nullptr) pcap_close(format_);
}

absl::Status PcapPort::OpenSource(pcap_t* file, const char* error) {
  source_ = file;
  if (source_ == nullptr) {
    // libpcap names the file in some of its messages.
    const std::string_view text = error;
    return absl::InvalidArgumentError(
        text.starts_with(options_.from)
            ? std::string(text)
            : fmt::format("{}: {}", options_.from, text));
  }
  const int link = pcap_datalink(source_);
  if (link != DLT_EN10MB && link != DLT_RAW) {
    const char* const name = pcap_datalink_val_to_name(link);
    return absl::InvalidArgumentError(
        fmt::format("{}: its link type is {} ({}); it must be Ethernet or raw "
                    "IP",
                    options_.from, link, name == nullptr ? "unknown" : name));
  }
  ethernet_ = link == DLT_EN10MB;
  return absl::OkStatus();
}

absl::Status PcapPort::OpenSink() {
  if (options_.to.empty()) return absl::OkStatus();
  format_ = pcap_open_dead(DLT_EN10MB, kSnapLength);
  sink_ = pcap_dump_open(format_, options_.to.c_str());
  if (sink_ != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(pcap_geterr(format_));  // names the file
}

absl::Status PcapPort::OpenTimer() {
  timer_.reset(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer_) {
    return absl::ResourceExhaustedError(
        fmt::format("timerfd: {}", strerror(errno)));
  }
  // Nobody reads it, so once it has expired it stays readable.
  if (source_ != nullptr) {
    SetTimer(1);
  } else {
    ended_ = true;
  }
  return absl::OkStatus();
}

void PcapPort::SetTimer(Nanoseconds at) {
  itimerspec time{};
  time.it_value.tv_sec = static_cast<time_t>(at / 1'000'000'000);
  time.it_value.tv_nsec = static_cast<long>(at % 1'000'000'000);
  timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &time, nullptr);
}

void PcapPort::End(absl::Status status) {
  ended_ = true;
  broken_ = std::move(status);
  SetTimer(0);  // never
}

bool PcapPort::Fetch() {
  if (record_ != nullptr) return true;
  if (ended_) return false;
  pcap_pkthdr* header = nullptr;
  const u_char* data = nullptr;
  switch (pcap_next_ex(source_, &header, &data)) {
    case 1:
      break;
    case PCAP_ERROR_BREAK:  // the end
      End(absl::OkStatus());
      return false;
    default:
      End(absl::DataLossError(
          fmt::format("{}: {}", options_.from, pcap_geterr(source_))));
      return false;
  }
  record_ = data;
  record_bytes_ = header->caplen;
  record_time_ = header->ts;
  return true;
}

Nanoseconds PcapPort::Due() {
  const int64_t time_us = MicrosecondsOf(record_time_);
  if (!started_) {
    started_ = true;
    start_ = NowNs();
    first_time_us_ = time_us;
  }
  // Times may go back where several interfaces were captured.
  return start_ + static_cast<Nanoseconds>(
                      std::max<int64_t>(time_us - first_time_us_, 0)) *
                      1'000;
}

std::optional<uint32_t> PcapPort::CopyTo(std::span<std::byte> frame) const {
  uint32_t begin = 0;
  if (!ethernet_) {
    begin = ETHER_HDR_LEN;
    std::memset(frame.data(), 0, begin);
    const int version = record_bytes_ == 0 ? 0 : record_[0] >> 4;
    const uint16_t type = version == 4   ? ETHERTYPE_IP
                          : version == 6 ? ETHERTYPE_IPV6
                                         : 0;
    frame[12] = static_cast<std::byte>(type >> 8);
    frame[13] = static_cast<std::byte>(type);
  }
  if (record_bytes_ > frame.size() - begin) return std::nullopt;
  std::memcpy(frame.data() + begin, record_, record_bytes_);
  return begin + record_bytes_;
}

bool PcapPort::Receive(std::vector<Frame>* frames) {
  for (uint32_t i = 0; i < kBurst; ++i) {
    if (!Fetch()) return false;
    if (options_.timed) {
      const Nanoseconds due = Due();
      if (due > NowNs()) {
        SetTimer(due);
        return false;
      }
    }
    const auto buffer = pool_->Take();
    if (!buffer) return false;
    const auto length = CopyTo(pool_->frame(*buffer));
    if (length) {
      ++counts_.received;
      frames->push_back({*buffer, *length, record_time_});
    } else {
      ++counts_.oversized;
      pool_->Give(*buffer);
    }
    record_ = nullptr;
  }
  return true;
}

void PcapPort::Send(std::span<const OutgoingFrame> frames) {
  std::vector<std::byte> whole;
  for (const OutgoingFrame& frame : frames) {
    if (sink_ == nullptr) {
      ++counts_.send_failed;
      continue;
    }
    whole.assign(frame.head.begin(), frame.head.end());
    whole.insert(whole.end(), frame.rest.begin(), frame.rest.end());
    pcap_pkthdr header{};
    if (frame.time) {
      header.ts = *frame.time;
    } else {
      gettimeofday(&header.ts, nullptr);
    }
    header.caplen = header.len = static_cast<bpf_u_int32>(whole.size());
    pcap_dump(reinterpret_cast<u_char*>(sink_), &header,
              reinterpret_cast<const u_char*>(whole.data()));
    ++counts_.sent;
  }
}

absl::Status PcapPort::Finish() {
  RETURN_IF_ERROR(broken_);
  if (sink_ == nullptr || (pcap_dump_flush(sink_) == 0 &&
                           std::ferror(pcap_dump_file(sink_)) == 0)) {
    return absl::OkStatus();
  }
  return absl::DataLossError(
      fmt::format("{}: not all frames could be written", options_.to));
}

std::string PcapPort::Describe() const {
  if (options_.from.empty()) return fmt::format("pcap to {}", options_.to);
  return fmt::format("pcap {}", options_.from);
}

}  // namespace carillon::packet_io
