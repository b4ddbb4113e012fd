// `vkattn inspect` as its users see it: weights and statistics compared with the test's own computation,
// pictures, the sweep and refusals.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "console.hpp"
#include "picture/canvas.hpp"
#include "support/text.hpp"
#include "tool_run.hpp"

namespace vkattn::tests {
namespace {

using nlohmann::json;

/// The scores and weights of one head, computed in a simple way.
struct PlainHead {
  std::vector<std::vector<double>> scores, weights;  ///< one list for each query, without hidden keys
  double deviation = 0, entropy = 0, entropy_share = 0, mean_largest = 0, largest = 0;
};

/// Arrays (heads, length, dim) in this order of axes. A head of keys serves several heads of queries.
struct PlainProblem {
  std::vector<float> query, key;
  std::size_t heads = 1, kv_heads = 1, queries = 0, keys = 0, dim = 0;
  bool causal = false;
};

PlainHead plain_head(const PlainProblem& p, std::size_t head, double scale) {
  PlainHead result;
  double sum = 0, squares = 0, count = 0, most = 0, rows = 0;
  for (std::size_t i = 0; i < p.queries; ++i) {
    std::vector<double> scores, weights;
    for (std::size_t j = 0; j < (p.causal ? std::min(i + 1, p.keys) : p.keys); ++j) {
      double score = 0;
      for (std::size_t d = 0; d < p.dim; ++d) {
        score += static_cast<double>(p.query[(head * p.queries + i) * p.dim + d]) *
                 static_cast<double>(p.key[(head * p.kv_heads / p.heads * p.keys + j) * p.dim + d]);
      }
      scores.push_back(score * scale);
      sum += scores.back();
      squares += scores.back() * scores.back();
      count += 1;
    }
    double total = 0, entropy = 0;
    for (const double score : scores) total += std::exp(score);
    for (const double score : scores) weights.push_back(std::exp(score) / total);
    result.scores.push_back(scores);
    result.weights.push_back(weights);
    if (weights.size() < 2) continue;  // it sees a single key
    rows += 1;
    for (const double weight : weights) entropy -= weight * std::log2(weight);
    result.entropy += entropy;
    most += std::log2(static_cast<double>(weights.size()));
    const double largest = *std::ranges::max_element(weights);
    result.mean_largest += largest;
    result.largest = std::max(result.largest, largest);
  }
  result.entropy_share = result.entropy / most;
  result.entropy /= rows;
  result.mean_largest /= rows;
  result.deviation = std::sqrt(squares / count - sum / count * sum / count);
  return result;
}

/// Checks that a head's JSON has these weights, 0 for hidden keys, and these statistics.
void expect_head(const json& got, const PlainHead& expected, std::size_t keys) {
  ASSERT_EQ(got["weights"].size(), expected.weights.size());
  for (std::size_t i = 0; i < expected.weights.size(); ++i) {
    const json& row = got["weights"][i];
    ASSERT_EQ(row.size(), keys);
    double sum = 0;
    for (std::size_t j = 0; j < keys; ++j) {
      const double weight = row[j].get<double>();
      sum += weight;
      if (j < expected.weights[i].size()) {
        EXPECT_NEAR(weight, expected.weights[i][j], 2e-6);
      } else {
        EXPECT_EQ(weight, 0) << "query " << i << ", key " << j;
      }
    }
    EXPECT_NEAR(sum, 1, 2e-6);
  }
  EXPECT_NEAR(got["score_deviation"].get<double>(), expected.deviation, 1e-5);
  EXPECT_NEAR(got["entropy_bits"].get<double>(), expected.entropy, 1e-5);
  EXPECT_NEAR(got["entropy_share"].get<double>(), expected.entropy_share, 1e-5);
  EXPECT_NEAR(got["mean_largest_weight"].get<double>(), expected.mean_largest, 1e-5);
  EXPECT_NEAR(got["largest_weight"]["weight"].get<double>(), expected.largest, 1e-5);
}

class ToolInspect : public RunOnDevice {
 protected:
  void expect_same_weights(const json& a, const json& b) const {
    ASSERT_EQ(a["heads"].size(), b["heads"].size());
    for (std::size_t i = 0; i < a["heads"].size(); ++i) {
      EXPECT_EQ(a["heads"][i]["scaled"]["weights"], b["heads"][i]["scaled"]["weights"]) << i;
    }
  }
};

TEST_F(ToolInspect, NumbersOfArraysAreThoseOfAPlainComputation) {
  const Shape query = {4, 9, 16}, key = {2, 13, 16};
  write_noise("query", query);
  write_noise("key", key);
  for (const bool causal : {false, true}) {
    const PlainProblem plain{values("query"), values("key"), 4, 2, 9, 13, 16, causal};
    const json report =
        inspected(std::string("--query query.npy --key key.npy --check") + (causal ? " --causal" : ""));
    EXPECT_FALSE(report["untrained"].get<bool>());
    EXPECT_TRUE(report["check"]["passed"].get<bool>());
    EXPECT_EQ(report["check"]["weights"], 2 * 4 * 9 * 13);
    EXPECT_EQ(report["scale"], 0.25);
    ASSERT_EQ(report["heads"].size(), 4U);
    for (std::size_t head = 0; head < 4; ++head) {
      SCOPED_TRACE(head);
      expect_head(report["heads"][head]["scaled"], plain_head(plain, head, 0.25), 13);
      expect_head(report["heads"][head]["unscaled"], plain_head(plain, head, 1), 13);
    }
  }
}

TEST_F(ToolInspect, ArraysOfAnyOrderAndBatchEntryGiveTheSameWeights) {
  const std::vector<float> query = noise({2, 2, 5, 8}, 1), key = noise({2, 2, 5, 8}, 2);
  write("query", {2, 2, 5, 8}, query);
  write("key", {2, 2, 5, 8}, key);
  const json second = inspected("--query query.npy --key key.npy --batch 1");
  const auto half = [](const std::vector<float>& all) {
    return std::vector<float>(all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end());
  };
  write("alone_query", {2, 5, 8}, half(query));
  write("alone_key", {2, 5, 8}, half(key));
  expect_same_weights(second, inspected("--query alone_query.npy --key alone_key.npy"));
  write("fortran_query", {2, 2, 5, 8}, turned(query, {2, 2, 5, 8}));
  write("fortran_key", {2, 2, 5, 8}, turned(key, {2, 2, 5, 8}));
  claim_fortran_order("fortran_query");
  claim_fortran_order("fortran_key");
  expect_same_weights(second, inspected("--query fortran_query.npy --key fortran_key.npy --batch 1"));
  // One head: its axis has size 1 and may be at any position.
  write("bhsd", {1, 1, 5, 8}, noise({5, 8}, 3));
  write("bshd", {1, 5, 1, 8}, noise({5, 8}, 3));
  expect_same_weights(inspected("--query bhsd.npy --key bhsd.npy"),
                      inspected("--query bshd.npy --key bshd.npy --layout bshd"));
}

TEST_F(ToolInspect, TextsAreTokensAndSayThatTheyAreUntrained) {
  const json report = inspected("--text \"" + kSentence + ".\" --check");
  EXPECT_TRUE(report["untrained"].get<bool>());
  EXPECT_TRUE(has(report["note"].get<std::string>(), "carry no meaning"));
  EXPECT_TRUE(report["check"]["passed"].get<bool>());
  const json tokens = {"The",     "animal", "didn't", "cross", "the",   "street",
                       "because", "it",     "was",    "too",   "tired", "."};
  EXPECT_EQ(report["query_labels"], tokens);
  EXPECT_EQ(report["key_labels"], tokens);
  EXPECT_EQ(report["heads"].size(), 4U);
  for (const json& head : report["heads"]) {
    EXPECT_NEAR(head["scaled"]["score_deviation"].get<double>(), 1, 0.35);
    EXPECT_NEAR(head["unscaled"]["score_deviation"].get<double>(), 8, 3);
  }
  const std::string text = printed("inspect --text \"" + kSentence + "\"");
  EXPECT_TRUE(has(text, "carry no meaning"));
  EXPECT_TRUE(has(text, "1/sqrt(64) = 0.125"));
  for (const std::string& line : lines_of(text)) EXPECT_LE(console::display_width(line), 104U) << line;
}

/// A row that sees one key has no link. If a word occurs twice, the link tells which one.
TEST_F(ToolInspect, LinksAreOfRowsWithAChoiceAndSayWhichWord) {
  const std::string text = "inspect --text 'a rose is a rose' --heads 1 --head-dim 8 ";
  const json head =
      inspected("--text 'a rose is a rose' --heads 1 --head-dim 8 --causal")["heads"][0]["scaled"];
  const json& link = head["largest_weight"];
  EXPECT_GT(link["query"], 0);
  EXPECT_LT(link["weight"], 1);
  const std::vector<std::string> names = {"a[0]", "rose[1]", "is", "a[3]", "rose[4]"};
  const std::string causal = printed(text + "--causal");
  EXPECT_TRUE(has(causal, names.at(link["query"].get<std::size_t>()) + " -> " +
                              names.at(link["key"].get<std::size_t>()) + " 0."))
      << causal;
  EXPECT_TRUE(has(printed(text + "--window 0,0"), "none: each query sees one key"));
}

TEST_F(ToolInspect, TheSeedDecidesAndAWordIsTheSameEverywhere) {
  const json first = inspected("--text 'a rose is a rose' --heads 2 --head-dim 8");
  EXPECT_EQ(first["heads"].size(), 2U);
  expect_same_weights(first, inspected("--text 'a rose is a rose' --heads 2 --head-dim 8 --seed 1"));
  const json other = inspected("--text 'a rose is a rose' --heads 2 --head-dim 8 --seed 2");
  EXPECT_NE(first["heads"][0]["scaled"]["weights"], other["heads"][0]["scaled"]["weights"]);
  EXPECT_NE(first["heads"][0]["scaled"]["weights"], first["heads"][1]["scaled"]["weights"]);
  const json& weights = first["heads"][1]["scaled"]["weights"];
  EXPECT_EQ(weights[0], weights[3]);
  EXPECT_EQ(weights[1], weights[4]);
  EXPECT_EQ(weights[2][0], weights[2][3]);
}

TEST_F(ToolInspect, WordOptionsChangeTheWeights) {
  const std::string text = "--text 'one two three four' --heads 1 --head-dim 4";
  const json plain = inspected(text)["heads"][0]["scaled"]["weights"];
  const json window = inspected(text + " --window 1,0")["heads"][0]["scaled"]["weights"];
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t j = 0; j < 4; ++j) EXPECT_EQ(window[i][j] > 0, j == i || j + 1 == i) << i << " " << j;
  }
  for (const char* const option : {"--scale 0.1", "--softcap 0.5", "--alibi"}) {
    EXPECT_NE(inspected(text + " " + option + " --check")["heads"][0]["scaled"]["weights"], plain) << option;
  }
  EXPECT_EQ(inspected(text + " --scale 0")["heads"][0]["scaled"]["weights"][0],
            (json{0.25, 0.25, 0.25, 0.25}));
  // A row that sees nothing has no entropy. A row that sees one key has no choice.
  const json shifted = inspected(text + " --causal --align -1");
  EXPECT_EQ(shifted["heads"][0]["scaled"]["weights"][0], (json{0.0, 0.0, 0.0, 0.0}));
  EXPECT_EQ(shifted["heads"][0]["scaled"]["weights"][1], (json{1.0, 0.0, 0.0, 0.0}));
}

