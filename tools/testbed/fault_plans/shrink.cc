#include "tools/testbed/fault_plans/shrink.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace carillon::fault {
namespace {

using faults::Fault;

// The plan without `count` faults from `first` on.
Plan Without(const Plan& plan, size_t first, size_t count) {
  Plan smaller = plan;
  const auto begin = smaller.faults.begin() + static_cast<ptrdiff_t>(first);
  smaller.faults.erase(begin, begin + static_cast<ptrdiff_t>(count));
  for (PlannedFault& planned : smaller.faults) {
    const std::string& name = planned.fault.after_fault;
    const bool there = std::ranges::any_of(
        smaller.faults,
        [&](const PlannedFault& other) { return other.fault.name == name; });
    if (!there) planned.fault.after_fault.clear();
  }
  return smaller;
}

void RemoveFaults(Plan& plan, const Fails& fails) {
  for (size_t chunk = std::max<size_t>(plan.faults.size() / 2, 1);;) {
    bool removed = false;
    for (size_t at = 0; at + chunk <= plan.faults.size();) {
      if (chunk == plan.faults.size()) break;  // one must be left
      Plan smaller = Without(plan, at, chunk);
      if (fails(smaller)) {
        plan = std::move(smaller);
        removed = true;
      } else {
        at += chunk;
      }
    }
    if (chunk == 1 && !removed) return;
    if (!removed) chunk /= 2;
    chunk = std::clamp<size_t>(chunk, 1,
                               std::max<size_t>(plan.faults.size() / 2, 1));
    if (plan.faults.size() == 1) return;
  }
}

// Tries a change; keeps it and returns true if the plan still fails.
bool Try(Plan& plan, size_t index, const Fails& fails,
         const std::function<void(Fault&)>& change) {
  Plan simpler = plan;
  change(simpler.faults[index].fault);
  if (simpler.faults[index] == plan.faults[index]) return false;
  if (!faults::Check(simpler.faults[index].fault).ok()) return false;
  if (!fails(simpler)) return false;
  plan = std::move(simpler);
  return true;
}

void SimplifyFault(Plan& plan, size_t index, const Fails& fails) {
  for (const auto& change : std::vector<std::function<void(Fault&)>>{
           [](Fault& fault) { fault.after_fault.clear(); },
           [](Fault& fault) {
             fault.after_process.clear();
             fault.after_state = faults::State::kNone;
             fault.after_count = 1;
           },
           [](Fault& fault) { fault.after_ns = 0; },
           [](Fault& fault) { fault.window_ns = 0; },
           [](Fault& fault) { fault.jitter_ns = 0; },
           [](Fault& fault) { fault.probability = 1; },
           [](Fault& fault) { fault.every = 1; },
           [](Fault& fault) { fault.times = 1; },
       }) {
    Try(plan, index, fails, change);
  }
  const auto halve = [&](uint64_t Fault::*field) {
    while (plan.faults[index].fault.*field > 1 &&
           Try(plan, index, fails,
               [&](Fault& fault) { fault.*field = fault.*field / 2; })) {
    }
  };
  halve(&Fault::times);
  halve(&Fault::nth);
  halve(&Fault::after_count);
}

}  // namespace

Plan Shrink(Plan plan, const Fails& fails) {
  if (plan.faults.size() > 1) RemoveFaults(plan, fails);
  for (size_t i = 0; i < plan.faults.size(); ++i) SimplifyFault(plan, i, fails);
  return plan;
}

}  // namespace carillon::fault
