// Reads a plan from the nodes of its file.
#ifndef CARILLON_TOOLS_TESTBED_FAULT_PLANS_PLAN_READER_H_
#define CARILLON_TOOLS_TESTBED_FAULT_PLANS_PLAN_READER_H_

#include <yaml-cpp/yaml.h>

#include <string>

#include "tools/testbed/fault_plans/plan.h"

namespace carillon::fault {

// Adds to the reading's problems. Does not catch yaml-cpp's exceptions.
void ReadPlanNode(const YAML::Node& root, const std::string& path,
                  PlanReading* reading);

}  // namespace carillon::fault

#endif  // CARILLON_TOOLS_TESTBED_FAULT_PLANS_PLAN_READER_H_