/// The steps of a problem, and two of them computed by hand.
struct StepsCase {
  std::string options;
  std::vector<float> query, key, value;
  std::size_t rows, dim, value_dim;
  json scores,
      masked;  ///< null in place of a step: it changes nothing; null in place of a number: the key is hidden
};

/// The matrices of a report as one list.
std::vector<float> flat(const json& rows) {
  std::vector<float> values;
  for (const json& row : rows) {
    for (const json& number : row) values.push_back(number.get<float>());
  }
  return values;
}

/// The worked examples of docs/attention.md. --steps and `vkattn run` give the same bits.
TEST_F(ToolInspect, StepsAreThoseOfARun) {
  const std::vector<float> two = {1, 0, 1, 0, 0, 1, 0, 1};
  const std::vector<float> query = {1, 0, 2, 2, 2, 2, 2, 1, 3}, key = {0, 1, 1, 4, 4, 0, 2, 3, 1},
                           value = {1, 2, 3, 2, 8, 0, 2, 6, 3};
  const json scores = {{2.0, 4.0, 4.0}, {4.0, 16.0, 12.0}, {4.0, 12.0, 10.0}};
  const json causal = {{2.0, nullptr, nullptr}, {4.0, 16.0, nullptr}, {4.0, 12.0, 10.0}};
  for (const StepsCase& each :
       {StepsCase{"", two, two, {2, 3, 5, 7}, 2, 4, 2, {{2.0, 0.0}, {0.0, 2.0}}, nullptr},
        StepsCase{"--scale 1", query, key, value, 3, 3, 3, scores, nullptr},
        StepsCase{"--scale 1 --causal", query, key, value, 3, 3, 3, scores, causal}}) {
    SCOPED_TRACE(each.options);
    const auto shape = [&](std::size_t columns) {
      return Shape{static_cast<std::int64_t>(each.rows), static_cast<std::int64_t>(columns)};
    };
    write("query", shape(each.dim), each.query);
    write("key", shape(each.dim), each.key);
    write("value", shape(each.value_dim), each.value);
    EXPECT_TRUE(has(printed(attend("--output o.npy --weights w.npy --check " + each.options)), "passed"));
    const json steps = inspected("--query query.npy --key key.npy --value value.npy --steps --check " +
                                 each.options)["heads"][0]["steps"];
    EXPECT_EQ(steps["scores"], each.scores);
    EXPECT_EQ(steps.value("masked", json()), each.masked);
    EXPECT_EQ(flat(steps["weights"]), values("w"));
    EXPECT_EQ(flat(steps["output"]), values("o"));
    const float scale = each.options.empty() ? 0.5F : 1.0F;
    for (std::size_t i = 0; i < each.rows * each.rows; ++i) {
      EXPECT_EQ(flat(steps.value("scaled", each.scores))[i], flat(each.scores)[i] * scale);
      if (!each.masked.is_null() && i % each.rows > i / each.rows) {
        EXPECT_EQ(flat(steps["weights"])[i], 0);
      }
    }
  }
}

