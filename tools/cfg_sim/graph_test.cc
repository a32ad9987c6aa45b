#include "tools/cfg_sim/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace carillon::cfg_sim {
namespace {

using ::testing::HasSubstr;

const Node& NodeOf(const Graph& graph, std::string_view name) {
  for (const Node& node : graph.nodes) {
    if (node.name == name) return node;
  }
  ADD_FAILURE() << name;
  return graph.nodes[0];
}

TEST(ReadDot, ReadsNodesEdgesAndWhatIsLeftOfTheirProbabilities) {
  const auto graph = ReadDot(
      "/* one\n*/ strict digraph g { node [shape=box]; rankdir=LR; // more\n"
      "# as the preprocessor leaves it\n"
      "a [insns=6, label=\"x -> y\"]; \"b c\" [insns=\"2\"][color=red]\n"
      "a -> \"b c\" [p=.25]; a -> d; a -> e [label=f]; e -> d\n"
      "d [insns=0]; e [insns=7]; d; edge [p=3] }");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->name, "g");
  ASSERT_EQ(graph->nodes.size(), 4u);
  EXPECT_EQ(graph->nodes[0].name, "a");
  EXPECT_EQ(graph->nodes[0].instructions, 6u);
  EXPECT_EQ(NodeOf(*graph, "b c").instructions, 2u);
  ASSERT_EQ(graph->nodes[0].edges.size(), 3u);
  EXPECT_EQ(graph->nodes[graph->nodes[0].edges[0].to].name, "b c");
  EXPECT_EQ(graph->nodes[0].edges[0].probability, 0.25);
  EXPECT_EQ(graph->nodes[0].edges[1].probability, 0.375);
  EXPECT_EQ(graph->nodes[0].edges[2].probability, 0.375);
  EXPECT_EQ(NodeOf(*graph, "e").edges[0].probability, 1);
  EXPECT_TRUE(NodeOf(*graph, "d").edges.empty());
}

// An edge that is never taken moves the place where lanes meet (Figure 3.9).
TEST(ReadDot, EdgesThatAreNeverTakenCountForMeeting) {
  const std::string nodes =
      "a [insns=1]; b [insns=1]; c [insns=1]; j [insns=1]; k [insns=1];"
      "a -> b -> j; a -> c -> j; j -> k;";
  const auto with = ReadDot("digraph { " + nodes + " b -> k [p=0]; }");
  ASSERT_TRUE(with.ok()) << with.status();
  EXPECT_EQ(with->nodes[with->nodes[0].meets].name, "k");
  const auto without = ReadDot("digraph { " + nodes + " }");
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_EQ(without->nodes[without->nodes[0].meets].name, "j");
  EXPECT_EQ(NodeOf(*without, "k").meets, kEnd);
}

TEST(ReadDot, SaysWhatIsWrongInWhichLine) {
  const std::string a = "digraph {\na [insns=1];\nb [insns=1];\n";
  for (const auto& [text, complaint] :
       {std::pair<std::string, const char*>{"", "line 1: a graph begins"},
        {"graph { a -- b }", "line 1: a graph begins with 'digraph'"},
        {a + "a -> c }", "line 4: unknown node 'c'"},
        {a + "c }", "line 4: node 'c' has no insns=COUNT"},
        {a + "c [insns=-1] }", "line 4: insns='-1': allowed: 0 to"},
        {a + "c [insns=4294967296] }", "line 4: insns="},
        {a + "a -> b [p=1.5] }", "line 4: p='1.5': allowed: 0 to 1"},
        {a + "a -> b [p=nan] }", "line 4: p='nan'"},
        {a + "a -> b [p=\"\"] }", "line 4: p=''"},
        {a + "a -> b [p=0.3] }",
         "node 'a': the probabilities of its edges add up to 0.3, not to 1"},
        {a + "c [insns=1]; a -> b [p=.7]; a -> c [p=.7] }", "add up to 1.4"},
        {a + "a -> b; b -> a }",
         "node 'a' lies on a cycle that no edge of p>0 leads out of"},
        {a + "a -> b [p=0]; a -> a [p=1] }", "node 'a' lies on a cycle"},
        {"digraph { }", "the graph has no nodes"},
        {a + "subgraph { } }", "line 4: subgraphs are not read"},
        {a + "a -> }", "line 4: a name is expected, not '}'"},
        {a + "a [insns 1] }", "line 4: '=' is expected, not '1'"},
        {a, "line 4: a name is expected, not the end of the file"},
        {a + "\"c }", "'\"' without its end"},
        {a + "} x", "line 4: one graph is read"}}) {
    const auto graph = ReadDot(text);
    EXPECT_EQ(graph.status().code(), absl::StatusCode::kInvalidArgument)
        << text;
    EXPECT_THAT(std::string(graph.status().message()), HasSubstr(complaint));
  }
}

}  // namespace
}  // namespace carillon::cfg_sim
