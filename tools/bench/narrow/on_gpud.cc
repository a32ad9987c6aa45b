#include "tools/bench/narrow/on_gpud.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"
#include "base/status.h"
#include "devices/sdk/edge.h"
#include "tools/bench/launch/interrupt.h"
#include "tools/bench/launch/testbed.h"
#include "tools/bench/machine.h"
#include "tools/bench/narrow/cells.h"
#include "tools/bench/narrow/events.h"
#include "tools/bench/narrow/on_cores.h"
#include "tools/bench/narrow/on_driver.h"
#include "tools/bench/narrow/outcome.h"
#include "tools/bench/narrow/workload.h"
#include "tools/bench/stats.h"

namespace carillon::bench {
namespace {

// Of rings, beside the data.
constexpr uint64_t kRingBytes = 32ull << 20;

bool IsOnDriver(std::string_view path) {
  return path == kHyperQ || path == kFusion;
}

// gpud's, or that of a driver without the code.
bool IsRefusal(const NarrowCell& cell, const absl::Status& status) {
  if (IsOnDriver(cell.path)) return absl::IsUnimplemented(status);
  return absl::IsInvalidArgument(status) || absl::IsUnimplemented(status) ||
         absl::IsFailedPrecondition(status);
}

// Whether what it ran on may have come to harm.
bool Broke(const NarrowCell& cell, const absl::Status& status) {
  return !status.ok() && !IsRefusal(cell, status) && !absl::IsDataLoss(status);
}

class NarrowGpud {
 public:
  NarrowGpud(const SessionOptions& session, const std::string& backend,
             CellPlan& plan)
      : session_(session),
        backend_(backend),
        plan_(plan),
        report_(plan.report()) {}

  absl::Status Run() {
    RETURN_IF_ERROR(Start());
    RETURN_IF_ERROR(plan_.MakeCells(Paths()));
    // Two contexts on one GPU take turns, and what stays of gpud keeps its SMs.
    if (cuda()) {
      End();
      RETURN_IF_ERROR(RunOnDriver());
    }
    for (const auto& [key, workload] : plan_.workloads()) {
      RETURN_IF_ERROR(RunWorkload(key, workload));
    }
    return absl::OkStatus();
  }

 private:
  bool cuda() const { return report_.backend == "cuda"; }

  // The one before must be gone.
  absl::Status Start() {
    ASSIGN_OR_RETURN(testbed_,
                     LaunchTestbed::Start({.gpud = session_.gpud,
                                           .backend = backend_,
                                           .realtime = session_.realtime,
                                           .memory_bytes = MemoryBytes()}));
    const Json& about = testbed_->device().about();
    report_.backend = about["backend"];
    report_.conditions = {{"description", about["description"]},
                          {"threads", UsableCpus().size()}};
    if (cuda()) {
      report_.conditions["order"] =
          "hyperq and fusion ran before all others, in rounds of their own: a "
          "range of over_baseline is of pairs that lie minutes apart";
      report_.driver = DriverOf(about["description"].get<std::string>());
    }
    return absl::OkStatus();
  }

  void End() {
    device_.reset();
    testbed_.reset();
  }

  std::vector<std::string> Paths() const {
    std::vector<std::string> paths;
    if (cuda()) paths = {std::string(kHyperQ), std::string(kFusion)};
    for (const NarrowPath& path : kNarrowPaths) {
      for (const Json& known : testbed_->device().about()["paths"]) {
        if (known["name"].get<std::string>() == path.launch_path) {
          paths.emplace_back(path.name);
        }
      }
    }
    paths.emplace_back(kThreadsPath);
    return paths;
  }

  uint64_t MostBytes() const {
    uint64_t most = 0;
    for (const auto& [key, workload] : plan_.workloads()) {
      most = std::max(most, workload.bytes());
    }
    return most;
  }

  // A workload's data three times; 0, gpud's default, if that is enough. Before
  // there are workloads nothing is attached.
  uint64_t MemoryBytes() const {
    constexpr uint64_t kUsual = 512ull << 20;
    const uint64_t needs = 3 * (MostBytes() + kRingBytes);
    return needs > kUsual ? needs : 0;
  }

  absl::Status Attach() {
    const uint64_t room = MostBytes() + kRingBytes;
    auto device =
        edge::Device::Attach({.testbed_directory = testbed_->testbed(),
                              .name = "spawner",
                              .kind = "bench",
                              .submission_bytes = room,
                              .completion_bytes = room});
    if (!device.ok()) return testbed_->WithLog(device.status());
    device_ = *std::move(device);
    return absl::OkStatus();
  }

