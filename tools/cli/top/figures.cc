#include "tools/cli/top/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/clock.h"
#include "proto/admin.pb.h"
#include "shm/histogram.h"
#include "tools/cli/ui/proto_json.h"
#include "tools/cli/ui/terminal_text.h"
#include "tools/testbed/supervisor/process_identity.h"
#include "tools/testbed/supervisor/state.h"

namespace carillon::cli::top {
namespace {

std::string Dim(const v1::Dim3& dim) {
  if (dim.z() > 1) return fmt::format("{}x{}x{}", dim.x(), dim.y(), dim.z());
  if (dim.y() > 1) return fmt::format("{}x{}", dim.x(), dim.y());
  return fmt::format("{}", dim.x());
}

Event ToEvent(uint32_t index,
              const testbed::SnapshotPicture::EventKernel& event,
              const testbed::SnapshotRates& rates) {
  const v1::EktEntry& entry = event.entry;
  Event shown = {.ekt_index = index,
                 .device = ForTerminal(entry.device()),
                 .event_id = entry.event_id(),
                 .kernel = ForTerminal(entry.kernel()),
                 .priority = entry.priority(),
                 .entries = event.ring.entries(),
                 .events_per_s = rates.OfRing(index),
                 .rung = entry.counts().rung(),
                 .done = entry.counts().done(),
                 .failed = entry.counts().failed(),
                 .aborted = entry.counts().aborted(),
                 .grid = Dim(entry.grid()),
                 .block = Dim(entry.block()),
                 .path = ForTerminal(entry.launch_path())};
  if (!entry.label().empty()) {
    shown.kernel += fmt::format(" ({})", ForTerminal(entry.label()));
  }
  // The doorbell counts modulo 2^32, and is another process's to write.
  const auto pending =
      static_cast<uint32_t>(event.ring.doorbell() - event.ring.completed());
  if (pending <= shown.entries) shown.pending = pending;
  if (shown.events_per_s) shown.peak = event.peak;
  const shm::HistogramSnapshot latencies = ToSnapshot(rates.Latencies(index));
  if (latencies.count() != 0) {
    shown.mean_ns = latencies.sum() / latencies.count();
    shown.p50_ns = latencies.Percentile(0.5);
    shown.p99_ns = latencies.Percentile(0.99);
  }
  return shown;
}

Process ToProcess(const v1::Device& device, const Figures& figures,
                  const testbed::SnapshotRates& rates) {
  Process shown = {.name = ForTerminal(device.name()),
                   .kind = ForTerminal(device.kind()),
                   .state = ForTerminal(device.state()),
                   .bad = device.silent_ns() != 0,
                   .pid = device.pid(),
                   .events_per_s = rates.OfDevice(device.name()),
                   .silent_ns = device.silent_ns(),
                   .note = ForTerminal(device.note()),
                   .gpud_state = ForTerminal(device.state())};
  for (const Event& event : figures.events) {
    if (event.device != shown.name || !event.peak) continue;
    shown.peak = std::max(shown.peak.value_or(0), *event.peak);
  }
  return shown;
}

}  // namespace

void ShowPicture(const testbed::SnapshotPicture& picture,
                 const testbed::SnapshotRates& rates, Figures* figures) {
  const v1::SnapshotTotals& totals = picture.totals();
  const v1::EventCounts& events = totals.events();
  const uint64_t ended = events.done() + events.failed() + events.aborted();
  figures->time_ns = picture.time_ns();
  figures->events_per_s = rates.all();
  figures->rung = events.rung();
  figures->failed = events.failed();
  figures->aborted = events.aborted();
  figures->in_flight = events.rung() > ended ? events.rung() - ended : 0;
  figures->memory_used = totals.memory_used();
  figures->resident_blocks = totals.resident_blocks();
  figures->blocks_of_sm = {totals.blocks_of_sm().begin(),
                           totals.blocks_of_sm().end()};
  figures->policy = ForTerminal(totals.policy());
  figures->tracing = totals.tracing();
  figures->events.clear();
  for (const auto& [index, event] : picture.event_kernels()) {
    figures->events.push_back(ToEvent(index, event, rates));
  }
  figures->processes.clear();
  for (const auto& [id, device] : picture.devices()) {
    figures->processes.push_back(ToProcess(device, *figures, rates));
  }
}

void ProcessLooker::Add(const testbed::ProcessFacts& facts, uint64_t since_ns,
                        Process* process) {
  const pid_t pid = facts.identity.pid;
  const auto last = last_.find(pid);
  if (last != last_.end() && since_ns != 0 &&
      last->second.start_ticks == facts.identity.start_ticks &&
      facts.cpu_ns >= last->second.cpu_ns) {
    process->cores = static_cast<double>(facts.cpu_ns - last->second.cpu_ns) /
                     static_cast<double>(since_ns);
  }
  now_[pid] = {facts.identity.start_ticks, facts.cpu_ns};
  process->resident_bytes = facts.resident_bytes;
  if (facts.state == 'T') {
    process->state = "stopped";
    process->bad = true;
  }
}

void ProcessLooker::Look(const testbed::Testbed& testbed, Figures* figures) {
  if (testbed.paths.directory().empty()) return;
  const auto now = static_cast<uint64_t>(NowNs());
  const uint64_t since = looked_ns_ == 0 ? 0 : now - looked_ns_;
  looked_ns_ = now;
  now_.clear();
  std::vector<Process> devices = std::exchange(figures->processes, {});
  if (const auto state = testbed::ReadState(testbed.paths.state_file());
      state.ok()) {
    for (const testbed::ProcessRecord& record : state->processes) {
      Process process = {.name = ForTerminal(record.name)};
      const auto device =
          std::ranges::find(devices, process.name, &Process::name);
      if (device != devices.end()) {
        process = std::move(*device);
        devices.erase(device);
      }
      process.bad = process.silent_ns != 0;
      process.cores.reset();
      process.resident_bytes.reset();
      process.kind = ForTerminal(record.kind);
      process.state = testbed::ToText(record.state);
      process.pid = static_cast<uint32_t>(record.identity.pid);
      process.restarts = record.restarts;
      process.note = ForTerminal(record.note);
      if (record.exit) {
        process.state = fmt::format("ended ({}){}", record.exit->ToString(),
                                    record.given_up ? ", given up" : "");
        process.bad = true;
      } else if (const auto facts = testbed::LookAtLiving(record.identity)) {
        Add(*facts, since, &process);
      } else {
        process.state = "ending";
        process.bad = true;
      }
      figures->processes.push_back(std::move(process));
    }
  }
  // Started by hand, which no supervisor knows.
  for (Process& process : devices) {
    process.cores.reset();
    process.resident_bytes.reset();
    if (!process.gpud_state.empty()) process.state = process.gpud_state;
    process.bad = process.silent_ns != 0;
    const auto facts = testbed::LookAtProcess(static_cast<pid_t>(process.pid));
    if (facts && !process.start_ticks) {
      process.start_ticks = facts->identity.start_ticks;
    }
    // With another beginning it is another program, which got the pid again.
    if (facts && facts->state != 'Z' &&
        facts->identity.start_ticks == *process.start_ticks) {
      Add(*facts, since, &process);
    } else {
      process.state = "ended";
      process.bad = true;
    }
    figures->processes.push_back(std::move(process));
  }
  last_ = std::move(now_);
}

}  // namespace carillon::cli::top
