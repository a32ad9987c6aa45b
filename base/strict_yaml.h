// Reads YAML files that people write, strictly: every key is known and there
// once, and all that is wrong is told at once, with its line.
#ifndef CARILLON_BASE_STRICT_YAML_H_
#define CARILLON_BASE_STRICT_YAML_H_

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/status.h"

namespace carillon {

inline constexpr size_t kMaxYamlBytes = 1 << 20;
inline constexpr int kMaxYamlDepth = 16;

struct Problem {
  // From 1; 0: the file as a whole.
  int line = 0;
  int column = 0;
  std::string text;

  // "FILE:7:5: text", "FILE: text".
  std::string ToString(std::string_view file) const;
};

// One line a problem.
std::string ToString(const std::vector<Problem>& problems,
                     std::string_view file);

// Calls `read` with the root of the one document in `text`, and leaves what is
// wrong in `problems`, by line. `smallest`: what an empty file is told to hold.
// Throws nothing, also when `read` lets an exception of yaml-cpp pass.
void ReadYaml(std::string_view text, std::string_view smallest,
              std::vector<Problem>* problems,
              const std::function<void(const YAML::Node& root)>& read);

// At most kMaxYamlBytes and one byte of a file: `what`, "a topology file".
// kStdin names stdin. Errors: NotFound, PermissionDenied; InvalidArgument (a
// folder; a stdin that is a terminal, or empty).
inline constexpr std::string_view kStdin = "-";
absl::StatusOr<std::string> ReadYamlFile(const std::string& path,
                                         std::string_view what);

const char* TypeWord(const YAML::Node& node);  // "a map"

// The base of what reads one kind of file.
class StrictReader {
 public:
  struct Entry {
    YAML::Mark mark;  // of the key
    YAML::Node node;
  };
  using EntryList = std::vector<std::pair<std::string, Entry>>;

 protected:
  explicit StrictReader(std::vector<Problem>* problems)
      : problems_(*problems) {}
  ~StrictReader() = default;

  void Complain(const YAML::Mark& mark, std::string text);
  void Complain(const YAML::Node& node, std::string text) {
    Complain(node.Mark(), std::move(text));
  }
  void ComplainUnknown(const YAML::Mark& mark, const std::string& key,
                       std::string_view where,
                       const std::vector<std::string_view>& known);

  // The entries of a map in the file's order, without keys that are no text or
  // came before.
  EntryList Entries(const YAML::Node& map, std::string_view where);
  static const Entry* FindEntry(const EntryList& entries,
                                std::string_view name);
  // Complain otherwise.
  bool IsMap(const Entry& entry, std::string_view what);
  bool IsList(const Entry& entry, std::string_view what);
  // The text of a scalar; complains otherwise.
  bool ReadScalar(const Entry& entry, std::string_view key, std::string* text);

  // `read`: from text to a StatusOr, whose message is told.
  template <class T, class Read>
  bool ReadInto(const Entry& entry, std::string_view key, Read read, T* value) {
    std::string text;
    if (!ReadScalar(entry, key, &text)) return false;
    absl::StatusOr<T> result = read(text);
    if (!result.ok()) {
      Complain(entry.node,
               fmt::format("{}: {}", key, result.status().message()));
      return false;
    }
    *value = *std::move(result);
    return true;
  }

 private:
  std::vector<Problem>& problems_;
};

}  // namespace carillon

#endif  // CARILLON_BASE_STRICT_YAML_H_
