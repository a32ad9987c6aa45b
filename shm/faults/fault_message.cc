#include "shm/faults/fault_message.h"

#include "fmt/format.h"

namespace carillon {

absl::StatusOr<faults::Fault> FromMessage(const v1::Fault& message,
                                          std::string* field) {
  const auto invalid = [&](const char* name, const std::string& value) {
    *field = name;
    return absl::InvalidArgumentError(
        fmt::format("fault {}: {}: '{}' is none", message.name(), name, value));
  };
  faults::Fault fault;
  fault.name = message.name();
  const v1::Fault::Target& target = message.target();
  if (!target.process().empty()) fault.process = target.process();
  if (!target.device().empty()) fault.device = target.device();
  if (!target.method().empty()) fault.method = target.method();
  if (target.has_event_id()) fault.event_id = target.event_id();

  const v1::Fault::When& when = message.when();
  if (!when.point().empty()) {
    const auto point = faults::PointOf(when.point());
    if (!point) {
      return invalid("point", when.point());
    }
    fault.point = *point;
  }
  if (when.nth() != 0) fault.nth = when.nth();
  if (when.every() != 0) fault.every = when.every();
  if (when.probability() != 0) fault.probability = when.probability();
  fault.after_ns = when.after_ns();
  fault.window_ns = when.window_ns();
  fault.every_ns = when.every_ns();
  fault.after_fault = when.after_fault();
  fault.after_process = when.after_process();
  if (!when.after_state().empty()) {
    const auto state = faults::StateOf(when.after_state());
    if (!state) return invalid("after_state", when.after_state());
    fault.after_state = *state;
  }
  if (when.after_count() != 0) fault.after_count = when.after_count();

  const v1::Fault::Action& action = message.action();
  const auto kind = faults::ActionOf(action.kind());
  if (!kind) {
    return invalid("action", action.kind());
  }
  fault.action = *kind;
  fault.duration_ns = action.for_ns();
  fault.jitter_ns = action.jitter_ns();
  fault.count = action.count();
  fault.code = action.code();
  fault.offset = action.offset();
  fault.bytes = action.bytes();
  fault.mask = action.mask();
  if (message.has_times()) fault.times = message.times();
  fault.seed = message.seed();
  return fault;
}

v1::Fault ToMessage(const faults::Fault& fault) {
  v1::Fault message;
  message.set_name(fault.name);
  v1::Fault::Target& target = *message.mutable_target();
  target.set_process(fault.process);
  target.set_device(fault.device);
  target.set_method(fault.method);
  if (fault.event_id != faults::kAnyEvent) target.set_event_id(fault.event_id);

  v1::Fault::When& when = *message.mutable_when();
  if (fault.point != faults::Point::kNone) {
    when.set_point(std::string(faults::InfoOf(fault.point).name));
  }
  when.set_nth(fault.nth);
  when.set_every(fault.every);
  when.set_probability(fault.probability);
  when.set_after_ns(fault.after_ns);
  when.set_window_ns(fault.window_ns);
  when.set_every_ns(fault.every_ns);
  when.set_after_fault(fault.after_fault);
  if (fault.after_state != faults::State::kNone) {
    when.set_after_process(fault.after_process);
    when.set_after_state(std::string(faults::StateName(fault.after_state)));
    when.set_after_count(fault.after_count);
  }

  v1::Fault::Action& action = *message.mutable_action();
  action.set_kind(std::string(faults::ActionName(fault.action)));
  action.set_for_ns(fault.duration_ns);
  action.set_jitter_ns(fault.jitter_ns);
  action.set_count(fault.count);
  action.set_code(fault.code);
  action.set_offset(fault.offset);
  action.set_bytes(fault.bytes);
  action.set_mask(fault.mask);
  message.set_times(fault.times);
  message.set_seed(fault.seed);
  return message;
}

}  // namespace carillon
