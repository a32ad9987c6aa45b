// The resources that processes and a testbed use, to find leaks.
#ifndef CARILLON_INTEGRATION_TESTS_SOAK_RESOURCE_USE_H_
#define CARILLON_INTEGRATION_TESTS_SOAK_RESOURCE_USE_H_

#include <sys/types.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/testbed_paths.h"

namespace carillon::soak {

// All are 0 for a process that does not exist.
struct ResourceUse {
  uint64_t descriptors = 0;
  uint64_t threads = 0;  // the process's own threads
  // gRPC's threads, which start when its queues are long and end after half a
  // minute without work.
  uint64_t pool_threads = 0;
  uint64_t regions = 0;  // apertures that are mapped
  uint64_t resident_kb = 0;
};
ResourceUse ResourceUseOf(pid_t pid);

// The files of a testbed's directory, relative to it, except those of flight
// recorders.
std::set<std::string> FilesOf(const TestbedPaths& paths);
// Carillon's files in /dev/shm.
std::set<std::string> SharedMemoryFiles();

// How a number changes during a run.
struct Trend {
  void Add(double value) { values.push_back(value); }
  double first() const { return values.empty() ? 0 : values.front(); }
  double last() const { return values.empty() ? 0 : values.back(); }
  double least() const;
  double most() const;
  // The change per 100 values, by least squares; 0 for fewer than two values.
  double SlopePer100() const;

  std::vector<double> values;
};

}  // namespace carillon::soak

#endif  // CARILLON_INTEGRATION_TESTS_SOAK_RESOURCE_USE_H_