/// Heads of keys that serve several heads of queries, any order of axes, and a batch entry.
TEST_F(ToolInspect, StepsOfSeveralHeadsHaveTheOutputOfARun) {
  for (const std::string layout : {"bhsd", "bshd"}) {
    const bool by_head = layout == "bhsd";
    write_noise("query", by_head ? Shape{2, 4, 5, 8} : Shape{2, 5, 4, 8});
    write_noise("key", by_head ? Shape{2, 2, 6, 8} : Shape{2, 6, 2, 8});
    write_noise("value", by_head ? Shape{2, 2, 6, 3} : Shape{2, 6, 2, 3});
    (void)printed(attend("--output o.npy --layout " + layout));
    const std::vector<float> output = values("o");
    const std::string options =
        "--query query.npy --key key.npy --value value.npy --batch 1 --steps --layout " + layout;
    const json report = inspected(options);
    for (std::size_t head = 0; head < 4; ++head) {
      const std::vector<float> of_head = flat(report["heads"][head]["steps"]["output"]);
      ASSERT_EQ(of_head.size(), 15U);
      for (std::size_t i = 0; i < 15; ++i) {
        const std::size_t row = by_head ? head * 5 + i / 3 : i / 3 * 4 + head;
        EXPECT_EQ(of_head[i], output[60 + row * 3 + i % 3]) << layout << " " << head << " " << i;
      }
    }
    EXPECT_TRUE(has(printed("inspect " + options), "head 3, output: weights times values"));
  }
}

