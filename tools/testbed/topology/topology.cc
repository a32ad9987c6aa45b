#include "tools/testbed/topology/topology.h"

#include <fmt/format.h>
#include <pwd.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/text.h"

namespace carillon::testbed {

const char* ToText(RestartPolicy policy) {
  return policy == RestartPolicy::kNever ? "never" : "on_failure";
}

namespace {

// The setting of that key, made if necessary. Null if there is no such key.
Setting* SettingOf(std::vector<Setting>& settings, std::span<const Option> keys,
                   std::string_view key) {
  const Option* const wanted = FindKey(keys, key);
  if (wanted == nullptr) return nullptr;
  const auto same = std::ranges::find(settings, wanted, &Setting::option);
  if (same != settings.end()) return &*same;
  settings.push_back({.option = wanted});
  return &settings.back();
}

}  // namespace

void SetNumber(DeviceEntry& device, std::string_view key, uint64_t value) {
  if (Setting* setting = SettingOf(device.settings, device.kind->keys, key)) {
    setting->number = value;
  }
}

void SetGpuText(Topology& topology, std::string_view key,
                const std::string& value) {
  if (Setting* setting = SettingOf(topology.gpu, GpuKeys(), key)) {
    setting->text = value;
  }
}

std::string CheckUser(const Topology& topology, const DeviceEntry& device) {
  const passwd* const user = getpwnam(device.user.c_str());
  if (user == nullptr) {
    return fmt::format("{} is no user of this machine", Quote(device.user));
  }
  if (user->pw_uid == 0) {
    return fmt::format(
        "{} may do everything to a testbed: name another user, or leave user "
        "out",
        Quote(device.user));
  }
  // Both are files of the testbed's user, which a device maps and writes.
  for (const auto& [wanted, key] : {std::pair(topology.faults, "faults"),
                                    {topology.record != 0, "record"}}) {
    if (!wanted) continue;
    return fmt::format(
        "{} goes without a user of its own: what a device does for it lies in "
        "files of the testbed's user; leave {} or user out",
        key, key);
  }
  return "";
}

std::string CheckName(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  };
  if (name.empty() || name.size() > kMaxNameLength ||
      !std::ranges::all_of(name, allowed)) {
    return fmt::format("{} is no name; allowed: 1 to {} of a-z, 0-9, '_', '-'",
                       Quote(name), kMaxNameLength);
  }
  if (std::ranges::count(kReservedNames, name) != 0) {
    return fmt::format("{} is a name that Carillon uses itself", Quote(name));
  }
  return "";
}

}  // namespace carillon::testbed
