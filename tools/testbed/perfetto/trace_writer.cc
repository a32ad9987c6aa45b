#include "tools/testbed/perfetto/trace_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/file_error.h"
#include "fmt/format.h"
#include "tools/testbed/perfetto/trace_format.pb.h"

namespace carillon::perfetto {
namespace {

constexpr size_t kBuffer = 1 << 20;
constexpr uint32_t kSequence = 1;
// Field 1 of a Trace, with a length.
constexpr char kPacketTag = 1 << 3 | 2;

absl::Status WriteError(const std::string& path) {
  return FileError("write", "trace", path);
}

void AddLength(std::string& to, size_t length) {
  for (; length >= 0x80; length >>= 7) {
    to.push_back(static_cast<char>(length | 0x80));
  }
  to.push_back(static_cast<char>(length));
}

// Whether it is to be found in a folder.
bool HasName(const UniqueFd& file) {
  struct stat facts;
  return file && fstat(file.get(), &facts) == 0 && facts.st_nlink > 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TraceWriter>> TraceWriter::Create(
    const std::string& path, const std::optional<ClockPair>& clocks) {
  struct stat there;
  if (stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    return absl::InvalidArgumentError(
        fmt::format("cannot write the trace {}: it is there, and is no regular "
                    "file",
                    path));
  }
  const std::string part = fmt::format("{}.{}.part", path, getpid());
  const size_t slash = path.rfind('/');
  const std::string folder =
      slash == path.npos ? "." : path.substr(0, slash + 1);
  // Without a name nothing is left of a writer that is killed.
  UniqueFd fd(open(folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666));
  if (!fd && (errno == EOPNOTSUPP || errno == EISDIR)) {
    fd.reset(open(part.c_str(),
                  O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666));
  }
  if (!fd) return WriteError(errno == EEXIST ? part : path);
  std::unique_ptr<TraceWriter> writer(
      new TraceWriter(path, part, std::move(fd)));
  writer->Start(clocks);
  return writer;
}

std::unique_ptr<TraceWriter> TraceWriter::CreateIn(
    UniqueFd file, const std::optional<ClockPair>& clocks) {
  std::unique_ptr<TraceWriter> writer(new TraceWriter("", "", std::move(file)));
  writer->Start(clocks);
  return writer;
}

void TraceWriter::Start(const std::optional<ClockPair>& clocks) {
  TracePacket& packet = *packet_;
  packet.set_sequence_flags(TracePacket::SEQ_INCREMENTAL_STATE_CLEARED);
  packet.mutable_trace_packet_defaults()->set_timestamp_clock_id(
      BUILTIN_CLOCK_MONOTONIC);
  Write();
  ClockSnapshot& snapshot = *packet.mutable_clock_snapshot();
  snapshot.set_primary_trace_clock(BUILTIN_CLOCK_MONOTONIC);
  const ClockPair pair = clocks.value_or(ClockPair());
  auto* const monotonic = snapshot.add_clocks();
  monotonic->set_clock_id(BUILTIN_CLOCK_MONOTONIC);
  monotonic->set_timestamp(pair.monotonic_ns);
  if (clocks) {
    auto* const realtime = snapshot.add_clocks();
    realtime->set_clock_id(BUILTIN_CLOCK_REALTIME);
    realtime->set_timestamp(pair.realtime_ns);
  }
  packet.set_timestamp(pair.monotonic_ns);
  Write();
}

TraceWriter::TraceWriter(std::string path, std::string part, UniqueFd fd)
    : path_(std::move(path)),
      part_(std::move(part)),
      fd_(std::move(fd)),
      packet_(std::make_unique<TracePacket>()) {
  buffer_.reserve(kBuffer + (kBuffer >> 4));
}

TraceWriter::~TraceWriter() {
  if (!finished_ && !path_.empty() && HasName(fd_)) unlink(part_.c_str());
}

Name TraceWriter::Intern(std::string_view text) {
  const auto found = names_.find(text);
  if (found != names_.end()) return found->second;
  const auto name = static_cast<Name>(names_.size() + 1);
  names_.emplace(text, name);
  // Of slices or of their details: each kind has its own list.
  InternedData& data = *packet_->mutable_interned_data();
  auto* const event = data.add_event_names();
  event->set_iid(static_cast<uint64_t>(name));
  event->set_name(std::string(text));
  auto* const detail = data.add_debug_annotation_names();
  detail->set_iid(static_cast<uint64_t>(name));
  detail->set_name(std::string(text));
  packet_->set_sequence_flags(TracePacket::SEQ_NEEDS_INCREMENTAL_STATE);
  Write();
  return name;
}

Track TraceWriter::AddProcess(std::string_view name, uint32_t pid) {
  ProcessDescriptor& process =
      *packet_->mutable_track_descriptor()->mutable_process();
  process.set_pid(static_cast<int32_t>(pid));
  process.set_process_name(std::string(name));
  return Describe(Track::kNone, name);
}

Track TraceWriter::AddTrack(Track parent, std::string_view name) {
  return Describe(parent, name);
}

Track TraceWriter::AddCounter(Track parent, std::string_view name) {
  packet_->mutable_track_descriptor()->mutable_counter()->set_unit(
      CounterDescriptor::UNIT_COUNT);
  return Describe(parent, name);
}

Track TraceWriter::Describe(Track parent, std::string_view name) {
  const auto track = static_cast<Track>(++tracks_);
  TrackDescriptor& descriptor = *packet_->mutable_track_descriptor();
  descriptor.set_uuid(static_cast<uint64_t>(track));
  descriptor.set_name(std::string(name));
  descriptor.set_child_ordering(TrackDescriptor::EXPLICIT);
  descriptor.set_sibling_order_rank(static_cast<int32_t>(tracks_));
  if (parent != Track::kNone) {
    descriptor.set_parent_uuid(static_cast<uint64_t>(parent));
  }
  Write();
  return track;
}

void TraceWriter::Begin(Track track, Nanoseconds time, const Shown& shown) {
  Put(track, time, shown, TrackEvent::TYPE_SLICE_BEGIN);
}

void TraceWriter::End(Track track, Nanoseconds time) {
  Put(track, time, {}, TrackEvent::TYPE_SLICE_END);
}

void TraceWriter::Instant(Track track, Nanoseconds time, const Shown& shown) {
  Put(track, time, shown, TrackEvent::TYPE_INSTANT);
}

void TraceWriter::Count(Track counter, Nanoseconds time, int64_t value) {
  packet_->mutable_track_event()->set_counter_value(value);
  Put(counter, time, {}, TrackEvent::TYPE_COUNTER);
}

void TraceWriter::Put(Track track, Nanoseconds time, const Shown& shown,
                      int type) {
  packet_->set_timestamp(time);
  packet_->set_sequence_flags(TracePacket::SEQ_NEEDS_INCREMENTAL_STATE);
  TrackEvent& event = *packet_->mutable_track_event();
  event.set_type(static_cast<TrackEvent::Type>(type));
  event.set_track_uuid(static_cast<uint64_t>(track));
  if (!shown.text.empty()) {
    event.set_name(std::string(shown.text));
  } else if (shown.name != Name::kNone) {
    event.set_name_iid(static_cast<uint64_t>(shown.name));
  }
  for (const Detail& detail : shown.details) {
    DebugAnnotation& annotation = *event.add_debug_annotations();
    annotation.set_name_iid(static_cast<uint64_t>(detail.name));
    if (detail.text.empty()) {
      annotation.set_uint_value(detail.number);
    } else {
      annotation.set_string_value(std::string(detail.text));
    }
  }
  for (const uint64_t flow : shown.from) event.add_flow_ids(flow);
  for (const uint64_t flow : shown.to) event.add_terminating_flow_ids(flow);
  if (shown.group != 0) event.set_correlation_id(shown.group);
  Write();
}

void TraceWriter::Write() {
  packet_->set_trusted_packet_sequence_id(kSequence);
  buffer_.push_back(kPacketTag);
  AddLength(buffer_, packet_->ByteSizeLong());
  packet_->AppendToString(&buffer_);
  packet_->Clear();
  if (buffer_.size() >= kBuffer) Flush();
}

void TraceWriter::Flush() {
  std::string_view rest = buffer_;
  while (!rest.empty() && error_ == 0) {
    const ssize_t wrote = write(fd_.get(), rest.data(), rest.size());
    if (wrote < 0 && errno != EINTR) error_ = errno;
    if (wrote > 0) rest.remove_prefix(static_cast<size_t>(wrote));
  }
  buffer_.clear();
}

absl::Status TraceWriter::Finish() {
  Flush();
  // A file without a name gets one that it can lose to `path` at once.
  if (error_ == 0 && !path_.empty() && !HasName(fd_)) {
    const std::string self = fmt::format("/proc/self/fd/{}", fd_.get());
    if (linkat(AT_FDCWD, self.c_str(), AT_FDCWD, part_.c_str(),
               AT_SYMLINK_FOLLOW) != 0) {
      return WriteError(errno == EEXIST ? part_ : path_);
    }
  }
  // Some file systems tell of a full disk only here.
  if (error_ == 0 && close(fd_.release()) != 0) error_ = errno;
  if (error_ == 0 && !path_.empty() &&
      rename(part_.c_str(), path_.c_str()) != 0) {
    error_ = errno;
  }
  if (error_ != 0) {
    if (!fd_ && !path_.empty()) unlink(part_.c_str());
    errno = error_;
    const absl::Status status = WriteError(path_.empty() ? "file" : path_);
    if (error_ == EFBIG) return absl::OutOfRangeError(status.message());
    return status;
  }
  finished_ = true;
  return absl::OkStatus();
}

}  // namespace carillon::perfetto
