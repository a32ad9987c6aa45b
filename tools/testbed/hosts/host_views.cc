#include "tools/testbed/hosts/host_views.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "tools/testbed/hosts/host_registration.h"

namespace carillon::testbed {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLookPeriod{100};
// An etcd that a host has is there again by then, if the host is.
constexpr std::chrono::seconds kOwnEtcdPatience{5};

}  // namespace

std::string HostView::State() const {
  if (!damage.empty()) return "damaged";
  if (record) return ToText(record->state.phase);
  if (!last) return "not up";
  return last->error.empty() ? "gone" : "failed";
}

absl::StatusOr<HostsView> LookAtHosts(mesh::Etcd& etcd,
                                      const Topology& topology) {
  const HostKeys keys(topology.name);
  const auto list = etcd.List(keys.prefix);
  if (topology.own_etcd && absl::IsUnavailable(list.status())) {
    RETURN_IF_ERROR(ExplainSilence(topology));
    return WithHint(list.status(),
                    fmt::format("etcd: own is on host '{}', as long as that is "
                                "up",
                                topology.gpu_host));
  }
  ASSIGN_OR_RETURN(const auto found, list);
  RETURN_IF_ERROR(CheckSameTestbed(found, topology));
  HostsView view;
  for (const HostEntry& host : topology.hosts) {
    view.hosts.push_back({.name = host.name});
  }
  const auto view_of = [&](const std::string& name) -> HostView& {
    const auto known = std::ranges::find(view.hosts, name, &HostView::name);
    if (known != view.hosts.end()) return *known;
    return view.hosts.emplace_back(HostView{.name = name});
  };
  for (const auto& [key, entry] : found) {
    const std::string what = fmt::format("etcd's key {}", key);
    const auto take = [&](auto read, auto* value, HostView& host) {
      if (read.ok()) {
        *value = *std::move(read);
      } else {
        host.damage = std::string(read.status().message());
      }
    };
    if (key.starts_with(keys.hosts)) {
      HostView& host = view_of(key.substr(keys.hosts.size()));
      take(ReadHostRecord(entry.value, what), &host.record, host);
    } else if (key.starts_with(keys.lasts)) {
      HostView& host = view_of(key.substr(keys.lasts.size()));
      take(ReadLastOfHost(entry.value, what), &host.last, host);
    } else if (key == keys.job) {
      view.job = entry.value;
    }
  }
  return view;
}

absl::Status EndHosts(mesh::Etcd& etcd, const Topology& topology,
                      std::chrono::seconds patience) {
  const HostKeys keys(topology.name);
  // It goes by itself where nobody is left who could take it away.
  ASSIGN_OR_RETURN(const auto lease,
                   etcd.GrantLease(patience + std::chrono::seconds(10)));
  RETURN_IF_ERROR(etcd.Put(keys.want, kWantDown, lease));
  const auto end = Clock::now() + patience;
  auto answered = Clock::now();
  absl::Status status;
  for (;;) {
    const auto hosts = etcd.List(keys.hosts);
    status = hosts.status();
    if (topology.own_etcd && absl::IsUnavailable(status) &&
        Clock::now() < answered + kOwnEtcdPatience) {
      std::this_thread::sleep_for(kLookPeriod);
      continue;
    }
    if (!status.ok()) break;
    answered = Clock::now();
    // What has no lease is of no supervisor.
    std::vector<std::string> names;
    for (const auto& [key, entry] : *hosts) {
      if (entry.lease != 0) names.push_back(key.substr(keys.hosts.size()));
    }
    if (names.empty()) break;
    if (Clock::now() >= end) {
      status = absl::DeadlineExceededError(
          fmt::format("still there after {}: {}", FormatSeconds(patience),
                      JoinWords(names)));
      break;
    }
    std::this_thread::sleep_for(kLookPeriod);
  }
  // One that a host has forgets all when that goes, which waits for the end of
  // `want`.
  if (status.ok() && !topology.own_etcd) {
    const auto rest = etcd.List(keys.prefix);
    status = rest.status();
    if (rest.ok()) {
      for (const auto& [key, entry] : *rest) {
        const bool ours = key.starts_with(keys.hosts) ||
                          key.starts_with(keys.lasts) || key == keys.job;
        if (ours && status.ok()) status = etcd.Delete(key);
      }
    }
  }
  etcd.Revoke(lease).IgnoreError();
  return status;
}

}  // namespace carillon::testbed
