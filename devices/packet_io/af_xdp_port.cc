#include "devices/packet_io/af_xdp_port.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/bpf.h>
#include <linux/if_xdp.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/status.h"

namespace carillon::packet_io {
namespace {

constexpr uint32_t kRingSlots = 2048;
constexpr uint32_t kPageBytes = 4096;
// What Linux leaves free before a frame.
constexpr uint32_t kHeadroom = 256;
static_assert(kHeadroom <= FramePool::kLead + kFrameOffset);
static_assert(AfXdpPort::kMostFrameBytes == kPageBytes - kHeadroom);
// At most so many buffers wait for a port's frames, and a quarter of the pool
// for those of all ports.
constexpr uint32_t kMostFilled = 512;
// Limits how long Send() waits for room.
constexpr int kRoomAttempts = 4;
constexpr int kRoomWaitMs = 1;
constexpr int kQueueAttempts = 100;
constexpr int kQueueWaitMs = 10;

bpf_insn Insn(int code, uint8_t to, uint8_t from, int16_t offset,
              int32_t value) {
  bpf_insn made{};
  made.code = static_cast<uint8_t>(code);
  made.dst_reg = to & 0xf;
  made.src_reg = from & 0xf;
  made.off = offset;
  made.imm = value;
  return made;
}

// Assembles the program; jumps go to one of two ends.
class Program {
 public:
  enum End { kPass, kRedirect };
  void Add(bpf_insn insn) { insns_.push_back(insn); }
  void Load(int size, uint8_t to, uint8_t from, int16_t offset) {
    Add(Insn(BPF_LDX | BPF_MEM | size, to, from, offset, 0));
  }
  // To `end` if the register compares so.
  void JumpIf(int compare, uint8_t reg, int32_t value, End end) {
    jumps_.push_back({insns_.size(), end});
    Add(Insn(BPF_JMP32 | BPF_K | compare, reg, 0, 0, value));
  }
  void JumpIfReg(int compare, uint8_t reg, uint8_t with, End end) {
    jumps_.push_back({insns_.size(), end});
    Add(Insn(BPF_JMP | BPF_X | compare, reg, with, 0, 0));
  }
  // The frame's bytes up to `bytes` are there, or to `end`.
  void Require(uint32_t bytes, End end) {
    Add(Insn(BPF_ALU64 | BPF_MOV | BPF_X, 4, 2, 0, 0));
    Add(Insn(BPF_ALU64 | BPF_ADD | BPF_K, 4, 0, 0,
             static_cast<int32_t>(bytes)));
    JumpIfReg(BPF_JGT, 4, 3, end);
  }
  std::vector<bpf_insn> Finish(int map) {
    const size_t redirect = insns_.size();
    // The queue's number, in xdp_md.
    Load(BPF_W, 2, 6, 16);
    Add(Insn(BPF_LD | BPF_DW | BPF_IMM, 1, BPF_PSEUDO_MAP_FD, 0, map));
    Add(Insn(0, 0, 0, 0, 0));
    // What becomes of frames of queues without a socket.
    Add(Insn(BPF_ALU64 | BPF_MOV | BPF_K, 3, 0, 0, XDP_PASS));
    Add(Insn(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_redirect_map));
    Add(Insn(BPF_JMP | BPF_EXIT, 0, 0, 0, 0));
    const size_t pass = insns_.size();
    Add(Insn(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, XDP_PASS));
    Add(Insn(BPF_JMP | BPF_EXIT, 0, 0, 0, 0));
    for (const auto& [at, end] : jumps_) {
      const size_t to = end == kPass ? pass : redirect;
      insns_[at].off = static_cast<int16_t>(to - at - 1);
    }
    return insns_;
  }