TEST_F(ToolInspect, PrintedWeightsHaveTheLabelsOfTheirRowsAndColumns) {
  write("rows", {2, 4}, std::vector<float>{1, 0, 1, 0, 0, 1, 0, 1});
  const std::string text = printed("inspect --query rows.npy --key rows.npy --labels 'cat sat' --print");
  EXPECT_TRUE(has(text,
                  "weights: softmax of each row\n"
                  "          cat     sat\n"
                  "  cat  0.7311  0.2689\n"
                  "  sat  0.2689  0.7311\n"))
      << text;
  EXPECT_FALSE(has(text, "entropy"));
  const std::string causal =
      printed("inspect --query rows.npy --key rows.npy --labels 'cat sat' --causal --steps");
  EXPECT_TRUE(has(causal,
                  "masked: what softmax takes; - is a hidden key\n"
                  "          cat     sat\n"
                  "  cat  1.0000       -\n"
                  "  sat       0  1.0000\n"))
      << causal;
}

/// heat_map_test.cpp tests their sizes. If there are more heads than fit, some are shown.
TEST_F(ToolInspect, PicturesAreOfTheTypeOfTheirFile) {
  if (!picture::check_support().ok()) GTEST_SKIP() << picture::check_support().error().message;
  write_noise("query", {20, 40, 8});
  write_noise("key", {20, 70, 8});
  for (const std::string problem :
       {"--text 'a rose is a rose' --heads 16 --causal", "--query query.npy --key key.npy"}) {
    for (const std::string name : {"heads.png", "heads.svg"}) {
      const std::string colors = name == "heads.png" ? "" : " --colors sqrt --colors-per-head";
      EXPECT_EQ(inspected(problem + colors + " --plot " + name)["heads"].size(),
                problem[2] == 't' ? 16U : 20U);
      const std::string picture = read_file(folder_ / name);
      EXPECT_TRUE(picture.starts_with(name == "heads.png" ? "\x89PNG\r\n\x1a\n" : "<?xml"));
      EXPECT_GT(picture.size(), 10000U) << name;
    }
  }
}

