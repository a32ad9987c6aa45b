#include "tools/python/carillon_sdk/errors.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "devices/sdk/rpc_status.h"

namespace carillon::python {
namespace {

namespace py = pybind11;

// Why a session has ended, and what a device does then.
struct End {
  std::string_view reason;
  std::string_view remedy;
};
constexpr std::array<End, 7> kEnds = {{
    {"PEER_DEAD", "device.resume() goes on with the next gpud"},
    {"RESTARTING", "device.resume() goes on with the next gpud"},
    {"EVICTED", "carillon logs gpud says why"},
    {"SILENT", "attach again"},
    {"LINK_LOST",
     "carillon logs gpud says why; attach again once carillon links shows the "
     "link up"},
    {"SHUTDOWN", "carillon up brings a testbed up"},
    {"DETACHED", "attach again"},
}};

// What gpud and the SDK say without a remedy.
struct Remedy {
  std::string_view reason;
  std::string_view remedy;
};
constexpr std::array<Remedy, 6> kRemedies = {{
    {"BAD_BINDING", "carillon kernels KERNEL says what each parameter takes"},
    {"BAD_NAME", "take a name as the sentence says"},
    {"BAD_RING_SIZE", "register with a max_in_flight as the sentence says"},
    {"INVALID_ARGUMENT", "take a value as the sentence says"},
    {"UNAVAILABLE", "carillon ps says which testbeds are up"},
    {"UNKNOWN_BUFFER", "take a buffer of this device that was not freed"},
}};

const End* EndOf(std::string_view message) {
  const auto found = std::ranges::find_if(kEnds, [&](const End& end) {
    return message.starts_with(end.reason) &&
           message.substr(end.reason.size()).starts_with(":");
  });
  return found == kEnds.end() ? nullptr : &*found;
}

}  // namespace

EdgeError::EdgeError(std::string message, std::string reason,
                     std::string remedy)
    : message_(std::move(message)),
      reason_(std::move(reason)),
      remedy_(std::move(remedy)) {}

EdgeError::EdgeError(const absl::Status& status)
    : message_(status.message()), reason_(edge::ErrorReason(status)) {
  if (const End* const end = EndOf(message_)) {
    reason_ = end->reason;
    remedy_ = end->remedy;
    return;
  }
  if (reason_.empty()) reason_ = absl::StatusCodeToString(status.code());
  remedy_ = edge::ErrorHint(status);
  if (!remedy_.empty()) return;
  // Without a hint, the sentence itself ends with what to do.
  const size_t last = message_.rfind("; ");
  if (last != std::string::npos) remedy_ = message_.substr(last + 2);
  const auto known = std::ranges::find(kRemedies, reason_, &Remedy::reason);
  if (remedy_.empty() && known != kRemedies.end()) remedy_ = known->remedy;
}

void RegisterErrors() {
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const EdgeError& error) {
      const py::object type =
          py::module_::import("carillon_sdk._error").attr("Error");
      const py::object instance =
          type(error.what(), error.reason(), error.remedy());
      PyErr_SetObject(type.ptr(), instance.ptr());
    }
  });
}

}  // namespace carillon::python