 private:
  std::vector<bpf_insn> insns_;
  std::vector<std::pair<size_t, End>> jumps_;
};

std::vector<bpf_insn> MakeProgram(const uint8_t* mac, int map) {
  Program program;
  program.Add(Insn(BPF_ALU64 | BPF_MOV | BPF_X, 6, 1, 0, 0));
  // The frame's begin and end.
  program.Load(BPF_W, 2, 1, 0);
  program.Load(BPF_W, 3, 1, 4);
  program.Require(kEthernetBytes, Program::kPass);
  uint32_t first;
  uint16_t second;
  std::memcpy(&first, mac, sizeof(first));
  std::memcpy(&second, mac + sizeof(first), sizeof(second));
  program.Load(BPF_W, 5, 2, 0);
  program.JumpIf(BPF_JNE, 5, static_cast<int32_t>(first), Program::kPass);
  program.Load(BPF_H, 5, 2, 4);
  program.JumpIf(BPF_JNE, 5, second, Program::kPass);
  // IPv4 and IPv6, as a little-endian machine reads their types.
  program.Load(BPF_H, 5, 2, 12);
  program.JumpIf(BPF_JEQ, 5, 0x0008, Program::kRedirect);
  program.JumpIf(BPF_JNE, 5, 0xdd86, Program::kPass);
  // Neighbour discovery is Linux's: ICMPv6 133 to 137.
  program.Require(kEthernetBytes + 41, Program::kRedirect);
  program.Load(BPF_B, 5, 2, kEthernetBytes + 6);
  program.JumpIf(BPF_JNE, 5, 58, Program::kRedirect);
  program.Load(BPF_B, 5, 2, kEthernetBytes + 40);
  program.JumpIf(BPF_JLT, 5, 133, Program::kRedirect);
  program.JumpIf(BPF_JLE, 5, 137, Program::kPass);
  return program.Finish(map);
}

int Silent(libbpf_print_level, const char*, va_list) { return 0; }

}  // namespace

absl::Status AfXdpPort::Failed(int error, const char* step) const {
  const std::string where = fmt::format("af_xdp {}:{}", interface_, queue_);
  switch (error) {
    case EPERM:
    case EACCES:
      return absl::PermissionDeniedError(fmt::format(
          "{}: {}: this process lacks CAP_NET_RAW, CAP_NET_ADMIN or CAP_BPF; a "
          "user namespace does not give the last one, so run it as root",
          where, step));
    case ENOBUFS:
    case ENOMEM:
      return absl::PermissionDeniedError(fmt::format(
          "{}: {}: Linux may not lock so much memory for this process: raise "
          "its limit (ulimit -l), or give it CAP_IPC_LOCK",
          where, step));
    case EAFNOSUPPORT:
    case EPROTONOSUPPORT:
      return absl::UnimplementedError(
          fmt::format("{}: this Linux has no AF_XDP", where));
    case EBUSY:
    case EEXIST:
      return absl::AlreadyExistsError(fmt::format(
          "{}: {}: another program or socket is there", where, step));
    case EINVAL:
      return absl::FailedPreconditionError(
          fmt::format("{}: {}: {}; perhaps there is no such queue", where, step,
                      std::strerror(error)));
    default:
      return absl::FailedPreconditionError(
          fmt::format("{}: {}: {}", where, step, std::strerror(error)));
  }
}

absl::StatusOr<std::unique_ptr<AfXdpPort>> AfXdpPort::Open(
    const std::string& interface, uint32_t queue, FramePool* pool,
    uint32_t sharers) {
  libbpf_set_print(Silent);
  const auto index = static_cast<int>(if_nametoindex(interface.c_str()));
  if (index == 0) {
    return absl::NotFoundError(fmt::format(
        "af_xdp {}: there is no such interface in this network namespace",
        interface));
  }
  std::unique_ptr<AfXdpPort> port;
  for (int attempts = 1;; ++attempts) {
    port.reset(new AfXdpPort(interface, queue, pool));
    RETURN_IF_ERROR(port->OpenMemory(sharers));
    const absl::Status opened = port->OpenSocket();
    if (opened.ok()) break;
    // Linux gives a queue free a moment after its socket was closed.
    if (!absl::IsAlreadyExists(opened) || attempts == kQueueAttempts) {
      return opened;
    }
    poll(nullptr, 0, kQueueWaitMs);
  }
  RETURN_IF_ERROR(port->LoadProgram(index));
  port->Fill();
  return port;
}

AfXdpPort::~AfXdpPort() {
  link_.reset();
  if (socket_ != nullptr) xsk_socket__delete(socket_);
  if (umem_ != nullptr) xsk_umem__delete(umem_);
}

absl::Status AfXdpPort::OpenMemory(uint32_t sharers) {
  const std::span<std::byte> pool = pool_->memory();
  // Memory is mapped in whole pages.
  const auto begin = reinterpret_cast<uintptr_t>(pool.data());
  lead_ = begin % kPageBytes;
  memory_ = pool.data() - lead_;
  const xsk_umem_config config = {.fill_size = kRingSlots,
                                  .comp_size = kRingSlots,
                                  .frame_size = kPageBytes,
                                  .frame_headroom = 0,
                                  .flags = XDP_UMEM_UNALIGNED_CHUNK_FLAG};
  const int error = xsk_umem__create(&umem_, memory_, lead_ + pool.size(),
                                     &fill_, &completed_, &config);
  if (error != 0) return Failed(-error, "its memory");
  const auto share = static_cast<uint32_t>(pool_->size()) / 4 / sharers;
  most_filled_ = std::min(kMostFilled, std::max(1u, share));
  sending_.resize(pool_->size());
  return absl::OkStatus();
}

absl::Status AfXdpPort::OpenSocket() {
  // Drivers' zero copy was never tried here.
  xsk_socket_config config{};
  config.rx_size = kRingSlots;
  config.tx_size = kRingSlots;
  config.libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD;
  config.bind_flags = XDP_USE_NEED_WAKEUP | XDP_COPY;
  const int error = xsk_socket__create(&socket_, interface_.c_str(), queue_,
                                       umem_, &received_, &outgoing_, &config);
  if (error != 0) return Failed(-error, "its socket");
  return absl::OkStatus();
}

absl::Status AfXdpPort::LoadProgram(int index) {
  ifreq request{};
  interface_.copy(request.ifr_name, IFNAMSIZ - 1);
  const UniqueFd any(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!any || ioctl(any.get(), SIOCGIFHWADDR, &request) != 0) {
    return Failed(errno, "its address");
  }
  if (request.ifr_hwaddr.sa_family != ARPHRD_ETHER) {
    return absl::FailedPreconditionError(
        fmt::format("af_xdp {}: it is no Ethernet interface", interface_));
  }
  map_.reset(bpf_map_create(BPF_MAP_TYPE_XSKMAP, "carillon", sizeof(uint32_t),
                            sizeof(uint32_t), queue_ + 1, nullptr));
  if (!map_) return Failed(errno, "its map of sockets");
  const int socket = fd();
  if (bpf_map_update_elem(map_.get(), &queue_, &socket, BPF_ANY) != 0) {
    return Failed(errno, "its map of sockets");
  }
  const std::vector<bpf_insn> program = MakeProgram(
      reinterpret_cast<const uint8_t*>(request.ifr_hwaddr.sa_data), map_.get());
  program_.reset(bpf_prog_load(BPF_PROG_TYPE_XDP, "carillon", "Apache-2.0",
                               program.data(), program.size(), nullptr));
  if (!program_) return Failed(errno, "its program");
  // The driver's own mode if it has one.
  link_.reset(bpf_link_create(program_.get(), index, BPF_XDP, nullptr));
  if (!link_) return Failed(errno, "to attach its program");
  return absl::OkStatus();
}

int AfXdpPort::fd() const { return xsk_socket__fd(socket_); }

std::string AfXdpPort::Describe() const {
  return fmt::format("af_xdp {}:{}", interface_, queue_);
}

void AfXdpPort::Fill() {
  uint32_t want = most_filled_ - filled_;
  // By bursts, unless Linux has few left.
  if (want < kBurst && filled_ >= most_filled_ / 2) return;
  want = std::min(want, static_cast<uint32_t>(pool_->free()));
  uint32_t at = 0;
  if (want == 0 || xsk_ring_prod__reserve(&fill_, want, &at) != want) return;
  for (uint32_t i = 0; i < want; ++i) {
    *xsk_ring_prod__fill_addr(&fill_, at + i) =
        AddressOf(*pool_->Take()) - kHeadroom;
  }
  xsk_ring_prod__submit(&fill_, want);
  filled_ += want;
  if (xsk_ring_prod__needs_wakeup(&fill_) != 0) {
    recvfrom(fd(), nullptr, 0, MSG_DONTWAIT, nullptr, nullptr);
  }
}

bool AfXdpPort::Receive(std::vector<Frame>* frames) {
  Reap();
  uint32_t at = 0;
  const uint32_t count = xsk_ring_cons__peek(&received_, kBurst, &at);
  for (uint32_t i = 0; i < count; ++i) {
    const xdp_desc* const frame = xsk_ring_cons__rx_desc(&received_, at + i);
    const uint64_t address = xsk_umem__add_offset_to_addr(frame->addr);
    // Of the buffer in which Linux was given room.
    const auto buffer = static_cast<BufferIndex>(
        (xsk_umem__extract_addr(frame->addr) + kHeadroom - AddressOf(0)) /
        kBufferBytes);
    // A driver may want more room before it.
    if (address != AddressOf(buffer)) {
      std::memmove(memory_ + AddressOf(buffer), memory_ + address, frame->len);
    }
    ++counts_.received;
    frames->push_back({.buffer = buffer, .length = frame->len, .time = {}});
  }
  if (count > 0) {
    xsk_ring_cons__release(&received_, count);
    filled_ -= count;
  }
  Fill();
  return count == kBurst;
}

void AfXdpPort::Reap() {
  if (in_sending_ == 0) return;
  uint32_t at = 0;
  const uint32_t count = xsk_ring_cons__peek(&completed_, kRingSlots, &at);
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t address = *xsk_ring_cons__comp_addr(&completed_, at + i);
    const auto buffer =
        static_cast<BufferIndex>((address - AddressOf(0)) / kBufferBytes);
    if (buffer < sending_.size() && sending_[buffer]) {
      sending_[buffer] = false;
      --in_sending_;
      pool_->Give(buffer);
    }
  }
  if (count > 0) xsk_ring_cons__release(&completed_, count);
}

