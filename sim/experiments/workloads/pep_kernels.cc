#include "sim/experiments/workloads/pep_kernels.h"

namespace carillon::sim::figures {
namespace {

constexpr PepKernel kKernels[] = {
    {"CP", "CP", 5.8, 516.2, 10.1, true},
    {"LBM", "LBM", 21.8, 31.7, 20.9, true},
    {"MRI", "MRI", 10.4, 865.2, 11.6, true},
    {"ST", "ST", 4.5, 41.3, 4.2, true},
    {"SC", "SC", 6.7, 605.6, 8.3, true},
    {"GM", "GM", 23.4, 193.6, 17.9, true},
    {"BS", "BS", 3.4, 387.5, 16.7, true},
    {"KS", "KS", 29.7, 984.7, 9, true},
    {"PF", "PF", 11.3, 24.2, 11.6, true},
    {"SRAD1", "SRAD1", 5.2, 1.8, 4},
    {"SRAD2", "SRAD2", 15, 11.5, 16.4},
    {"SRAD3", "SRAD3", 5.2, 7.9, 7.8},
    {"HS", "HOTSP", 33.3, 4.5, 7.7},
    {"LUD", "LUD_INTERNAL", 4.4, 5.3, 10.5},
    {"BP", "BP_FORWARD", 16.7, 4.7, 2},
    {"BP2", "BP_ADJUST", 16.7, 1.5, 1.2},
};

}  // namespace

std::span<const PepKernel> PepKernels() { return kKernels; }

}  // namespace carillon::sim::figures
