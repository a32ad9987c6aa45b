// Packets from a pcap file, and frames to another.
#ifndef CARILLON_DEVICES_ROUTER_PCAP_FILES_H_
#define CARILLON_DEVICES_ROUTER_PCAP_FILES_H_

#include <sys/time.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/forwarding/prefix.h"

typedef struct pcap pcap_t;
typedef struct pcap_dumper pcap_dumper_t;

namespace carillon::router {

struct CapturedPacket {
  // None: it is no IP packet, or a VLAN's.
  std::optional<forwarding::Family> family;
  std::span<const std::byte> ip;  // what was captured of it; until Next()
  timeval time;
};

// Not thread safe.
class PcapReader {
 public:
  // Errors: InvalidArgument (no such file, no pcap file, a link type other than
  // Ethernet and raw IP).
  static absl::StatusOr<std::unique_ptr<PcapReader>> Open(
      const std::string& path);

  // Nothing at the end. Error: DataLoss (the file is cut short or broken).
  absl::StatusOr<std::optional<CapturedPacket>> Next();

 private:
  struct Closer {
    void operator()(pcap_t* file) const;
  };
  PcapReader(std::string path, std::unique_ptr<pcap_t, Closer> file,
             bool ethernet)
      : path_(std::move(path)), file_(std::move(file)), ethernet_(ethernet) {}

  const std::string path_;
  const std::unique_ptr<pcap_t, Closer> file_;
  const bool ethernet_;
};

// Not thread safe.
class PcapWriter {
 public:
  // Of Ethernet frames. Error: InvalidArgument (the file cannot be made).
  static absl::StatusOr<std::unique_ptr<PcapWriter>> Open(
      const std::string& path);
  ~PcapWriter();

  void Write(std::span<const std::byte> frame, const timeval& time);
  // Error: DataLoss (not all is in the file).
  absl::Status Flush();

 private:
  PcapWriter(std::string path, pcap_t* format, pcap_dumper_t* file)
      : path_(std::move(path)), format_(format), file_(file) {}

  const std::string path_;
  pcap_t* const format_;
  pcap_dumper_t* const file_;
};

}  // namespace carillon::router

#endif  // CARILLON_DEVICES_ROUTER_PCAP_FILES_H_
