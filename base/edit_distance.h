// "Did you mean ...?" for unknown names; depends on nothing else of Carillon.
#ifndef CARILLON_BASE_EDIT_DISTANCE_H_
#define CARILLON_BASE_EDIT_DISTANCE_H_

#include <cstddef>
#include <span>
#include <string_view>

namespace carillon {

// Insertions, deletions, substitutions and swaps of neighbours that turn a into
// b (optimal string alignment distance). O(|a||b|) time.
size_t EditDistance(std::string_view a, std::string_view b);

// The candidate nearest to `name`, the first of several; empty when even that
// differs in more than max(2, a third of name's letters) places, or in as many as
// it has letters, because a far guess confuses.
std::string_view NearestName(std::string_view name,
                             std::span<const std::string_view> candidates);

}  // namespace carillon

#endif  // CARILLON_BASE_EDIT_DISTANCE_H_