  // Those of a workload that are, or are not, launched by this process.
  std::vector<NarrowCell*> CellsOf(const CellPlan::Key& key, bool on_driver) {
    std::vector<NarrowCell*> cells;
    for (NarrowCell& cell : report_.cells) {
      if (CellPlan::KeyOf(cell) == key && IsOnDriver(cell.path) == on_driver) {
        cells.push_back(&cell);
      }
    }
    return cells;
  }
  // In rounds that go there and back. `measure` runs a cell once. After an error
  // of `get_ready`, which comes before, nothing runs any more: what has been
  // measured is reported.
  template <class Ready, class Measure>
  absl::Status RunInRounds(const std::vector<NarrowCell*>& cells,
                           Ready get_ready, Measure measure) {
    for (size_t round = 0; round < session_.rounds; ++round) {
      for (const size_t i : RoundOrder(cells.size(), round)) {
        NarrowCell& cell = *cells[i];
        RETURN_IF_ERROR(CheckInterrupt());
        if (cell.over()) continue;
        if (lost_.ok()) lost_ = get_ready();
        if (absl::IsCancelled(lost_)) return lost_;
        if (!lost_.ok()) {
          cell.Fail(lost_);
          continue;
        }
        absl::StatusOr<NarrowOutcome> outcome = measure(cell);
        if (absl::IsCancelled(outcome.status())) return outcome.status();
        if (outcome.ok()) {
          cell.Add(round, *std::move(outcome));
        } else if (IsRefusal(cell, outcome.status())) {
          cell.Refuse(outcome.status());
        } else {
          cell.Fail(outcome.status());
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status RunOnDriver() {
    std::unique_ptr<NarrowDriver> driver;
    bool hangs = false;
    const auto open = [&]() -> absl::Status {
      if (driver != nullptr) return absl::OkStatus();
      ASSIGN_OR_RETURN(driver, NarrowDriver::Open());
      return absl::OkStatus();
    };
    for (const auto& [key, workload] : plan_.workloads()) {
      RETURN_IF_ERROR(RunInRounds(
          CellsOf(key, /*on_driver=*/true), open, [&](const NarrowCell& cell) {
            auto outcome = driver->Run(workload, {cell.path, cell.copies()},
                                       CheckInterrupt);
            // A fault costs the context.
            if (Broke(cell, outcome.status())) driver.reset();
            hangs = absl::IsDeadlineExceeded(outcome.status());
            if (hangs) {
              lost_ = absl::FailedPreconditionError(
                  fmt::format("{} {} hangs on the GPU until this program ends",
                              cell.path, cell.workload));
            }
            return outcome;
          }));
    }
    // A gpud has a context of its own.
    if (!hangs) lost_ = absl::OkStatus();
    return absl::OkStatus();
  }

  absl::Status RunWorkload(const CellPlan::Key& key,
                           const NarrowWorkload& workload) {
    std::unique_ptr<NarrowEvents> events;
    const auto open = [&]() -> absl::Status {
      if (testbed_ == nullptr) RETURN_IF_ERROR(Start());
      if (device_ == nullptr) RETURN_IF_ERROR(Attach());
      if (events != nullptr) return absl::OkStatus();
      ASSIGN_OR_RETURN(events, NarrowEvents::Open(device_.get(), &workload));
      return absl::OkStatus();
    };
    return RunInRounds(
        CellsOf(key, /*on_driver=*/false), open,
        [&](const NarrowCell& cell) -> absl::StatusOr<NarrowOutcome> {
          if (cell.path == kThreadsPath) {
            return RunByThreads(workload,
                                static_cast<uint32_t>(UsableCpus().size()));
          }
          const NarrowPath& path =
              *std::ranges::find(kNarrowPaths, cell.path, &NarrowPath::name);
          auto outcome = events->Run({.path = path.launch_path,
                                      .batch = path.batches ? report_.batch : 0,
                                      .copies = cell.copies()},
                                     CheckInterrupt);
          if (Broke(cell, outcome.status())) {
            outcome = testbed_->WithLog(outcome.status());
            events.reset();
            End();
          }
          return outcome;
        });
  }

  const SessionOptions& session_;
  const std::string& backend_;
  CellPlan& plan_;
  NarrowReport& report_;
  std::unique_ptr<LaunchTestbed> testbed_;
  std::unique_ptr<edge::Device> device_;
  absl::Status lost_;  // why nothing can run any more
};

}  // namespace

absl::Status RunOnGpud(const SessionOptions& session,
                       const std::string& backend, CellPlan& plan) {
  return NarrowGpud(session, backend, plan).Run();
}

}  // namespace carillon::bench
