// Frames of a pcap file in, frames to another one out.
#ifndef CARILLON_DEVICES_PACKET_IO_PCAP_PORT_H_
#define CARILLON_DEVICES_PACKET_IO_PCAP_PORT_H_

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/unique_fd.h"
#include "devices/packet_io/packet_port.h"

typedef struct pcap pcap_t;
typedef struct pcap_dumper pcap_dumper_t;

namespace carillon::packet_io {

// Of a raw IP capture, each packet gets an Ethernet header of zeros and its
// EtherType. Not thread safe.
class PcapPort : public PacketPort {
 public:
  struct Options {
    std::string from;  // read; empty: no frame comes
    std::string to;    // written; empty: frames cannot be sent
    // Frames come with the gaps between their times in the file, the first at
    // once; else as fast as they are taken.
    bool timed = false;
  };
  // `pool` must outlive the port. Errors: InvalidArgument (no such file, no pcap
  // file, a link type other than Ethernet and raw IP; the file cannot be made).
  static absl::StatusOr<std::unique_ptr<PcapPort>> Open(const Options& options,
                                                        FramePool* pool);
  // The same from an open file, which `name` names in errors; sends nothing.
  static absl::StatusOr<std::unique_ptr<PcapPort>> OpenStream(
      std::FILE* file, const std::string& name, FramePool* pool);
  ~PcapPort() override;

  int fd() const override { return timer_.get(); }
  bool Receive(std::vector<Frame>* frames) override;
  void Send(std::span<const OutgoingFrame> frames) override;
  bool ended() const override { return ended_; }
  // Also writes what is buffered.
  absl::Status Finish() override;
  std::string Describe() const override;

 private:
  PcapPort(const Options& options, FramePool* pool)
      : options_(options), pool_(pool) {}
  absl::Status OpenSource(pcap_t* file, const char* error);
  absl::Status OpenSink();
  absl::Status OpenTimer();
  // Reads the next record, unless there is one. False: the file has ended.
  bool Fetch();
  // When the record that has been read is due.
  Nanoseconds Due();
  void SetTimer(Nanoseconds at);
  void End(absl::Status status);
  // The length of the frame of the record; nothing if it fits no buffer.
  std::optional<uint32_t> CopyTo(std::span<std::byte> frame) const;

  const Options options_;
  FramePool* const pool_;
  pcap_t* source_ = nullptr;
  bool ethernet_ = true;
  pcap_t* format_ = nullptr;  // of the sink
  pcap_dumper_t* sink_ = nullptr;
  UniqueFd timer_;
  bool ended_ = false;
  absl::Status broken_;

  // The record that has been read and not been taken; none: null.
  const unsigned char* record_ = nullptr;
  uint32_t record_bytes_ = 0;
  timeval record_time_{};
  bool started_ = false;
  Nanoseconds start_ = 0;      // when the first record was taken
  int64_t first_time_us_ = 0;  // its time in the file
};

}  // namespace carillon::packet_io

#endif  // CARILLON_DEVICES_PACKET_IO_PCAP_PORT_H_
