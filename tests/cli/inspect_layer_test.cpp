// `vkattn inspect` for a layer: its input and weights in safetensors give the same as its queries and keys.
#include <vkattn/safetensors.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/text.hpp"
#include "tool_run.hpp"

namespace vkattn::tests {
namespace {

using nlohmann::json;

constexpr std::int64_t kRows = 7, kWidth = 12, kHeadDim = 4;

using LayerTensors = std::vector<std::pair<std::string, std::pair<Shape, std::vector<float>>>>;

/// x W^T + b for the weight's rows from `first` on, as (heads, length, head_dim).
std::vector<float> projected(const std::vector<float>& x, const std::vector<float>& weight,
                             const std::vector<float>& bias, std::int64_t first, std::int64_t outputs) {
  std::vector<float> result;
  for (std::int64_t head = 0; head < outputs / kHeadDim; ++head) {
    for (std::int64_t row = 0; row < kRows; ++row) {
      for (std::int64_t dim = 0; dim < kHeadDim; ++dim) {
        const std::int64_t output = first + head * kHeadDim + dim;
        float sum = bias.empty() ? 0 : bias[static_cast<std::size_t>(output)];
        for (std::int64_t i = 0; i < kWidth; ++i) {
          sum += x[static_cast<std::size_t>(row * kWidth + i)] *
                 weight[static_cast<std::size_t>(output * kWidth + i)];
        }
        result.push_back(sum);
      }
    }
  }
  return result;
}

void write_tensors(const std::filesystem::path& path, const LayerTensors& tensors,
                   const std::map<std::string, std::string>& metadata = {}) {
  std::vector<TensorToStore> stored;
  for (const auto& [tensor, content] : tensors) {
    stored.push_back({tensor, StoredType::kFloat32, content.first, std::as_bytes(std::span(content.second))});
  }
  const Result<void> done = write_safetensors(path, stored, metadata);
  ASSERT_TRUE(done.ok()) << done.error().message;
}

class ToolInspectLayer : public RunOnDevice {
 protected:
  static void expect_close_weights(const json& got, const json& expected) {
    ASSERT_EQ(got["heads"].size(), expected["heads"].size());
    for (std::size_t head = 0; head < expected["heads"].size(); ++head) {
      const json& a = got["heads"][head]["scaled"]["weights"];
      const json& b = expected["heads"][head]["scaled"]["weights"];
      ASSERT_EQ(a.size(), b.size());
      for (std::size_t row = 0; row < b.size(); ++row) {
        ASSERT_EQ(a[row].size(), b[row].size());
        for (std::size_t key = 0; key < b[row].size(); ++key) {
          EXPECT_NEAR(a[row][key].get<double>(), b[row][key].get<double>(), 1e-5);
        }
      }
    }
  }
};

TEST_F(ToolInspectLayer, GivesTheWeightsOfItsQueriesAndKeys) {
  const std::vector<float> x = noise({kRows, kWidth}, 1), packed = noise({36, kWidth}, 2);
  const std::vector<float> bias = noise({36}, 3);
  write("query", {3, kRows, kHeadDim}, projected(x, packed, bias, 0, 12));
  write("key", {3, kRows, kHeadDim}, projected(x, packed, bias, 12, 12));
  write_tensors(folder_ / "model.safetensors",
                {{"decoder.in_proj_weight", {{36, kWidth}, packed}}, {"decoder.in_proj_bias", {{36}, bias}}});
  write_tensors(folder_ / "x.safetensors", {{"decoder.input", {{kRows, kWidth}, x}}},
                {{"labels", "a\nb\nc\nd\ne\nf\n "}});
  write("x", {kRows, kWidth}, x);
  const json expected = inspected("--query query.npy --key key.npy --causal");
  const std::string layer = " --weights model.safetensors --layer decoder --heads 3 --causal --check";
  const json named = inspected("--input x.safetensors" + layer);
  expect_close_weights(named, expected);
  EXPECT_EQ(named["query_labels"][5], "f");
  EXPECT_FALSE(named["untrained"].get<bool>());
  const json numbered = inspected("--input x.npy" + layer);
  expect_close_weights(numbered, expected);
  EXPECT_EQ(numbered["key_labels"][5], "5");
}

TEST_F(ToolInspectLayer, TakesWeightsOfFewerKeyHeads) {
  const std::vector<float> x = noise({kRows, kWidth}, 1), query = noise({16, kWidth}, 2),
                           key = noise({8, kWidth}, 3);
  write("query", {4, kRows, kHeadDim}, projected(x, query, {}, 0, 16));
  write("key", {2, kRows, kHeadDim}, projected(x, key, {}, 0, 8));
  write_tensors(folder_ / "model.safetensors",
                {{"q_proj_weight", {{16, kWidth}, query}}, {"k_proj_weight", {{8, kWidth}, key}}});
  write("x", {kRows, kWidth}, x);
  expect_close_weights(inspected("--input x.npy --weights model.safetensors --heads 4"),
                       inspected("--query query.npy --key key.npy"));
}

/// Published models have these names for the same numbers.
TEST_F(ToolInspectLayer, KnowsNamesOfPublishedModels) {
  const std::vector<float> x = noise({kRows, kWidth}, 1), query = noise({12, kWidth}, 2),
                           key = noise({12, kWidth}, 3), query_bias = noise({12}, 4),
                           key_bias = noise({12}, 5);
  write("query", {3, kRows, kHeadDim}, projected(x, query, query_bias, 0, 12));
  write("key", {3, kRows, kHeadDim}, projected(x, key, key_bias, 0, 12));
  const json expected = inspected("--query query.npy --key key.npy");
  write("x", {1, kRows, kWidth}, x);
  for (const auto& [q, k] : {std::pair("self_attn.q_proj", "self_attn.k_proj"), std::pair("q_proj", "k_proj"),
                             std::pair("attention.self.query", "attention.self.key"),
                             std::pair("query", "key"), std::pair("to_q", "to_k"), std::pair("wq", "wk")}) {
    const std::string in_q = std::string("layers.0.") + q, in_k = std::string("layers.0.") + k;
    write_tensors(folder_ / "model.safetensors", {{in_q + ".weight", {{12, kWidth}, query}},
                                                  {in_k + ".weight", {{12, kWidth}, key}},
                                                  {in_q + ".bias", {{12}, query_bias}},
                                                  {in_k + ".bias", {{12}, key_bias}}});
    SCOPED_TRACE(q);
    expect_close_weights(
        inspected("--input x.npy --weights model.safetensors --layer layers.0 --heads 3 --check"), expected);
  }
  std::vector<float> packed = query, bias = query_bias;
  packed.insert(packed.end(), key.begin(), key.end());
  packed.insert(packed.end(), key.begin(), key.end());
  bias.insert(bias.end(), key_bias.begin(), key_bias.end());
  bias.insert(bias.end(), key_bias.begin(), key_bias.end());
  write_tensors(folder_ / "model.safetensors",
                {{"attn.qkv.weight", {{36, kWidth}, packed}}, {"attn.qkv.bias", {{36}, bias}}});
  expect_close_weights(inspected("--input x.npy --weights model.safetensors --heads 3"), expected);
}

TEST_F(ToolInspectLayer, RowsHaveTheLabelsOfAFile) {
  write("x", {kRows, kWidth}, noise({kRows, kWidth}, 1));
  write_tensors(folder_ / "model.safetensors", {{"in_proj_weight", {{36, kWidth}, noise({36, kWidth}, 2)}}});
  write_file(folder_ / "lines.txt", "the\n \nthe\nend of\nit\nall\n.\n");
  write_file(folder_ / "list.json", R"(["the", " ", "the", "end of", "it", "all", "."])");
  const std::string layer = "--input x.npy --weights model.safetensors --heads 3 ";
  for (const std::string labels : {"--labels-file lines.txt", "--labels-file list.json"}) {
    EXPECT_EQ(inspected(layer + labels)["key_labels"], (json{"the", " ", "the", "end of", "it", "all", "."}))
        << labels;
  }
  EXPECT_EQ(inspected(layer + "--labels 'a b c d e f g'")["query_labels"][6], "g");
}

/// W_Q, W_K and W_V are rows of one tensor. If their sizes are ambiguous, options decide.
TEST_F(ToolInspectLayer, TakesPackedWeightsOfFewerKeyHeads) {
  struct Layer {
    std::int64_t heads, kv_heads, value_dim;
    bool has_output;
    const char* options;
  };
  for (const Layer& layer : {Layer{3, 1, 4, true, ""}, Layer{3, 1, 4, false, ""}, Layer{3, 3, 7, true, ""},
                             Layer{4, 2, 4, true, " --kv-heads 2"}, Layer{4, 2, 4, true, " --head-dim 4"},
                             Layer{4, 2, 4, false, " --kv-heads 2 --head-dim 4"}, Layer{6, 2, 6, true, ""}}) {
    SCOPED_TRACE(std::to_string(layer.heads) + " heads" + layer.options);
    const std::int64_t query_rows = layer.heads * kHeadDim, key_rows = layer.kv_heads * kHeadDim;
    const std::int64_t rows = query_rows + key_rows + layer.kv_heads * layer.value_dim;
    const std::vector<float> x = noise({kRows, kWidth}, 1), packed = noise({rows, kWidth}, 2),
                             bias = noise({rows}, 3);
    write("query", {layer.heads, kRows, kHeadDim}, projected(x, packed, bias, 0, query_rows));
    write("key", {layer.kv_heads, kRows, kHeadDim}, projected(x, packed, bias, query_rows, key_rows));
    LayerTensors tensors = {{"in_proj_weight", {{rows, kWidth}, packed}}, {"in_proj_bias", {{rows}, bias}}};
    if (layer.has_output) {
      const Shape shape{kWidth, layer.heads * layer.value_dim};
      tensors.push_back({"out_proj.weight", {shape, noise(shape, 4)}});
    }
    write_tensors(folder_ / "model.safetensors", tensors);
    write("x", {kRows, kWidth}, x);
    expect_close_weights(inspected("--input x.npy --weights model.safetensors --heads " +
                                   std::to_string(layer.heads) + layer.options),
                         inspected("--query query.npy --key key.npy"));
  }
}

/// softmax(q k^T / sqrt(kHeadDim)) v of each head, side by side, times W_O, in float64.
std::vector<double> layer_output(const std::vector<float>& query, const std::vector<float>& key,
                                 const std::vector<float>& value, const std::vector<float>& weight,
                                 const std::vector<float>& bias) {
  const auto rows = static_cast<std::size_t>(kRows), dims = static_cast<std::size_t>(kHeadDim);
  const std::size_t heads = query.size() / rows / dims, group = query.size() / key.size();
  std::vector<double> side_by_side(query.size());
  for (std::size_t head = 0; head < heads; ++head) {
    for (std::size_t i = 0; i < rows; ++i) {
      std::vector<double> weights;
      double sum = 0;
      for (std::size_t j = 0; j < rows; ++j) {
        double score = 0;
        for (std::size_t d = 0; d < dims; ++d)
          score += static_cast<double>(query[(head * rows + i) * dims + d]) *
                   static_cast<double>(key[(head / group * rows + j) * dims + d]);
        weights.push_back(std::exp(score / 2));
        sum += weights.back();
      }
      for (std::size_t j = 0; j < rows; ++j)
        for (std::size_t d = 0; d < dims; ++d)
          side_by_side[(i * heads + head) * dims + d] +=
              weights[j] / sum * static_cast<double>(value[(head / group * rows + j) * dims + d]);
    }
  }
  std::vector<double> output;
  const std::size_t inner = heads * dims;
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t column = 0; column < weight.size() / inner; ++column) {
      output.push_back(bias.empty() ? 0 : static_cast<double>(bias[column]));
      for (std::size_t c = 0; c < inner; ++c)
        output.back() += side_by_side[i * inner + c] * static_cast<double>(weight[column * inner + c]);
    }
  }
  return output;
}

