// The project's JSON: a document keeps the order in which its keys were added.
// Who looks into one includes <nlohmann/json.hpp> too, which costs a second to
// compile.
#ifndef CARILLON_BASE_JSON_H_
#define CARILLON_BASE_JSON_H_

#include <nlohmann/json_fwd.hpp>

namespace carillon {

using Json = nlohmann::ordered_json;

}  // namespace carillon

#endif  // CARILLON_BASE_JSON_H_