/// No font has a glyph for the private character U+10FFFD. An SVG names no font that must have one.
TEST_F(ToolInspect, GlyphsThatTheFontOfAPictureLacksAreSaidOnce) {
  if (!picture::check_support().ok()) GTEST_SKIP() << picture::check_support().error().message;
  const std::string odd = "\xf4\x8f\xbf\xbd";
  const std::string command = "inspect --text 'cat " + odd + " \xc3\xa9t\xc3\xa9 " + odd + "' --plot heads.";
  const ToolResult png = run(command + "png");
  EXPECT_EQ(png.exit_code, 0) << png.err;
  EXPECT_EQ(png.err, "vkattn: warning: the picture's font has no glyph for '" + odd +
                         "', and shows boxes; --plot FILE.svg is drawn with its viewer's fonts\n");
  EXPECT_EQ(run(command + "svg").err, "");
  EXPECT_EQ(run("inspect --text '\xc3\xa9t\xc3\xa9 d\xe2\x80\x99hiver' --plot heads.png").err, "");
}

TEST_F(ToolInspect, TheSweepShowsWhatTheScaleIsFor) {
  const json dims = inspected("--sweep-dim 256,16,64 --check")["dims"];
  ASSERT_EQ(dims.size(), 3U);
  const auto number = [](const json& side, const char* name) { return side[name].get<double>(); };
  for (std::size_t i = 0; i < 3; ++i) {
    const json& scaled = dims[i]["scaled"];
    const json& unscaled = dims[i]["unscaled"];
    const double root = std::sqrt(dims[i]["head_dim"].get<double>());
    EXPECT_EQ(root, 4 << i);
    EXPECT_NEAR(number(unscaled, "score_deviation") / root, 1, 0.05);
    EXPECT_NEAR(number(scaled, "score_deviation"), number(unscaled, "score_deviation") / root, 1e-4);
    EXPECT_GT(number(scaled, "entropy_share"), 0.8);
    EXPECT_LT(number(scaled, "mean_largest_weight"), 0.2);
    EXPECT_GT(number(scaled, "median_jacobian_norm"), 0.1);
    if (i == 0) continue;
    const json& before = dims[i - 1]["unscaled"];
    EXPECT_GT(number(unscaled, "score_deviation"), number(before, "score_deviation"));
    EXPECT_LT(number(unscaled, "entropy_share"), number(before, "entropy_share"));
    EXPECT_GT(number(unscaled, "mean_largest_weight"), number(before, "mean_largest_weight"));
    EXPECT_LT(number(unscaled, "median_jacobian_norm"), number(before, "median_jacobian_norm"));
  }
  EXPECT_GT(number(dims[2]["unscaled"], "mean_largest_weight"), 0.9);
  EXPECT_LT(number(dims[2]["unscaled"], "median_jacobian_norm"),
            0.1 * number(dims[2]["scaled"], "median_jacobian_norm"));
  if (!picture::check_support().ok()) return;
  EXPECT_TRUE(has(printed("inspect --sweep-dim 4,8 --plot sweep.png"), "sqrt(dim)"));
  EXPECT_TRUE(read_file(folder_ / "sweep.png").starts_with("\x89PNG\r\n\x1a\n"));
}

