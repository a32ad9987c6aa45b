// The part of the DOT language that graphs of basic blocks are written in.
#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <map>
#include <optional>

#include "base/status.h"
#include "base/text.h"
#include "tools/cfg_sim/graph.h"

namespace carillon::cfg_sim {
namespace {

constexpr size_t kMaxNodes = 1 << 20;

struct Token {
  std::string text;
  bool quoted = false;
  int line = 0;
  bool Is(std::string_view what) const { return !quoted && text == what; }
};

// Reads all of the text as a number.
template <class T>
std::optional<T> NumberOf(const std::string& text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || last != end) return std::nullopt;
  return value;
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  absl::StatusOr<Graph> Read() {
    RETURN_IF_ERROR(Advance());
    if (Lower(token_.text) == "strict") RETURN_IF_ERROR(Advance());
    if (Lower(token_.text) != "digraph" || token_.quoted) {
      return Error("a graph begins with 'digraph'");
    }
    RETURN_IF_ERROR(Advance());
    if (IsWord()) {
      graph_.name = token_.text;
      RETURN_IF_ERROR(Advance());
    }
    RETURN_IF_ERROR(Take("{"));
    while (!token_.Is("}")) RETURN_IF_ERROR(ReadStatement());
    RETURN_IF_ERROR(Advance());
    if (!token_.text.empty())
      return Error("one graph is read, and here is more");
    RETURN_IF_ERROR(Complete());
    RETURN_IF_ERROR(Check(graph_));
    FindMeetingPoints(graph_);
    return std::move(graph_);
  }

 private:
  using Attributes = std::map<std::string, std::string>;
  struct Arrow {
    uint32_t from, to;
    std::optional<double> probability;
  };

  static std::string Lower(std::string text) {
    for (char& c : text) c = static_cast<char>(std::tolower(c));
    return text;
  }
  absl::Status Error(std::string_view what) const {
    return ErrorAt(token_.line, what);
  }
  static absl::Status ErrorAt(int line, std::string_view what) {
    return absl::InvalidArgumentError(fmt::format("line {}: {}", line, what));
  }
  std::string Shown() const {
    return token_.text.empty() && !token_.quoted ? "the end of the file"
                                                 : Quote(token_.text);
  }

  void SkipBlanks() {
    while (at_ < text_.size()) {
      const std::string_view rest = text_.substr(at_);
      const bool first = at_ == 0 || text_[at_ - 1] == '\n';
      if (std::isspace(static_cast<unsigned char>(rest[0])) != 0) {
        line_ += rest[0] == '\n' ? 1 : 0;
        ++at_;
      } else if (rest.starts_with("//") || (first && rest[0] == '#')) {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (rest.starts_with("/*")) {
        const size_t end = std::min(rest.find("*/", 2), rest.size() - 2) + 2;
        for (const char c : rest.substr(0, end)) line_ += c == '\n' ? 1 : 0;
        at_ += end;
      } else {
        return;
      }
    }
  }
  // Reads the next token; an empty one at the end.
  absl::Status Advance() {
    SkipBlanks();
    token_ = {.line = line_};
    if (at_ == text_.size()) return absl::OkStatus();
    const auto is_word = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' ||
             c == '.' || static_cast<unsigned char>(c) >= 0x80;
    };
    if (text_[at_] == '"') {
      token_.quoted = true;
      for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
        if (text_[at_] == '\\' && at_ + 1 < text_.size() &&
            text_[at_ + 1] == '"') {
          ++at_;
        }
        line_ += text_[at_] == '\n' ? 1 : 0;
        token_.text += text_[at_];
      }
      if (at_ == text_.size()) return Error("'\"' without its end");
      ++at_;
    } else if (text_.substr(at_).starts_with("->")) {
      token_.text = "->";
      at_ += 2;
    } else if (is_word(text_[at_]) ||
               (text_[at_] == '-' && at_ + 1 < text_.size() &&
                is_word(text_[at_ + 1]))) {
      do {
        token_.text += text_[at_++];
      } while (at_ < text_.size() && is_word(text_[at_]));
    } else {
      token_.text = text_[at_++];
    }
    return absl::OkStatus();
  }
  bool IsWord() const {
    return token_.quoted ||
           (!token_.text.empty() &&
            std::string_view("{}[]=;,->:<+").find(token_.text[0]) ==
                std::string_view::npos) ||
           (token_.text.size() > 1 && token_.text != "->");
  }
  absl::Status Take(std::string_view what) {
    if (!token_.Is(what)) {
      return Error(fmt::format("'{}' is expected, not {}", what, Shown()));
    }
    return Advance();
  }
  absl::StatusOr<std::string> TakeWord() {
    if (!IsWord()) {
      return Error(fmt::format("a name is expected, not {}", Shown()));
    }
    std::string word = token_.text;
    RETURN_IF_ERROR(Advance());
    return word;
  }

