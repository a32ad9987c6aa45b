#include "mesh/frame.h"

#include <array>
#include <bit>
#include <cstring>
#include <type_traits>

#include "absl/strings/ascii.h"
#include "base/status.h"
#include "fmt/format.h"
#include "shm/ring_layout.h"

namespace carillon::mesh {
namespace {

using shm::EventState;
using shm::Sequence;

static_assert(std::endian::native == std::endian::little);

enum class Type : uint8_t {
  kHello = 1,
  kRefusal = 2,
  kRing = 3,
  kClose = 4,
  kEvents = 5,
  kDone = 6,
  kPing = 7,
  kData = 8,
  kNamed = 9,
  kMeet = 10,
};

struct Header {
  uint32_t payload_bytes;
  uint8_t type;
  uint8_t zero[3];
};
static_assert(sizeof(Header) == kHeaderBytes);

constexpr uint32_t kMagic = 0x4b4e4c43;  // "CLNK"
// The first two are the same in every protocol.
struct HelloHead {
  uint32_t magic;
  uint32_t protocol;
  uint64_t incarnation;
  uint64_t connection;
  uint16_t lengths[4];  // testbed, host, build, catalogue: they follow
};
static_assert(sizeof(HelloHead) == 32);
constexpr size_t kProtocolEnd = offsetof(HelloHead, incarnation);

struct RefusalHead {
  uint32_t code;
};

// Then the purpose.
struct RingHead {
  uint64_t ring;
  uint64_t number;
  uint32_t slots;
  uint32_t event_bytes;
  uint32_t done_bytes;
  uint32_t zero;
};
static_assert(sizeof(RingHead) == 32);

// Then the text.
struct CloseHead {
  uint64_t ring;
  uint32_t passing;
  uint32_t zero;
};
static_assert(sizeof(CloseHead) == 16);

// Then a u32 for each item, its bytes; then the items.
struct EventsHead {
  uint64_t ring;
  uint64_t first;
  uint64_t completed;
  uint32_t count;
  uint32_t zero;
};
static_assert(sizeof(EventsHead) == 32);

// Then an EndHead for each item; then the outputs.
struct DoneHead {
  uint64_t ring;
  uint64_t first;
  uint32_t count;
  uint32_t zero;
};
static_assert(sizeof(DoneHead) == 24);
struct EndHead {
  uint32_t state;
  uint32_t status;
  uint32_t bytes;
};
static_assert(sizeof(EndHead) == 12);

struct PingPayload {
  uint64_t sent;
  uint64_t echoed;
  uint64_t held;
};
static_assert(sizeof(PingPayload) == 24);

// Then the bytes.
struct DataHead {
  uint64_t ring;
  uint64_t number;
};
static_assert(sizeof(DataHead) == 16);

// Then the ticket and the address.
struct MeetHead {
  uint32_t ticket_bytes;
};

static_assert(kMaxItemBytes + sizeof(EventsHead) + sizeof(uint32_t) <=
              kMaxPayloadBytes);
static_assert(kMaxItemBytes + sizeof(DoneHead) + sizeof(EndHead) <=
              kMaxPayloadBytes);

template <class T>
void AppendPlain(const T& value, std::string* to) {
  static_assert(std::has_unique_object_representations_v<T>);
  to->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Printable ASCII, so that no end writes to the other one's terminal.
std::string Clean(std::string_view text, size_t limit) {
  std::string clean(text.substr(0, limit));
  for (char& c : clean) {
    if (!absl::ascii_isprint(static_cast<unsigned char>(c))) c = '?';
  }
  return clean;
}

template <class... Values>
absl::Status Broken(fmt::format_string<Values...> text, Values&&... values) {
  return absl::InvalidArgumentError(
      fmt::format(text, std::forward<Values>(values)...));
}

// Takes a payload apart, from its front.
class Payload {
 public:
  Payload(std::string_view name, std::string_view bytes)
      : name_(name), bytes_(bytes) {}

  template <class T>
  absl::StatusOr<T> Take() {
    if (bytes_.size() < sizeof(T)) {
      return Broken("frame {} is too short: {} bytes are missing", name_,
                    sizeof(T) - bytes_.size());
    }
    T value;
    std::memcpy(&value, bytes_.data(), sizeof(T));
    bytes_.remove_prefix(sizeof(T));
    return value;
  }
  absl::StatusOr<std::string_view> TakeBytes(size_t count) {
    if (bytes_.size() < count) {
      return Broken("frame {} is too short: {} bytes are missing", name_,
                    count - bytes_.size());
    }
    const std::string_view part = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return part;
  }
  absl::StatusOr<std::string> TakeText(size_t count, size_t limit) {
    if (count > limit) {
      return Broken("frame {} has a text of {} bytes: at most {}", name_, count,
                    limit);
    }
    ASSIGN_OR_RETURN(const std::string_view text, TakeBytes(count));
    for (const char c : text) {
      if (!absl::ascii_isprint(static_cast<unsigned char>(c))) {
        return Broken("frame {} has a text with byte {:#04x} in it", name_,
                      static_cast<unsigned char>(c));
      }
    }
    return std::string(text);
  }
  absl::Status CheckZero(uint32_t value) const {
    if (value == 0) return absl::OkStatus();
    return Broken("frame {} has {:#x} where 0 must be", name_, value);
  }
  absl::Status CheckCount(uint32_t count) const {
    if (count > 0 && count <= kMaxItems) return absl::OkStatus();
    return Broken("frame {} has {} items: 1 to {}", name_, count, kMaxItems);
  }
  // The numbers of `count` items, which do not wrap.
  absl::Status CheckNumbers(uint64_t first, uint32_t count) const {
    if (first > 0 && first + count > first) return absl::OkStatus();
    return Broken("frame {} begins with number {}", name_, first);
  }
  size_t size() const { return bytes_.size(); }
  absl::Status CheckEnd() const {
    if (bytes_.empty()) return absl::OkStatus();
    return Broken("frame {} is too long by {} bytes", name_, bytes_.size());
  }

 private:
  const std::string_view name_;
  std::string_view bytes_;
};

absl::StatusOr<Frame> ReadHello(Payload in) {
  struct Start {
    uint32_t magic;
    uint32_t protocol;
  };
  static_assert(sizeof(Start) == kProtocolEnd);
  {
    Payload start = in;
    ASSIGN_OR_RETURN(const auto words, start.Take<Start>());
    if (words.magic != kMagic) {
      return Broken("frame HELLO has the magic number {:#x}, not {:#x}",
                    words.magic, kMagic);
    }
    if (words.protocol != kProtocol) {
      return Broken(
          "the other end speaks protocol {} of links, this one {}: install "
          "the same Carillon on both hosts",
          words.protocol, kProtocol);
    }
  }
  ASSIGN_OR_RETURN(const auto head, in.Take<HelloHead>());
  if (head.incarnation == 0) return Broken("frame HELLO has incarnation 0");
  Hello hello{.incarnation = head.incarnation, .connection = head.connection};
  size_t which = 0;
  for (std::string* text :
       {&hello.testbed, &hello.host, &hello.build, &hello.catalogue}) {
    ASSIGN_OR_RETURN(*text, in.TakeText(head.lengths[which], kMaxNameBytes));
    ++which;
  }
  RETURN_IF_ERROR(in.CheckEnd());
  return hello;
}

absl::StatusOr<Frame> ReadRefusal(Payload in) {
  ASSIGN_OR_RETURN(const auto head, in.Take<RefusalHead>());
  if (head.code < static_cast<uint32_t>(RefusalCode::kBadFrame) ||
      head.code > static_cast<uint32_t>(RefusalCode::kLinkLost)) {
    return Broken("frame REFUSAL has the unknown code {}", head.code);
  }
  ASSIGN_OR_RETURN(std::string why, in.TakeText(in.size(), kMaxReasonBytes));
  return Refusal{static_cast<RefusalCode>(head.code), std::move(why)};
}

absl::StatusOr<Frame> ReadRing(Payload in) {
  ASSIGN_OR_RETURN(const auto ring, in.Take<RingHead>());
  RETURN_IF_ERROR(in.CheckZero(ring.zero));
  ASSIGN_OR_RETURN(const std::string_view purpose, in.TakeBytes(in.size()));
  RingLimits limits{ring.slots, ring.event_bytes, ring.done_bytes,
                    std::string(purpose)};
  RETURN_IF_ERROR(CheckLimits(limits));
  return Ring{RingId(ring.ring), Sequence(ring.number), std::move(limits)};
}

absl::StatusOr<Frame> ReadClose(Payload in) {
  ASSIGN_OR_RETURN(const auto close, in.Take<CloseHead>());
  RETURN_IF_ERROR(in.CheckZero(close.zero | close.passing >> 1));
  ASSIGN_OR_RETURN(std::string why, in.TakeText(in.size(), kMaxReasonBytes));
  return Close{RingId(close.ring), std::move(why), close.passing != 0};
}

absl::StatusOr<Frame> ReadEvents(Payload in) {
  ASSIGN_OR_RETURN(const auto head, in.Take<EventsHead>());
  RETURN_IF_ERROR(in.CheckZero(head.zero));
  RETURN_IF_ERROR(in.CheckCount(head.count));
  RETURN_IF_ERROR(in.CheckNumbers(head.first, head.count));
  std::array<uint32_t, kMaxItems> sizes;
  for (uint32_t i = 0; i < head.count; ++i) {
    ASSIGN_OR_RETURN(sizes[i], in.Take<uint32_t>());
  }
  Events events{
      RingId(head.ring), Sequence(head.first), Sequence(head.completed), {}};
  events.items.reserve(head.count);
  for (uint32_t i = 0; i < head.count; ++i) {
    ASSIGN_OR_RETURN(const std::string_view item, in.TakeBytes(sizes[i]));
    events.items.push_back(item);
  }
  RETURN_IF_ERROR(in.CheckEnd());
  return events;
}

absl::StatusOr<Frame> ReadDone(Payload in) {
  ASSIGN_OR_RETURN(const auto head, in.Take<DoneHead>());
  RETURN_IF_ERROR(in.CheckZero(head.zero));
  RETURN_IF_ERROR(in.CheckCount(head.count));
  RETURN_IF_ERROR(in.CheckNumbers(head.first, head.count));
  std::array<EndHead, kMaxItems> ends;
  for (uint32_t i = 0; i < head.count; ++i) {
    ASSIGN_OR_RETURN(ends[i], in.Take<EndHead>());
  }
  Done done{RingId(head.ring), Sequence(head.first), {}};
  done.items.reserve(head.count);
  for (uint32_t i = 0; i < head.count; ++i) {
    if (ends[i].state < static_cast<uint32_t>(EventState::kDone) ||
        ends[i].state > static_cast<uint32_t>(EventState::kAborted)) {
      return Broken("frame DONE has an event in the unknown state {}",
                    ends[i].state);
    }
    ASSIGN_OR_RETURN(const std::string_view out, in.TakeBytes(ends[i].bytes));
    done.items.push_back(
        {static_cast<EventState>(ends[i].state), ends[i].status, out});
  }
  RETURN_IF_ERROR(in.CheckEnd());
  return done;
}

absl::StatusOr<Frame> ReadPing(Payload in) {
  ASSIGN_OR_RETURN(const auto ping, in.Take<PingPayload>());
  RETURN_IF_ERROR(in.CheckEnd());
  return Ping{ping.sent, ping.echoed, ping.held};
}

absl::StatusOr<Frame> ReadData(Payload in) {
  ASSIGN_OR_RETURN(const auto head, in.Take<DataHead>());
  RETURN_IF_ERROR(in.CheckNumbers(head.number, 1));
  if (in.size() == 0) return Broken("frame DATA has no bytes");
  ASSIGN_OR_RETURN(const std::string_view bytes, in.TakeBytes(in.size()));
  return Data{RingId(head.ring), Sequence(head.number), bytes};
}

absl::StatusOr<Frame> ReadNamed(Payload in) {
  RETURN_IF_ERROR(in.CheckEnd());
  return Named{};
}

absl::StatusOr<Frame> ReadMeet(Payload in) {
  ASSIGN_OR_RETURN(const auto head, in.Take<MeetHead>());
  if (head.ticket_bytes != 0 && head.ticket_bytes != kTicketBytes) {
    return Broken("frame MEET has a ticket of {} bytes: 0 or {}",
                  head.ticket_bytes, kTicketBytes);
  }
  ASSIGN_OR_RETURN(const std::string_view ticket,
                   in.TakeBytes(head.ticket_bytes));
  ASSIGN_OR_RETURN(const std::string_view address, in.TakeBytes(in.size()));
  if (address.empty() || address.size() > kMaxUcxAddressBytes) {
    return Broken("frame MEET has an address of {} bytes: 1 to {}",
                  address.size(), kMaxUcxAddressBytes);
  }
  return Meet{std::string(ticket), std::string(address)};
}

absl::StatusOr<Frame> ReadPayload(Type type, std::string_view bytes) {
  switch (type) {
    case Type::kHello:
      return ReadHello({"HELLO", bytes});
    case Type::kRefusal:
      return ReadRefusal({"REFUSAL", bytes});
    case Type::kRing:
      return ReadRing({"RING", bytes});
    case Type::kClose:
      return ReadClose({"CLOSE", bytes});
    case Type::kEvents:
      return ReadEvents({"EVENTS", bytes});
    case Type::kDone:
      return ReadDone({"DONE", bytes});
    case Type::kPing:
      return ReadPing({"PING", bytes});
    case Type::kData:
      return ReadData({"DATA", bytes});
    case Type::kNamed:
      return ReadNamed({"NAMED", bytes});
    case Type::kMeet:
      return ReadMeet({"MEET", bytes});
  }
  return Broken("a frame has the unknown type {}", static_cast<int>(type));
}

// Each appends a payload.
struct Writer {
  std::string* to;

  Type operator()(const Hello& hello) const {
    HelloHead head{.magic = kMagic,
                   .protocol = kProtocol,
                   .incarnation = hello.incarnation,
                   .connection = hello.connection,
                   .lengths = {}};
    std::string texts;
    size_t which = 0;
    for (const std::string* text :
         {&hello.testbed, &hello.host, &hello.build, &hello.catalogue}) {
      const std::string clean = Clean(*text, kMaxNameBytes);
      head.lengths[which++] = static_cast<uint16_t>(clean.size());
      texts += clean;
    }
    AppendPlain(head, to);
    *to += texts;
    return Type::kHello;
  }
  Type operator()(const Refusal& refusal) const {
    AppendPlain(RefusalHead{static_cast<uint32_t>(refusal.code)}, to);
    *to += Clean(refusal.why, kMaxReasonBytes);
    return Type::kRefusal;
  }
  Type operator()(const Ring& ring) const {
    AppendPlain(
        RingHead{ring.ring.value(), ring.number.value(), ring.limits.slots,
                 ring.limits.event_bytes, ring.limits.done_bytes, 0},
        to);
    *to += ring.limits.purpose;
    return Type::kRing;
  }
  Type operator()(const Close& close) const {
    AppendPlain(CloseHead{close.ring.value(), close.passing, 0}, to);
    *to += Clean(close.why, kMaxReasonBytes);
    return Type::kClose;
  }
  Type operator()(const Events& events) const {
    AppendPlain(EventsHead{events.ring.value(), events.first.value(),
                           events.completed.value(),
                           static_cast<uint32_t>(events.items.size()), 0},
                to);
    for (const std::string_view item : events.items) {
      AppendPlain(static_cast<uint32_t>(item.size()), to);
    }
    for (const std::string_view item : events.items) *to += item;
    return Type::kEvents;
  }
  Type operator()(const Done& done) const {
    AppendPlain(DoneHead{done.ring.value(), done.first.value(),
                         static_cast<uint32_t>(done.items.size()), 0},
                to);
    for (const End& end : done.items) {
      AppendPlain(EndHead{static_cast<uint32_t>(end.state), end.status,
                          static_cast<uint32_t>(end.output.size())},
                  to);
    }
    for (const End& end : done.items) *to += end.output;
    return Type::kDone;
  }
  Type operator()(const Ping& ping) const {
    AppendPlain(PingPayload{ping.sent, ping.echoed, ping.held}, to);
    return Type::kPing;
  }
  Type operator()(const Data& data) const {
    AppendPlain(DataHead{data.ring.value(), data.number.value()}, to);
    *to += data.bytes;
    return Type::kData;
  }
  Type operator()(const Named&) const { return Type::kNamed; }
  Type operator()(const Meet& meet) const {
    AppendPlain(MeetHead{static_cast<uint32_t>(meet.ticket.size())}, to);
    *to += meet.ticket;
    *to += meet.address;
    return Type::kMeet;
  }
};

}  // namespace

absl::Status CheckLimits(const RingLimits& limits) {
  RETURN_IF_ERROR(shm::CheckRingEntries(limits.slots));
  if (limits.purpose.size() > kMaxPurposeBytes) {
    return absl::InvalidArgumentError(
        fmt::format("a ring whose purpose takes {} bytes: at most {}",
                    limits.purpose.size(), kMaxPurposeBytes));
  }
  for (const uint32_t bytes : {limits.event_bytes, limits.done_bytes}) {
    if (bytes > kMaxEventBytes) {
      return absl::InvalidArgumentError(
          fmt::format("an event or completion of {} bytes: a link carries at "
                      "most {}",
                      bytes, kMaxEventBytes));
    }
  }
  return absl::OkStatus();
}

std::string_view NameOf(const Frame& frame) {
  constexpr std::string_view kNames[] = {"HELLO",  "REFUSAL", "RING", "CLOSE",
                                         "EVENTS", "DONE",    "PING", "DATA",
                                         "NAMED",  "MEET"};
  static_assert(std::size(kNames) == std::variant_size_v<Frame>);
  return kNames[frame.index()];
}

void AppendFrame(const Frame& frame, std::string* to) {
  const size_t start = to->size();
  to->append(kHeaderBytes, '\0');
  const Type type = std::visit(Writer{to}, frame);
  const Header header{static_cast<uint32_t>(to->size() - start - kHeaderBytes),
                      static_cast<uint8_t>(type),
                      {}};
  std::memcpy(to->data() + start, &header, sizeof(header));
}

size_t EventsBytes(size_t items, size_t item_bytes) {
  return sizeof(EventsHead) + items * sizeof(uint32_t) + item_bytes;
}

size_t DoneBytes(size_t items, size_t item_bytes) {
  return sizeof(DoneHead) + items * sizeof(EndHead) + item_bytes;
}

void FrameDecoder::Append(std::string_view bytes) {
  if (!broken_.ok()) return;
  bytes_.erase(0, at_);
  at_ = 0;
  bytes_ += bytes;
}

std::string FrameDecoder::TakeRest() {
  std::string rest = bytes_.substr(at_);
  bytes_.clear();
  at_ = 0;
  return rest;
}

absl::StatusOr<std::optional<Frame>> FrameDecoder::Next() {
  RETURN_IF_ERROR(broken_);
  auto frame = Read();
  if (!frame.ok()) broken_ = frame.status();
  return frame;
}

absl::StatusOr<std::optional<Frame>> FrameDecoder::Read() {
  const std::string_view left = std::string_view(bytes_).substr(at_);
  if (left.size() < kHeaderBytes) return std::nullopt;
  Header header;
  std::memcpy(&header, left.data(), sizeof(header));
  // Judged before the payload is there: nobody waits for, or keeps, more.
  if (header.payload_bytes > kMaxPayloadBytes) {
    return Broken("a frame says that it has {} bytes: at most {}",
                  header.payload_bytes, kMaxPayloadBytes);
  }
  const auto type = static_cast<Type>(header.type);
  if (type < Type::kHello || type > Type::kMeet) {
    return Broken("a frame has the unknown type {}", header.type);
  }
  if ((header.zero[0] | header.zero[1] | header.zero[2]) != 0) {
    return Broken("a frame's header has something where 0 must be");
  }
  if (left.size() - kHeaderBytes < header.payload_bytes) return std::nullopt;
  at_ += kHeaderBytes + header.payload_bytes;
  ASSIGN_OR_RETURN(
      Frame frame,
      ReadPayload(type, left.substr(kHeaderBytes, header.payload_bytes)));
  return frame;
}

}  // namespace carillon::mesh
