#include "base/strict_yaml.h"

#include <unistd.h>
#include <yaml-cpp/eventhandler.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "absl/status/status.h"
#include "base/text.h"

namespace carillon {
namespace {

// Looks at a file's shape before anything is built from it: a few bytes of
// nesting or of aliases must not cost much.
class ShapeCheck : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    throw YAML::ParserException(mark, "aliases are not allowed");
  }
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark& mark, const std::string&,
                       YAML::anchor_t, YAML::EmitterStyle::value) override {
    Descend(mark);
  }
  void OnSequenceEnd() override { --depth_; }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    Descend(mark);
  }
  void OnMapEnd() override { --depth_; }

 private:
  void Descend(const YAML::Mark& mark) {
    if (++depth_ > kMaxYamlDepth) {
      throw YAML::ParserException(
          mark, fmt::format("nested deeper than {} levels", kMaxYamlDepth));
    }
  }

  int depth_ = 0;
};

// yaml-cpp throws.
void ReadDocument(std::string_view text, std::string_view smallest,
                  std::vector<Problem>* problems,
                  const std::function<void(const YAML::Node& root)>& read) {
  std::istringstream stream{std::string(text)};
  YAML::Parser parser(stream);
  ShapeCheck shape;
  int documents = 0;
  // No further: what is no document's beginning, like a comma, yaml-cpp takes
  // for one empty document after another.
  while (documents < 2 && parser.HandleNextDocument(shape)) ++documents;
  if (documents > 1) {
    problems->push_back(
        {0, 0,
         "the file has more than one document, or text behind the first that "
         "belongs to nothing"});
    return;
  }
  const YAML::Node root = YAML::Load(std::string(text));
  if (!root.IsDefined() || root.IsNull()) {
    problems->push_back({0, 0, fmt::format("the file is empty; {}", smallest)});
    return;
  }
  read(root);
}

}  // namespace

std::string Problem::ToString(std::string_view file) const {
  if (line == 0) return fmt::format("{}: {}", file, text);
  return fmt::format("{}:{}:{}: {}", file, line, column, text);
}

std::string ToString(const std::vector<Problem>& problems,
                     std::string_view file) {
  std::string lines;
  for (const Problem& problem : problems) {
    if (!lines.empty()) lines += "\n";
    lines += problem.ToString(file);
  }
  return lines;
}

void ReadYaml(std::string_view text, std::string_view smallest,
              std::vector<Problem>* problems,
              const std::function<void(const YAML::Node& root)>& read) {
  if (text.size() > kMaxYamlBytes) {
    problems->push_back({0, 0,
                         fmt::format("the file is too long; allowed: {}",
                                     FormatExactSize(kMaxYamlBytes))});
    return;
  }
  try {
    ReadDocument(text, smallest, problems, read);
  } catch (const YAML::Exception& error) {
    problems->push_back(
        {error.mark.line + 1, error.mark.column + 1, error.msg});
  }
  std::stable_sort(problems->begin(), problems->end(),
                   [](const Problem& a, const Problem& b) {
                     return std::pair(a.line, a.column) <
                            std::pair(b.line, b.column);
                   });
}

namespace {

absl::StatusOr<std::string> ReadStdin(std::string_view what) {
  if (isatty(STDIN_FILENO) != 0) {
    return absl::InvalidArgumentError(
        fmt::format("- is stdin, which is a terminal: send {} into it, as with "
                    "`carillon ... - < FILE`, or name a file",
                    what));
  }
  std::string text(kMaxYamlBytes + 1, '\0');
  size_t got = 0;
  while (got < text.size()) {
    const ssize_t more =
        read(STDIN_FILENO, text.data() + got, text.size() - got);
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) {
      return absl::NotFoundError(
          fmt::format("cannot read stdin: {}", std::strerror(errno)));
    }
    if (more == 0) break;
    got += static_cast<size_t>(more);
  }
  if (got == 0) {
    return absl::InvalidArgumentError(
        fmt::format("stdin is empty: {} was to come from it", what));
  }
  text.resize(got);
  return text;
}

}  // namespace

absl::StatusOr<std::string> ReadYamlFile(const std::string& path,
                                         std::string_view what) {
  if (path == kStdin) return ReadStdin(what);
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return absl::InvalidArgumentError(
        fmt::format("{} is a folder, not {}", path, what));
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    const std::string message =
        fmt::format("cannot read {}: {}", path, std::strerror(errno));
    return errno == EACCES || errno == EPERM
               ? absl::PermissionDeniedError(message)
               : absl::NotFoundError(message);
  }
  std::string text(kMaxYamlBytes + 1, '\0');
  file.read(text.data(), text.size());
  text.resize(file.gcount());
  return text;
}

const char* TypeWord(const YAML::Node& node) {
  if (node.IsMap()) return "a map";
  if (node.IsSequence()) return "a list";
  if (node.IsScalar()) return "a value";
  return "nothing";
}

void StrictReader::Complain(const YAML::Mark& mark, std::string text) {
  problems_.push_back({mark.line + 1, mark.column + 1, std::move(text)});
}

void StrictReader::ComplainUnknown(const YAML::Mark& mark,
                                   const std::string& key,
                                   std::string_view where,
                                   const std::vector<std::string_view>& known) {
  Complain(mark, fmt::format("unknown key {} {}{}", Quote(key), where,
                             DidYouMean(key, known,
                                        fmt::format("; known keys: {}",
                                                    fmt::join(known, ", ")))));
}

StrictReader::EntryList StrictReader::Entries(const YAML::Node& map,
                                              std::string_view where) {
  EntryList entries;
  std::map<std::string, int> lines;
  for (const auto& entry : map) {
    if (!entry.first.IsScalar()) {
      Complain(entry.first,
               fmt::format("a key of {} is {}", where, TypeWord(entry.first)));
      continue;
    }
    const std::string key = entry.first.Scalar();
    const auto [first, is_new] =
        lines.emplace(key, entry.first.Mark().line + 1);
    if (!is_new) {
      Complain(entry.first, fmt::format("key {} is there twice (first in "
                                        "line {})",
                                        Quote(key), first->second));
      continue;
    }
    entries.push_back({key, {entry.first.Mark(), entry.second}});
  }
  return entries;
}

const StrictReader::Entry* StrictReader::FindEntry(const EntryList& entries,
                                                   std::string_view name) {
  for (const auto& [key, entry] : entries) {
    if (key == name) return &entry;
  }
  return nullptr;
}

bool StrictReader::IsMap(const Entry& entry, std::string_view what) {
  if (entry.node.IsMap()) return true;
  Complain(entry.mark,
           fmt::format("{} is {}, not a map", what, TypeWord(entry.node)));
  return false;
}

bool StrictReader::IsList(const Entry& entry, std::string_view what) {
  if (entry.node.IsSequence()) return true;
  Complain(entry.mark,
           fmt::format("{} is {}, not a list", what, TypeWord(entry.node)));
  return false;
}

bool StrictReader::ReadScalar(const Entry& entry, std::string_view key,
                              std::string* text) {
  if (entry.node.IsScalar()) {
    *text = entry.node.Scalar();
    return true;
  }
  if (entry.node.IsNull()) {
    Complain(entry.mark, fmt::format("{} has no value", key));
  } else {
    Complain(entry.mark,
             fmt::format("{} is {}, not a value", key, TypeWord(entry.node)));
  }
  return false;
}

}  // namespace carillon