TEST_F(ToolInspect, TheMemoryOfAScoreMatrixIsSetAgainstThePlans) {
  const json memory = inspected("--memory 4096 --heads 8 --head-dim 128");
  EXPECT_EQ(memory["score_matrix_bytes_per_head"], 64U << 20U);
  EXPECT_EQ(memory["score_matrix_bytes"], 512U << 20U);
  EXPECT_EQ(memory["tensor_bytes"], 4U * 4096 * 128 * 8 * 4);
  EXPECT_EQ(memory["lse_bytes"], 4096U * 8 * 4);
  EXPECT_LT(memory["workspace_bytes"].get<std::uint64_t>(), 64U << 20U);
  EXPECT_TRUE(has(printed("inspect --memory 4096"), "64 MiB"));
  const json list = inspected("--memory 4096,512 --heads 8 --head-dim 128")["lengths"];
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0]["score_matrix_bytes"], 8U << 20U);
  for (const char* const name : {"length", "tensor_bytes", "score_matrix_bytes", "workspace_bytes"})
    EXPECT_EQ(list[1][name], memory[name]) << name;
  // This is pure arithmetic. It works even if a driver ends long loops early and has no kernel for so many
  // keys.
  const json longest = inspected("--memory 16777216 --heads 1024");
  EXPECT_EQ(longest["score_matrix_bytes"], 1ULL << 60U);
  EXPECT_EQ(longest["lse_bytes"], 1ULL << 36U);
  const std::string text = printed("inspect --memory 16777216 --heads 1024");
  EXPECT_EQ(has(text, "This device cannot compute it: "), longest.contains("refusal")) << text;
}

class ToolInspectRefusals : public RunFolder {};

