#include "tools/testbed/fault_plans/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <limits>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "base/clock.h"
#include "base/option_table.h"
#include "base/text.h"

namespace carillon::fault {
namespace {

using faults::Action;
using faults::Fault;
using faults::Point;

constexpr uint64_t kMax32 = std::numeric_limits<uint32_t>::max() - 1;
constexpr uint64_t kMax64 = std::numeric_limits<uint64_t>::max();

// Indexed by gRPC's codes.
constexpr std::array<std::string_view, 17> kCodes = {
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
};

template <class T, class U>
absl::Status Store(absl::StatusOr<T> value, U& place) {
  if (!value.ok()) return value.status();
  place = static_cast<U>(*std::move(value));
  return absl::OkStatus();
}

template <uint64_t min, uint64_t max, class U>
absl::Status StoreNumber(std::string_view text, U& place) {
  return Store(ReadInteger(text, min, max), place);
}

template <std::string Fault::*member>
absl::Status SetText(std::string_view text, Fault& fault) {
  fault.*member = std::string(text);
  return absl::OkStatus();
}
template <std::string Fault::*member>
std::string GetGlob(const Fault& fault) {
  return fault.*member == "*" ? "" : fault.*member;
}

template <Nanoseconds Fault::*member>
absl::Status SetDuration(std::string_view text, Fault& fault) {
  return Store(ParseDuration(text), fault.*member);
}
template <Nanoseconds Fault::*member>
std::string GetDuration(const Fault& fault) {
  return fault.*member == 0 ? "" : FormatExactDuration(fault.*member);
}

template <auto member, uint64_t min, uint64_t max>
absl::Status SetNumber(std::string_view text, Fault& fault) {
  return StoreNumber<min, max>(text, fault.*member);
}
// Empty for `initial`.
template <auto member, uint64_t initial>
std::string GetNumber(const Fault& fault) {
  return fault.*member == initial ? "" : fmt::format("{}", fault.*member);
}

template <std::string Fault::*member>
absl::Status SetHex(std::string_view text, Fault& fault) {
  if (text.empty() || text.size() % 2 != 0 ||
      text.size() > 2 * faults::kMaxBytes ||
      !std::ranges::all_of(text, absl::ascii_isxdigit)) {
    return absl::InvalidArgumentError(
        fmt::format("{} is not 1 to {} bytes of two hexadecimal digits each, "
                    "like ff00",
                    Quote(text), faults::kMaxBytes));
  }
  fault.*member =
      absl::HexStringToBytes(absl::string_view(text.data(), text.size()));
  return absl::OkStatus();
}
template <std::string Fault::*member>
std::string GetHex(const Fault& fault) {
  return absl::BytesToHexString(fault.*member);
}

absl::Status SetPoint(std::string_view text, Fault& fault) {
  const auto point = faults::PointOf(text);
  if (!point) {
    std::vector<std::string_view> names;
    for (const faults::PointInfo& info : faults::Points()) {
      if (info.point != Point::kNone) names.push_back(info.name);
    }
    return absl::InvalidArgumentError(fmt::format(
        "{} is no point{}", Quote(text),
        DidYouMean(text, names,
                   fmt::format("; there are {}", fmt::join(names, ", ")))));
  }
  fault.point = *point;
  return absl::OkStatus();
}

// "nic0 ready", "gpud started 2".
absl::Status SetAfterState(std::string_view text, Fault& fault) {
  std::istringstream in{std::string(text)};
  const std::vector<std::string> words(std::istream_iterator<std::string>(in),
                                       {});
  if (words.size() < 2 || words.size() > 3) {
    return absl::InvalidArgumentError(
        fmt::format("{} is not a process, a state and how often, like "
                    "`nic0 ready` or `gpud started 2`",
                    Quote(text)));
  }
  const auto state = faults::StateOf(words[1]);
  if (!state) {
    std::vector<std::string_view> names;
    for (size_t i = 1; i < faults::kStates; ++i) {
      names.push_back(faults::StateName(faults::State(i)));
    }
    return absl::InvalidArgumentError(fmt::format(
        "{} is no state{}", Quote(words[1]),
        DidYouMean(words[1], names,
                   fmt::format("; there are {}", fmt::join(names, ", ")))));
  }
  fault.after_process = words[0];
  fault.after_state = *state;
  fault.after_count = 1;
  if (words.size() == 2) return absl::OkStatus();
  return StoreNumber<1, kMax64>(words[2], fault.after_count);
}
std::string GetAfterState(const Fault& fault) {
  if (fault.after_state == faults::State::kNone) return "";
  std::string text = fmt::format("{} {}", fault.after_process,
                                 faults::StateName(fault.after_state));
  if (fault.after_count != 1) text += fmt::format(" {}", fault.after_count);
  return text;
}

// A number of passages, or a time between strikes.
absl::Status SetEvery(std::string_view text, Fault& fault) {
  const bool number =
      text.find_first_not_of("0123456789") == text.npos && !text.empty();
  if (number) return StoreNumber<1, kMax64>(text, fault.every);
  return Store(ParseDuration(text), fault.every_ns);
}
std::string GetEvery(const Fault& fault) {
  if (fault.every_ns != 0) return FormatExactDuration(fault.every_ns);
  return GetNumber<&Fault::every, 1>(fault);
}

absl::Status SetProbability(std::string_view text, Fault& fault) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  // Written so that a NaN is refused.
  if (error != std::errc() || rest != end || !(value > 0 && value <= 1)) {
    return absl::InvalidArgumentError(
        fmt::format("{} is not a number above 0 and at most 1", Quote(text)));
  }
  fault.probability = value;
  return absl::OkStatus();
}
std::string GetProbability(const Fault& fault) {
  return fault.probability == 1 ? "" : fmt::format("{}", fault.probability);
}

absl::Status SetCode(std::string_view text, Fault& fault) {
  for (size_t i = 1; i < kCodes.size(); ++i) {
    if (kCodes[i] == text) {
      fault.code = static_cast<uint32_t>(i);
      return absl::OkStatus();
    }
  }
  const auto number = ReadInteger(text, 0, kMax32);
  if (number.ok()) return Store(number, fault.code);
  const std::vector<std::string_view> names(kCodes.begin() + 1, kCodes.end());
  return absl::InvalidArgumentError(
      fmt::format("{} is neither a number nor a gRPC code{}", Quote(text),
                  DidYouMean(text, names, ", like UNAVAILABLE")));
}
std::string GetCode(const Fault& fault) {
  if (fault.code == 0) return "";
  if (fault.action == Action::kAbort && fault.code < kCodes.size()) {
    return std::string(kCodes[fault.code]);
  }
  return fmt::format("{}", fault.code);
}

constexpr Field kFields[] = {
    {"process", FieldSection::kTarget, "GLOB",
     "gpud, or a device's name; * is any text", SetText<&Fault::process>,
     GetGlob<&Fault::process>},
    {"device", FieldSection::kTarget, "GLOB",
     "at a point of gpud: whose session, ring or call it is",
     SetText<&Fault::device>, GetGlob<&Fault::device>},
    {"event", FieldSection::kTarget, "N", "only this event kernel's rings",
     SetNumber<&Fault::event_id, 0, kMax32>,
     GetNumber<&Fault::event_id, faults::kAnyEvent>},
    {"method", FieldSection::kTarget, "GLOB", "at gpud.rpc: RegisterEvent, ...",
     SetText<&Fault::method>, GetGlob<&Fault::method>},

    {"point", FieldSection::kWhen, "POINT",
     "where it strikes (`carillon fault points`); without it: at a time",
     SetPoint,
     [](const Fault& fault) {
       return fault.point == Point::kNone
                  ? ""
                  : std::string(faults::InfoOf(fault.point).name);
     }},
    {"nth", FieldSection::kWhen, "N",
     "the first passage that it strikes, counted from 1 over all processes and "
     "restarts",
     SetNumber<&Fault::nth, 1, kMax64>, GetNumber<&Fault::nth, 1>},
    {"every", FieldSection::kWhen, "N|DURATION",
     "at a point: each Nth passage from there on; without one: the time from "
     "one strike to the next",
     SetEvery, GetEvery},
    {"probability", FieldSection::kWhen, "P", "of each of these passages",
     SetProbability, GetProbability},
    {"after", FieldSection::kWhen, "DURATION",
     "not before; since the injection", SetDuration<&Fault::after_ns>,
     GetDuration<&Fault::after_ns>},
    {"window", FieldSection::kWhen, "DURATION", "for so long from there",
     SetDuration<&Fault::window_ns>, GetDuration<&Fault::window_ns>},
    {"after_fault", FieldSection::kWhen, "NAME",
     "not before that fault has struck", SetText<&Fault::after_fault>,
     [](const Fault& fault) { return fault.after_fault; }},
    {"after_state", FieldSection::kWhen, "PROCESS STATE [N]",
     "not before that process has started, attached or is ready (the Nth time "
     "since the injection): \"nic0 ready\"",
     SetAfterState, GetAfterState},

    {"times", FieldSection::kFault, "N", "how often it strikes; 0: no limit",
     SetNumber<&Fault::times, 0, kMax64>, GetNumber<&Fault::times, 1>},

    {"for", FieldSection::kDo, "DURATION", "of stop and delay",
     SetDuration<&Fault::duration_ns>, GetDuration<&Fault::duration_ns>},
    {"jitter", FieldSection::kDo, "DURATION", "of delay: so much more or less",
     SetDuration<&Fault::jitter_ns>, GetDuration<&Fault::jitter_ns>},
    {"count", FieldSection::kDo, "SIZE",
     "of storm: rings; of tear and short: bytes; of limit: bytes a second",
     [](std::string_view text, Fault& fault) {
       return Store(ParseSize(text), fault.count);
     },
     GetNumber<&Fault::count, 0>},
    {"code", FieldSection::kDo, "CODE",
     "of abort: a gRPC code, UNAVAILABLE; of fail: the event's status", SetCode,
     GetCode},
    {"offset", FieldSection::kDo, "N", "of corrupt: the first byte",
     SetNumber<&Fault::offset, 0, kMax32>, GetNumber<&Fault::offset, 0>},
    {"bytes", FieldSection::kDo, "HEX", "of corrupt: what they become",
     SetHex<&Fault::bytes>, GetHex<&Fault::bytes>},
    {"mask", FieldSection::kDo, "HEX", "of corrupt: what they are XORed with",
     SetHex<&Fault::mask>, GetHex<&Fault::mask>},
};

}  // namespace

