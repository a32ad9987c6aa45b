#include "tools/cli/ui/proto_json.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace carillon::cli {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Converts one value of a field; `index` is -1 unless the field is repeated.
Json ValueToJson(const Message& message, const FieldDescriptor* field,
                 int index) {
  const auto& reflection = *message.GetReflection();
#define FIELD_VALUE(Type)                                           \
  (index >= 0 ? reflection.GetRepeated##Type(message, field, index) \
              : reflection.Get##Type(message, field))
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return FIELD_VALUE(Bool);
    case FieldDescriptor::CPPTYPE_INT32:
      return FIELD_VALUE(Int32);
    case FieldDescriptor::CPPTYPE_INT64:
      return FIELD_VALUE(Int64);
    case FieldDescriptor::CPPTYPE_UINT32:
      return FIELD_VALUE(UInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return FIELD_VALUE(UInt64);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return FIELD_VALUE(Float);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return FIELD_VALUE(Double);
    case FieldDescriptor::CPPTYPE_STRING:
      return FIELD_VALUE(String);
    case FieldDescriptor::CPPTYPE_ENUM:
      return FIELD_VALUE(Enum)->name();
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return ToJson(FIELD_VALUE(Message));
  }
#undef FIELD_VALUE
  return nullptr;
}

}  // namespace

Json ToJson(const Message& message) {
  if (const auto* histogram = dynamic_cast<const v1::Histogram*>(&message)) {
    Json json = {{"name", histogram->name()}};
    json.update(PercentilesToJson(ToSnapshot(*histogram)));
    return json;
  }
  Json json = Json::object();
  const auto& descriptor = *message.GetDescriptor();
  const auto& reflection = *message.GetReflection();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor* const field = descriptor.field(i);
    if (field->is_repeated()) {
      Json values = Json::array();
      for (int j = 0; j < reflection.FieldSize(message, field); ++j) {
        values.push_back(ValueToJson(message, field, j));
      }
      json[field->name()] = std::move(values);
    } else if (field->containing_oneof() == nullptr ||
               reflection.HasField(message, field)) {
      json[field->name()] = ValueToJson(message, field, -1);
    }
  }
  return json;
}

shm::HistogramSnapshot ToSnapshot(const v1::Histogram& histogram) {
  shm::HistogramSnapshot snapshot;
  const int buckets = std::min(histogram.bucket_size(), histogram.count_size());
  for (int i = 0; i < buckets; ++i) {
    snapshot.AddBucket(histogram.bucket(i), histogram.count(i));
  }
  snapshot.AddSum(histogram.sum_ns());
  return snapshot;
}

void MergeHistograms(
    const google::protobuf::RepeatedPtrField<v1::Histogram>& histograms,
    std::vector<NamedHistogram>* merged) {
  for (const v1::Histogram& histogram : histograms) {
    auto known = std::find_if(merged->begin(), merged->end(),
                              [&](const NamedHistogram& named) {
                                return named.first == histogram.name();
                              });
    if (known == merged->end()) {
      known = merged->insert(known, {histogram.name(), {}});
    }
    known->second.Merge(ToSnapshot(histogram));
  }
}

Json PercentilesToJson(const shm::HistogramSnapshot& histogram) {
  return {{"count", histogram.count()},
          {"p50_ns", histogram.Percentile(0.5)},
          {"p90_ns", histogram.Percentile(0.9)},
          {"p99_ns", histogram.Percentile(0.99)},
          {"p999_ns", histogram.Percentile(0.999)},
          {"max_ns", histogram.Percentile(1)}};
}

std::vector<std::string> PercentileRow(
    std::vector<std::string> cells, const shm::HistogramSnapshot& histogram) {
  cells.push_back(FormatCount(histogram.count()));
  for (const double fraction : {0.5, 0.9, 0.99, 0.999, 1.0}) {
    cells.push_back(histogram.count() == 0
                        ? "-"
                        : FormatNanoseconds(histogram.Percentile(fraction)));
  }
  return cells;
}

}  // namespace carillon::cli