/// Weights in one tensor, and weights in separate tensors with fewer heads of keys.
TEST_F(ToolInspectLayer, WritesItsOutput) {
  const auto expect_output = [&](const std::string& options, const Shape& shape,
                                 const std::vector<double>& expected) {
    const json told = inspected(options + " --output o.npy --check");
    EXPECT_EQ(told["output"]["shape"], shape);
    const Array array = read_npy(file("o"));
    EXPECT_EQ(array.shape, shape);
    ASSERT_EQ(array.values.size(), expected.size());
    for (std::size_t n = 0; n < expected.size(); ++n)
      EXPECT_NEAR(static_cast<double>(array.values[n]), expected[n], 2e-5) << n;
  };
  const std::vector<float> x = noise({kRows, kWidth}, 1), packed = noise({36, kWidth}, 2),
                           bias = noise({36}, 3), out = noise({kWidth, 12}, 4), out_bias = noise({12}, 5);
  write("x", {kRows, kWidth}, x);
  write("batch", {1, kRows, kWidth}, x);
  write_tensors(folder_ / "model.safetensors", {{"a.in_proj_weight", {{36, kWidth}, packed}},
                                                {"a.in_proj_bias", {{36}, bias}},
                                                {"a.out_proj.weight", {{kWidth, 12}, out}},
                                                {"a.out_proj.bias", {{kWidth}, out_bias}}});
  const std::vector<double> expected =
      layer_output(projected(x, packed, bias, 0, 12), projected(x, packed, bias, 12, 12),
                   projected(x, packed, bias, 24, 12), out, out_bias);
  const std::string layer = " --weights model.safetensors --layer a --heads 3";
  expect_output("--input x.npy" + layer, {kRows, kWidth}, expected);
  expect_output("--input batch.npy" + layer, {1, kRows, kWidth}, expected);

  const std::vector<float> query = noise({16, kWidth}, 6), key = noise({8, kWidth}, 7),
                           value = noise({8, kWidth}, 8), wide = noise({5, 16}, 9),
                           value_bias = noise({8}, 10);
  for (const std::string w_o : {"o_proj", "out_proj"}) {
    write_tensors(folder_ / "model.safetensors", {{"self_attn.q_proj.weight", {{16, kWidth}, query}},
                                                  {"self_attn.k_proj.weight", {{8, kWidth}, key}},
                                                  {"self_attn.v_proj.weight", {{8, kWidth}, value}},
                                                  {"self_attn.v_proj.bias", {{8}, value_bias}},
                                                  {"self_attn." + w_o + ".weight", {{5, 16}, wide}}});
    expect_output("--input x.npy --weights model.safetensors --heads 4", {kRows, 5},
                  layer_output(projected(x, query, {}, 0, 16), projected(x, key, {}, 0, 8),
                               projected(x, value, value_bias, 0, 8), wide, {}));
  }
  const std::string text =
      printed("inspect --input x.npy --weights model.safetensors --heads 4 --output o.npy");
  EXPECT_TRUE(has(text, "output    o.npy float32 (7, 5)")) << text;
}