std::span<const Field> Fields() { return kFields; }

std::span<const std::string_view> CodeNames() {
  return std::span(kCodes).subspan(1);
}

absl::StatusOr<Action> ReadAction(std::string_view text) {
  if (const auto action = faults::ActionOf(text); action) return *action;
  std::vector<std::string_view> names;
  for (size_t i = 0; i < faults::kActions; ++i) {
    names.push_back(faults::ActionName(Action(i)));
  }
  return absl::InvalidArgumentError(fmt::format(
      "{} is no action{}", Quote(text),
      DidYouMean(text, names,
                 fmt::format("; there are {}", fmt::join(names, ", ")))));
}

bool TakesField(Action action, std::string_view field) {
  static constexpr std::pair<Action, std::string_view> kTaken[] = {
      {Action::kStop, "for"},      {Action::kDelay, "for"},
      {Action::kDelay, "jitter"},  {Action::kStorm, "count"},
      {Action::kTear, "count"},    {Action::kLimit, "count"},
      {Action::kShort, "count"},   {Action::kFail, "code"},
      {Action::kAbort, "code"},    {Action::kCorrupt, "offset"},
      {Action::kCorrupt, "bytes"}, {Action::kCorrupt, "mask"}};
  return std::ranges::count(kTaken, std::pair(action, field)) != 0;
}

uint64_t SeedOf(uint64_t plan_seed, std::string_view fault_name) {
  // FNV-1a over the name, then splitmix64's finalizer.
  uint64_t hash = 0xcbf2'9ce4'8422'2325 ^ plan_seed;
  for (const char c : fault_name) {
    hash = (hash ^ static_cast<uint8_t>(c)) * 0x100'0000'01b3;
  }
  hash = (hash ^ hash >> 30) * 0xbf58'476d'1ce4'e5b9;
  hash = (hash ^ hash >> 27) * 0x94d0'49bb'1331'11eb;
  return hash ^ hash >> 31;
}

}  // namespace carillon::fault
