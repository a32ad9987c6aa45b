// Converts messages of the control plane to JSON for -o json.
#ifndef CARILLON_TOOLS_CLI_UI_PROTO_JSON_H_
#define CARILLON_TOOLS_CLI_UI_PROTO_JSON_H_

#include <google/protobuf/message.h>

#include <string>
#include <utility>
#include <vector>

#include "proto/common.pb.h"
#include "shm/histogram.h"
#include "tools/cli/ui/console.h"

namespace carillon::cli {

// Every field has its name in proto/, set or not (of a oneof, only the one that
// is set). 64-bit numbers become numbers, and a Histogram its percentiles.
Json ToJson(const google::protobuf::Message& message);

shm::HistogramSnapshot ToSnapshot(const v1::Histogram& histogram);

using NamedHistogram = std::pair<std::string, shm::HistogramSnapshot>;
// Adds each histogram to the one of its name in `merged`; a new name goes to
// the end.
void MergeHistograms(
    const google::protobuf::RepeatedPtrField<v1::Histogram>& histograms,
    std::vector<NamedHistogram>* merged);

// {"count": .., "p50_ns": .., "p90_ns", "p99_ns", "p999_ns", "max_ns"}
Json PercentilesToJson(const shm::HistogramSnapshot& histogram);
// A row of a table: `cells`, then the same six numbers.
std::vector<std::string> PercentileRow(std::vector<std::string> cells,
                                       const shm::HistogramSnapshot& histogram);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_UI_PROTO_JSON_H_