TEST_F(ToolInspectRefusals, AreOneSentenceWithTheNumbers) {
  write_noise("query", {2, 3, 8});
  write_noise("key", {2, 3, 7});
  write_noise("three", {3, 3, 8});
  write_noise("flat", {2, 3, 8});
  write_noise("one", {2, 1, 8});
  write_noise("large", {1, 2049, 2});
  write("nan", {2, 2}, std::vector<float>{1, 2, std::nanf(""), 4});
  std::string many;
  for (int i = 0; i < 513; ++i) many += "w ";
  const std::string plot = picture::check_support().ok() ? "/nonexistent/x.png" : "libcairo2-dev";
  const std::vector<Refusal> refusals = {
      {"", "needs --query and --key, --input and --weights, --text, --sweep-dim or --memory"},
      {"--text ''", "--text is given an empty value"},
      {"--text ' '", "--text has 0 tokens; inspect takes from 2 to 512"},
      {"--text one", "--text has 1 token; inspect takes from 2 to 512"},
      {"--text '" + many + "'", "--text has 513 tokens"},
      {"--text \"$(printf 'a b\\377')\"", "no UTF-8"},
      {"--text 'a b' --heads 17", "--heads 17 is not from 1 to 16"},
      {"--text 'a b' --head-dim 577", "--head-dim 577 is not from 1 to 576"},
      {"--text 'a b' --seed -1", "--seed -1"},
      {"--text 'a b' --sweep-dim 4", "--text and --sweep-dim"},
      {"--text 'a b' --labels 'a b'", "--labels has no meaning with --text"},
      {"--text 'a b' --align bottom-right", "--align says where"},
      {"--text 'a b' --scale x", "'x'"},
      {"--text 'a b' --plot x.jpg", ".png and .svg"},
      {"--text 'a b' --plot /nonexistent/x.png", plot},
      {"--query query.npy", "--key is missing"},
      {"--query query.npy --key key.npy",
       "(2, 3, 8) and key key.npy (2, 3, 7) differ in head dimension: 8 and 7"},
      {"--query query.npy --key three.npy", "no multiple of the 3 of key three.npy (3, 3, 8)"},
      {"--query query.npy --key one.npy", "has 1 key; weights of fewer than 2"},
      {"--query nan.npy --key nan.npy", "NaN"},
      {"--query query.npy --key flat.npy --batch 1", "has 1 batch entry"},
      {"--query query.npy --key flat.npy --labels 'a b'",
       "--labels has 2 tokens, but query query.npy (2, 3, 8) has 3"},
      {"--query query.npy --key flat.npy --layout bhs", "bhs"},
      {"--query query.npy --key flat.npy --plot query.npy", "would overwrite the file of --query"},
      {"--query large.npy --key large.npy", "more than the 4194304 weights"},
      {"--query large.npy --key large.npy --heads 2", "--heads has no meaning with --query and --key"},
      {"--query query.npy --key flat.npy --value flat.npy", "--value is for the output that --steps shows"},
      {"--query query.npy --key flat.npy --value one.npy --steps", "differ in length: 3 and 1"},
      {"--query large.npy --key three.npy --steps", "differ in head dimension: 2 and 8"},
      {"--text 'a b c d e f g h i j k l m' --print",
       "--print prints up to 12 queries, keys and numbers of a value, and these are 13, 13 and 0"},
      {"--text 'a b' --value flat.npy --steps", "--value has no meaning with --text"},
      {"--memory 4096 --steps", "--steps has no meaning with --memory"},
      {"--memory 4,8,4", "--memory names 4 twice"},
      {"--sweep-dim 4,,8", "before and after each comma"},
      {"--sweep-dim 4,8,4", "names 4 twice"},
      {"--sweep-dim 4,577", "577 is not from 1 to 576"},
      {"--sweep-dim 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", "up to 16 numbers, and these are 17"},
      {"--sweep-dim 4 --causal", "--causal has no meaning with --sweep-dim"},
      {"--sweep-dim 4 --plot x.png", "at least 2 dimensions"},
      {"--memory 0", "--memory 0 is not from 1 to 16777216"},
      {"--memory 4096 --plot x.png", "--plot has no meaning with --memory"},
      {"--memory 4096 --check", "--check has no meaning with --memory"}};
  const std::size_t files = folder_.file_count();
  expect_refused("inspect ", refusals, kNoDevice);
  EXPECT_EQ(folder_.file_count(), files);
  refuses("inspect --text 'a b'", "Vulkan", 3, kNoDevice);
}

TEST_F(ToolInspect, LeavesNoFileWhereItCannotPrint) {
  if (!picture::check_support().ok() || !std::filesystem::exists("/dev/full")) {
    GTEST_SKIP() << "needs cairo and /dev/full";
  }
  const std::size_t files = folder_.file_count();
  const ToolResult result = run("inspect --text 'a b' --plot x.png", "", "> /dev/full");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(has(result.err, "standard output cannot be written"));
  EXPECT_EQ(folder_.file_count(), files);
}

}  // namespace
}  // namespace vkattn::tests