void AfXdpPort::Kick() {
  // Linux takes some frames with each call.
  for (int attempts = 0; attempts <= kRoomAttempts;) {
    if (sendto(fd(), nullptr, 0, MSG_DONTWAIT, nullptr, 0) >= 0) return;
    if (errno == EINTR || errno == EAGAIN) {
      if (xsk_cons_nb_avail(&completed_, kRingSlots) == 0) ++attempts;
      Reap();
      continue;
    }
    if (errno != EBUSY && errno != ENOBUFS) return;
    ++attempts;
    pollfd room = {fd(), POLLOUT, 0};
    poll(&room, 1, kRoomWaitMs);
    Reap();
  }
}

void AfXdpPort::Send(std::span<const OutgoingFrame> frames) {
  Reap();
  uint32_t waiting = 0;
  int attempts = 0;
  for (const OutgoingFrame& frame : frames) {
    const size_t length = frame.head.size() + frame.rest.size();
    uint32_t at = 0;
    while (length <= kMostFrameBytes &&
           (pool_->free() == 0 || xsk_prod_nb_free(&outgoing_, 1) == 0) &&
           ++attempts <= kRoomAttempts) {
      if (waiting > 0) xsk_ring_prod__submit(&outgoing_, waiting);
      waiting = 0;
      Kick();
      pollfd room = {fd(), POLLOUT, 0};
      poll(&room, 1, kRoomWaitMs);
      Reap();
    }
    const auto buffer =
        length <= kMostFrameBytes ? pool_->Take() : std::nullopt;
    if (!buffer || xsk_ring_prod__reserve(&outgoing_, 1, &at) != 1) {
      if (buffer) pool_->Give(*buffer);
      ++counts_.send_failed;
      continue;
    }
    // The parts of a reply lie in two places, and Linux wants one.
    std::byte* const to = memory_ + AddressOf(*buffer);
    std::ranges::copy(frame.head, to);
    std::ranges::copy(frame.rest, to + frame.head.size());
    xdp_desc* const slot = xsk_ring_prod__tx_desc(&outgoing_, at);
    slot->addr = AddressOf(*buffer);
    slot->len = static_cast<uint32_t>(length);
    slot->options = 0;
    sending_[*buffer] = true;
    ++in_sending_;
    ++waiting;
    ++counts_.sent;
  }
  if (waiting > 0) xsk_ring_prod__submit(&outgoing_, waiting);
  if (in_sending_ > 0) Kick();
}

const PortCounts& AfXdpPort::counts() {
  xdp_statistics statistics{};
  socklen_t bytes = sizeof(statistics);
  if (getsockopt(fd(), SOL_XDP, XDP_STATISTICS, &statistics, &bytes) == 0) {
    // Without a buffer or a place in the ring; and longer than a buffer.
    counts_.overrun =
        statistics.rx_ring_full + statistics.rx_fill_ring_empty_descs;
    counts_.oversized = statistics.rx_dropped;
  }
  return counts_;
}

}  // namespace carillon::packet_io
