// The testbed that a plan runs on: one of its own, or one that is up.
#ifndef CARILLON_TOOLS_TESTBED_FAULT_PLANS_TESTBED_HANDLE_H_
#define CARILLON_TOOLS_TESTBED_FAULT_PLANS_TESTBED_HANDLE_H_

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/testbed/fault_plans/plan.h"
#include "tools/testbed/supervisor/state.h"
#include "tools/testbed/testbed_run.h"

namespace carillon::testbed {

// What was left over or in flight at the end of a testbed.
struct EndState {
  std::optional<uint64_t> in_flight;
  std::optional<std::vector<std::string>> leaks;
};

class TestbedHandle {
 public:
  virtual ~TestbedHandle() = default;

  virtual const TestbedPaths& paths() const = 0;
  virtual std::string name() const = 0;
  // Waits for at most `timeout` and does pending work meanwhile. Returns false
  // once the user asks to end.
  virtual bool Watch(std::chrono::milliseconds timeout) = 0;
  virtual TestbedState State() = 0;
  // What gpud says of its rings now, as JSON; or why it says nothing.
  virtual std::string Rings() = 0;
  // Ends the processes, if they are the plan's own, and waits at most `settle`
  // for their traces to disappear. The directory stays.
  virtual EndState End(std::chrono::nanoseconds settle) = 0;
  // Ends everything and removes the directory.
  virtual absl::Status TakeDown() = 0;
};

// Brings up the plan's testbed, with recorders and a board. Errors: those of
// Supervisor::BringUp().
absl::StatusOr<std::unique_ptr<TestbedHandle>> StartTestbed(
    const fault::Plan& plan, const UpOptions& options, const Say& say);
// Errors: those of ChooseTestbed() and ReadState().
absl::StatusOr<std::unique_ptr<TestbedHandle>> AttachTestbed(
    const std::string& name);

// How many descriptors a process has open; 0 if that cannot be seen.
size_t DescriptorsOf(const ProcessIdentity& process);

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_FAULT_PLANS_TESTBED_HANDLE_H_