using ToolInspectLayerRefusals = RunFolder;

TEST_F(ToolInspectLayerRefusals, AreOneSentence) {
  write("x", {kRows, kWidth}, noise({kRows, kWidth}, 1));
  write("wide", {kRows, 5}, noise({kRows, 5}, 1));
  write("one", {1, kWidth}, noise({1, kWidth}, 1));
  write("deep", {2, kRows, kWidth}, noise({2, kRows, kWidth}, 1));
  write_tensors(folder_ / "model.safetensors",
                {{"a.in_proj_weight", {{36, kWidth}, noise({36, kWidth}, 2)}},
                 {"a.out_proj.weight", {{kWidth, 12}, noise({kWidth, 12}, 2)}},
                 {"b.in_proj_weight", {{35, kWidth}, noise({35, kWidth}, 2)}},
                 {"c.in_proj_weight", {{36, kWidth}, noise({36, kWidth}, 2)}},
                 {"c.in_proj_bias", {{23}, noise({23}, 2)}},
                 {"d.in_proj_weight", {{36, kWidth}, noise({36, kWidth}, 2)}},
                 {"d.bias_v", {{1, 1, 12}, noise({1, 1, 12}, 2)}},
                 {"e.in_proj_weight", {{32, kWidth}, noise({32, kWidth}, 2)}},
                 {"e.out_proj.weight", {{kWidth, 16}, noise({kWidth, 16}, 2)}},
                 {"f.q_proj_weight", {{16, kWidth}, noise({16, kWidth}, 2)}},
                 {"f.k_proj_weight", {{8, kWidth}, noise({8, kWidth}, 2)}},
                 {"g.q_proj_weight", {{12, kWidth}, noise({12, kWidth}, 2)}},
                 {"g.k_proj_weight", {{12, kWidth}, noise({12, kWidth}, 2)}},
                 {"g.v_proj_weight", {{12, kWidth}, noise({12, kWidth}, 2)}},
                 {"g.out_proj.weight", {{12, 15}, noise({12, 15}, 2)}},
                 {"c.input", {{kRows, kWidth}, noise({kRows, kWidth}, 2)}}},
                {{"labels", "a\nb"}});
  write_tensors(folder_ / "onnx.safetensors", {{"in_proj_weight", {{kWidth, 36}, noise({kWidth, 36}, 2)}}});
  write_tensors(folder_ / "short.safetensors", {{"q_proj.weight", {{12, kWidth}, noise({12, kWidth}, 2)}},
                                                {"k_proj.weight", {{12, kWidth}, noise({12, kWidth}, 2)}},
                                                {"q_proj.bias", {{11}, noise({11}, 2)}}});
  write_file(folder_ / "torn.safetensors", "12345678{");
  write_file(folder_ / "list.json", "[\"a\", 2]");
  const std::string a = " --weights model.safetensors --layer a --heads ";
  expect_refused(
      "inspect ",
      {{"--input x.npy", "--weights is missing"},
       {"--weights model.safetensors", "--input is missing"},
       {"--input x.npy --weights model.safetensors --layer a", "needs --heads"},
       {"--input x.npy" + a + "5",
        "a.in_proj_weight is (36, 12) and out_proj.weight (12, 12), which no heads make with --heads 5"},
       {"--input x.npy" + a + "3 --kv-heads 2", "which no heads make with --heads 3 --kv-heads 2"},
       {"--input x.npy --weights model.safetensors --layer e --heads 4",
        "e.in_proj_weight is (32, 12) and out_proj.weight (12, 16), which leaves open with --heads 4 whether "
        "there are 4 heads of keys of dimension 2 and values of 4, or 2 heads of keys of dimension 4 and "
        "values of 4; give --kv-heads or --head-dim"},
       {"--input x.npy --weights model.safetensors --layer f --heads 5",
        "has 16 rows of queries and 8 of keys, which are no such heads"},
       {"--input x.npy --weights model.safetensors --layer f --heads 4 --kv-heads 4",
        "--heads 4 --kv-heads 4: model.safetensors: f.q_proj_weight has 16 rows"},
       {"--text 'a b' --kv-heads 2", "--kv-heads has no meaning with --text"},
       {"--input x.npy --weights model.safetensors --heads 3",
        "has neither in_proj_weight nor q_proj_weight and k_proj_weight there, nor published models' names "
        "for "
        "them; it has a.in_proj_weight"},
       {"--input x.npy --weights onnx.safetensors --heads 3",
        "in_proj_weight is (12, 36) and x.npy (7, 12); the widths differ: is the weight transposed"},
       {"--input x.npy --weights short.safetensors --heads 3",
        "q_proj.bias is (1, 11), and short.safetensors: q_proj.weight has 12 rows"},
       {"--input x.npy" + a + "3 --labels 'a b'", "--labels has 2 tokens, but x.npy has 7 rows"},
       {"--input x.npy" + a + "3 --labels-file model.safetensors", "but x.npy has 7 rows"},
       {"--input x.npy" + a + "3 --labels-file list.json", "begins with [ but is no JSON list of texts"},
       {"--input x.npy" + a + "3 --labels-file none.txt", "--labels-file none.txt: "},
       {"--input x.npy" + a + "3 --labels-file list.json --labels a", "one of --labels and --labels-file"},
       {"--input x.npy" + a + "3 --colors sqrt", "--colors is for the picture of --plot"},
       {"--input x.npy" + a + "3 --colors red --plot p.png", "--colors is 'red' but must be linear or sqrt"},
       {"--input wide.npy" + a + "3", "is (36, 12) and wide.npy (7, 5); the widths differ"},
       {"--input one.npy" + a + "3", "has 1 row; inspect takes from 2 to 512"},
       {"--input deep.npy" + a + "3", "(2, 7, 12); --input takes (length, width)"},
       {"--input x.npy --weights model.safetensors --layer b --heads 3",
        "is (35, 12), which leaves open with --heads 3 whether there are 1 head of keys of dimension 1 and "
        "values of 31, or "},
       {"--input x.npy --weights model.safetensors --layer c --heads 3", "has 23 elements; Q and K need 24"},
       {"--input x.npy --weights model.safetensors --layer d --heads 3",
        "bias_v is a key or value that nn.MultiheadAttention(add_bias_kv=True) learns"},
       {"--input model.safetensors --weights model.safetensors --layer c --heads 3",
        "has 2 labels for 7 rows"},
       {"--input model.safetensors" + a + "3", "has no a.input"},
       {"--input x.npy --weights torn.safetensors --heads 3", "torn.safetensors"},
       {"--input x.npy --weights model.safetensors --layer f --heads 4 --output o.npy",
        "model.safetensors has no f.v_proj_weight, which --output needs; it has a.in_proj_weight"},
       {"--input x.npy --weights model.safetensors --layer c --heads 3 --output o.npy",
        "has no c.out_proj.weight, which --output needs"},
       {"--input x.npy --weights model.safetensors --layer g --heads 3 --output o.npy",
        "g.out_proj.weight is (12, 15), but 3 heads of values of dimension 4 need 12 columns"},
       {"--input x.npy" + a + "3 --output x.npy", "--output 'x.npy' would overwrite the file of --input"},
       {"--text 'a b' --output o.npy",
        "--output has no meaning with --text; it goes with --input and --weights"},
       {"--input x.npy --text 'a b'", "--text and --input and --weights"},
       {"--text 'a b' --layer a", "--layer has no meaning with --text"}},
      kNoDevice);
}

}  // namespace
}  // namespace vkattn::tests