  absl::StatusOr<Attributes> ReadAttributes() {
    Attributes attributes;
    while (token_.Is("[")) {
      RETURN_IF_ERROR(Advance());
      while (!token_.Is("]")) {
        ASSIGN_OR_RETURN(const std::string key, TakeWord());
        RETURN_IF_ERROR(Take("="));
        ASSIGN_OR_RETURN(attributes[key], TakeWord());
        if (token_.Is(",") || token_.Is(";")) RETURN_IF_ERROR(Advance());
      }
      RETURN_IF_ERROR(Advance());
    }
    return attributes;
  }

  uint32_t NodeOf(const std::string& name, int line) {
    const auto [entry, is_new] =
        index_.try_emplace(name, static_cast<uint32_t>(graph_.nodes.size()));
    if (is_new) {
      graph_.nodes.push_back({.name = name});
      lines_.push_back(line);
      known_.push_back(false);
    }
    return entry->second;
  }

  absl::Status ReadStatement() {
    if (token_.Is(";")) return Advance();
    const int line = token_.line;
    if (token_.Is("{") || token_.Is("subgraph")) {
      return Error("subgraphs are not read: write the edges out");
    }
    const bool of_all =
        token_.Is("node") || token_.Is("edge") || token_.Is("graph");
    ASSIGN_OR_RETURN(const std::string first, TakeWord());
    if (of_all) return ReadAttributes().status();
    if (token_.Is("=")) {  // of the graph
      RETURN_IF_ERROR(Advance());
      return TakeWord().status();
    }
    std::vector<uint32_t> path = {NodeOf(first, line)};
    while (token_.Is("->")) {
      RETURN_IF_ERROR(Advance());
      const int there = token_.line;
      ASSIGN_OR_RETURN(const std::string next, TakeWord());
      path.push_back(NodeOf(next, there));
    }
    if (graph_.nodes.size() > kMaxNodes) {
      return ErrorAt(line, fmt::format("more than {} nodes", kMaxNodes));
    }
    ASSIGN_OR_RETURN(const Attributes attributes, ReadAttributes());
    if (path.size() == 1) return ReadNode(path[0], attributes, line);
    std::optional<double> probability;
    if (const auto p = attributes.find("p"); p != attributes.end()) {
      probability = NumberOf<double>(p->second);
      if (!probability || !(*probability >= 0 && *probability <= 1)) {
        return ErrorAt(line,
                       fmt::format("p={}: allowed: 0 to 1", Quote(p->second)));
      }
    }
    for (size_t i = 0; i + 1 < path.size(); ++i) {
      arrows_.push_back({path[i], path[i + 1], probability});
    }
    return absl::OkStatus();
  }

  absl::Status ReadNode(uint32_t index, const Attributes& attributes,
                        int line) {
    const auto insns = attributes.find("insns");
    if (insns == attributes.end()) {
      if (known_[index]) return absl::OkStatus();
      return ErrorAt(line, fmt::format("node {} has no insns=COUNT",
                                       Quote(graph_.nodes[index].name)));
    }
    const auto count = NumberOf<uint32_t>(insns->second);
    if (!count) {
      return ErrorAt(line, fmt::format("insns={}: allowed: 0 to {}",
                                       Quote(insns->second), UINT32_MAX));
    }
    graph_.nodes[index].instructions = *count;
    known_[index] = true;
    return absl::OkStatus();
  }

  // Gives each node its edges. Those without a probability share what is left.
  absl::Status Complete() {
    for (size_t i = 0; i < known_.size(); ++i) {
      if (!known_[i]) {
        return ErrorAt(lines_[i],
                       fmt::format("unknown node {}: no line says its "
                                   "insns=COUNT",
                                   Quote(graph_.nodes[i].name)));
      }
    }
    struct Share {
      double said = 0;
      uint32_t silent = 0;
    };
    std::vector<Share> shares(graph_.nodes.size());
    for (const Arrow& arrow : arrows_) {
      Share& share = shares[arrow.from];
      share.said += arrow.probability.value_or(0);
      share.silent += arrow.probability ? 0 : 1;
    }
    for (const Arrow& arrow : arrows_) {
      const Share& share = shares[arrow.from];
      const double probability = arrow.probability.value_or(
          std::max(0.0, 1 - share.said) / std::max(share.silent, 1u));
      graph_.nodes[arrow.from].edges.push_back({arrow.to, probability});
    }
    return absl::OkStatus();
  }

  const std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
  Token token_;
  Graph graph_;
  std::map<std::string, uint32_t> index_;
  std::vector<int> lines_;   // where each node is named first
  std::vector<bool> known_;  // that have their instructions
  std::vector<Arrow> arrows_;
};

}  // namespace

absl::StatusOr<Graph> ReadDot(std::string_view text) {
  return Reader(text).Read();
}

}  // namespace carillon::cfg_sim
