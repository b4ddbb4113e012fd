// `vkattn run` with masks, windows, caches and the other features: what they give, and what is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "npy.hpp"
#include "tool.hpp"
#include "tool_run.hpp"

namespace vkattn::tests {
namespace {

using nlohmann::json;
using npy::ElementType;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Queries (2, 4, 9, 16), keys (2, 2, 13, 16), values (2, 2, 13, 8).
class ToolFeatures : public ToolRun {
 protected:
  /// The output of a checked run.
  [[nodiscard]] std::vector<float> output_of(std::vector<std::string> more) const {
    more.insert(more.end(), {"--output", file("out").string()});
    expect_checked(more);
    return read_npy(file("out")).values;
  }

  void write_floats(const std::string& name, const Shape& shape, const std::vector<float>& values) {
    write_npy(file(name), ElementType::kFloat32, shape, values);
  }

  static void expect_near(const std::vector<float>& a, const std::vector<float>& b, float error = 1e-5F) {
    ASSERT_EQ(a.size(), b.size());
    ASSERT_FALSE(a.empty());
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], error) << i;
  }
  static bool differ(const std::vector<float>& a, const std::vector<float>& b) { return a != b; }

  /// A mask of bool over (query, key).
  void write_bools(const std::string& name, std::int64_t keys,
                   const std::function<bool(std::int64_t, std::int64_t)>& visible) {
    std::vector<std::uint8_t> bytes;
    for (std::int64_t i = 0; i < 9; ++i) {
      for (std::int64_t j = 0; j < keys; ++j) bytes.push_back(visible(i, j) ? 1 : 0);
    }
    write_npy(file(name), ElementType::kBool, {9, keys}, bytes);
  }
};

TEST_F(ToolFeatures, ABoolMaskIsTheCausalOneWhereItSaysSo) {
  write_bools("mask", 13, [](std::int64_t i, std::int64_t j) { return j <= i + 4; });
  expect_near(output_of({"--mask", file("mask").string()}), output_of({"--causal", "--align", "4"}));
  expect_near(output_of({"--window", "-1,0", "--align", "bottom-right"}),
              output_of({"--causal", "--align", "4"}));
  write_bools("mask", 13, [](std::int64_t i, std::int64_t j) { return j >= i - 2 && j <= i + 3; });
  expect_near(output_of({"--mask", file("mask").string()}), output_of({"--window", "2,3"}));
}

TEST_F(ToolFeatures, MasksAndLengthsOfUnsignedIntegers) {
  std::vector<std::uint8_t> bytes;
  for (std::int64_t n = 0; n < 9 * 13; ++n)
    bytes.push_back(n % 13 <= n / 13 + 4 ? static_cast<std::uint8_t>(1 + n % 255) : std::uint8_t{0});
  write_npy(file("mask"), ElementType::kUint8, {9, 13}, bytes);
  expect_near(output_of({"--mask", file("mask").string()}), output_of({"--causal", "--align", "4"}));
  // Short ones hide the rest, as bool ones do.
  write_npy(file("mask"), ElementType::kUint8, {1, 10}, std::vector<std::uint8_t>(10, 2));
  write_npy(file("lengths"), ElementType::kInt32, {2}, std::vector<std::int32_t>{10, 10});
  const std::vector<float> expected = output_of({"--kv-lengths", file("lengths").string()});
  expect_near(output_of({"--mask", file("mask").string()}), expected);
  write_npy(file("lengths"), ElementType::kUint32, {2}, std::vector<std::uint32_t>{10, 10});
  expect_near(output_of({"--kv-lengths", file("lengths").string()}), expected);
  write_npy(file("lengths"), ElementType::kUint64, {2}, std::vector<std::uint64_t>{10, 10});
  expect_near(output_of({"--kv-lengths", file("lengths").string()}), expected);
  write_npy(file("lengths"), ElementType::kUint32, {2}, std::vector<std::uint32_t>{3, 0xffffffffU});
  for (const char* const option : {"--kv-lengths", "--query-lengths"}) {
    expect_refusal(words({option, file("lengths").string()}), 2,
                   "length 4294967295 at index 1 is not from 0 to");
  }
  write_npy(file("lengths"), ElementType::kUint64, {2}, std::vector<std::uint64_t>{~std::uint64_t{0}, 3});
  expect_refusal(words({"--kv-lengths", file("lengths").string()}), 2, "18446744073709551615 at index 0");
  write_npy(file("lengths"), ElementType::kFloat32, {2}, std::vector<float>{3, 3});
  expect_refusal(words({"--kv-lengths", file("lengths").string()}), 2,
                 "float32, but --kv-lengths needs int32");
}

TEST_F(ToolFeatures, FloatMasksAreAddedInEveryType) {
  std::vector<float> bias = noise({9, 13}, 3);
  bias[5] = -kInfinity;
  std::vector<std::uint16_t> half;
  std::vector<double> wide;
  for (float& value : bias) {
    value = half_to_float(float_to_half(value));
    half.push_back(float_to_half(value));
    wide.push_back(static_cast<double>(value));
  }
  write_floats("mask", {9, 13}, bias);
  const std::vector<float> expected = output_of({"--mask", file("mask").string()});
  EXPECT_TRUE(differ(expected, output_of({})));
  write_npy(file("mask"), ElementType::kFloat16, {9, 13}, half);
  expect_near(output_of({"--mask", file("mask").string()}), expected);
  write_npy(file("mask"), ElementType::kFloat64, {9, 13}, wide);
  expect_near(output_of({"--mask", file("mask").string()}), expected);
}

TEST_F(ToolFeatures, MasksBroadcastAsInNumPy) {
  // Each shape gives what the mask that is written out gives.
  for (const Shape& shape : {Shape{}, Shape{13}, Shape{1, 13}, Shape{9, 1}, Shape{4, 1, 13},
                             Shape{2, 1, 9, 1}, Shape{2, 4, 9, 13}, Shape{1, 4, 1, 1}}) {
    const std::vector<float> values = noise(shape, 9);
    write_floats("mask", shape, values);
    Shape padded(4 - shape.size(), 1);
    padded.insert(padded.end(), shape.begin(), shape.end());
    std::vector<float> whole;
    for (std::int64_t n = 0; n < 2 * 4 * 9 * 13; ++n) {
      const std::int64_t index[4] = {n / (4 * 9 * 13), n / (9 * 13) % 4, n / 13 % 9, n % 13};
      std::int64_t at = 0;
      for (std::size_t axis = 0; axis < 4; ++axis) {
        at = at * padded[axis] + (padded[axis] == 1 ? 0 : index[axis]);
      }
      whole.push_back(values[static_cast<std::size_t>(at)]);
    }
    write_floats("whole", {2, 4, 9, 13}, whole);
    expect_near(output_of({"--mask", file("mask").string()}), output_of({"--mask", file("whole").string()}));
  }
}

TEST_F(ToolFeatures, ShortMasksHideTheRest) {
  write_npy(file("lengths"), ElementType::kInt32, {2}, std::vector<std::int32_t>{10, 10});
  const std::vector<float> expected = output_of({"--kv-lengths", file("lengths").string()});
  write_bools("mask", 10, [](std::int64_t, std::int64_t) { return true; });
  expect_near(output_of({"--mask", file("mask").string()}), expected);
  write_npy(file("mask"), ElementType::kFloat16, {4, 9, 10}, std::vector<std::uint16_t>(360, 0));
  expect_near(output_of({"--mask", file("mask").string()}), expected);
  // In Fortran order the missing keys come at the end of the memory.
  write_floats("mask", {9, 10}, std::vector<float>(90, 0.0F));
  std::string content = read_file(file("mask"));
  content.replace(content.find("False"), 5, "True ");
  write_file(file("mask"), content);
  expect_near(output_of({"--mask", file("mask").string()}), expected);
}

TEST_F(ToolFeatures, MasksInFortranOrder) {
  const std::vector<float> values = noise({4, 9, 13}, 8);
  write_floats("mask", {4, 9, 13}, values);
  const std::vector<float> expected = output_of({"--mask", file("mask").string()});
  std::vector<float> turned(values.size());
  for (std::size_t n = 0; n < values.size(); ++n) {
    turned[n / 117 + 4 * (n / 13 % 9) + 36 * (n % 13)] = values[n];
  }
  write_floats("mask", {4, 9, 13}, turned);
  std::string content = read_file(file("mask"));
  content.replace(content.find("False"), 5, "True ");
  write_file(file("mask"), content);
  expect_near(output_of({"--mask", file("mask").string()}), expected);
}

TEST_F(ToolFeatures, SoftcapAlibiAndSinks) {
  const std::vector<float> plain = output_of({});
  expect_near(output_of({"--softcap", "1e6"}), plain);
  EXPECT_TRUE(differ(output_of({"--softcap", "0.5"}), plain));
  // Four heads: 2^-2, 2^-4, 2^-6, 2^-8.
  write_floats("slopes", {4}, {0.25F, 0.0625F, 0.015625F, 0.00390625F});
  expect_near(output_of({"--alibi", "--align", "bottom-right"}),
              output_of({"--alibi-slopes", file("slopes").string(), "--align", "4"}));
  write_floats("slopes", {4}, {0, 0, 0, 0});
  expect_near(output_of({"--alibi-slopes", file("slopes").string()}), plain);
  write_floats("sink", {4}, {-100, -100, -100, -100});
  expect_near(output_of({"--sink", file("sink").string()}), plain);
  write_floats("sink", {4}, {100, 100, 100, 100});
  for (const float value : output_of({"--sink", file("sink").string()})) EXPECT_NEAR(value, 0, 1e-6F);
}

TEST_F(ToolFeatures, QueryLengthsLeaveZeros) {
  write_npy(file("lengths"), ElementType::kInt64, {2}, std::vector<std::int64_t>{9, 3});
  for (const char* const layout : {"bhsd", "bshd"}) {
    const bool bshd = layout == std::string("bshd");
    if (bshd) {
      write("query", {2, 9, 4, 16});
      write("key", {2, 13, 2, 16});
      write("value", {2, 13, 2, 8});
    }
    const std::vector<float> out =
        output_of({"--query-lengths", file("lengths").string(), "--layout", layout, "--lse",
                   file("lse").string(), "--weights", file("weights").string()});
    const std::vector<float> lse = read_npy(file("lse")).values;
    const std::vector<float> weights = read_npy(file("weights")).values;
    for (std::size_t n = 0; n < out.size(); ++n) {
      const std::size_t i = bshd ? n / 32 % 9 : n / 8 % 9;
      EXPECT_EQ(out[n] == 0, n >= out.size() / 2 && i >= 3) << n;
    }
    for (std::size_t n = 0; n < lse.size(); ++n) {
      EXPECT_EQ(lse[n] == -kInfinity, n >= lse.size() / 2 && n % 9 >= 3) << n;
    }
    for (std::size_t n = 0; n < weights.size(); ++n) {
      EXPECT_EQ(weights[n] == 0, n >= weights.size() / 2 && n / 13 % 9 >= 3) << n;
    }
  }
}

TEST_F(ToolFeatures, WeightsOfEveryStage) {
  const auto weights_of = [&](const std::string& stage) {
    expect_checked(
        {"--weights", file("weights").string(), "--weights-stage", stage, "--causal", "--softcap", "0.5"});
    const Array array = read_npy(file("weights"));
    EXPECT_EQ(array.shape, (Shape{2, 4, 9, 13}));
    EXPECT_EQ(array.type, ElementType::kFloat32);
    return array.values;
  };
  const std::vector<float> scores = weights_of("scores");
  const std::vector<float> softcap = weights_of("softcap");
  const std::vector<float> masked = weights_of("masked");
  const std::vector<float> probabilities = weights_of("probabilities");
  for (std::size_t n = 0; n < scores.size(); ++n) {
    ASSERT_NEAR(softcap[n], 0.5F * std::tanh(scores[n] / 0.5F), 1e-5F);
    const bool hidden = n % 13 > n / 13 % 9;
    ASSERT_EQ(masked[n], hidden ? -kInfinity : masked[n]);
    if (!hidden) {
      ASSERT_NEAR(masked[n], softcap[n], 1e-6F);
    }
    ASSERT_EQ(probabilities[n] == 0, hidden);
  }
  for (std::size_t row = 0; row < probabilities.size() / 13; ++row) {
    const auto begin = probabilities.begin() + static_cast<std::ptrdiff_t>(row * 13);
    ASSERT_NEAR(std::accumulate(begin, begin + 13, 0.0F), 1, 1e-5F);
  }
  expect_checked({"--weights", file("weights").string(), "--causal", "--softcap", "0.5"});
  EXPECT_EQ(read_npy(file("weights")).values, probabilities) << "without a stage";
  write("query", {9, 16});
  write("key", {13, 16});
  write("value", {13, 8});
  expect_checked({"--weights", file("weights").string()});
  EXPECT_EQ(read_npy(file("weights")).shape, (Shape{9, 13}));
}

TEST_F(ToolFeatures, DropoutDrawsByItsSeed) {
  const std::vector<float> first = output_of({"--dropout", "0.5", "--seed", "3"});
  EXPECT_EQ(output_of({"--dropout", "0.5", "--seed", "3"}), first);
  EXPECT_TRUE(differ(output_of({"--dropout", "0.5", "--seed", "4"}), first));
  EXPECT_TRUE(differ(output_of({"--dropout", "0.5", "--seed", "18446744073709551615"}), first));
}

TEST_F(ToolFeatures, QuantisesKeysAndValues) {
  write("query", {2, 4, 9, 64});
  write("key", {2, 2, 13, 64});
  write("value", {2, 2, 13, 32});
  const std::vector<float> exact = output_of({});
  expect_near(output_of({"--kv-type", "q8_0"}), exact, 0.02F);
  expect_near(output_of({"--kv-type", "e4m3"}), exact, 0.1F);
  expect_near(output_of({"--kv-type", "q4_0"}), exact, 0.2F);
  expect_near(output_of({"--kv-type", "f16"}), exact, 0.002F);
  // Keys and values apart: neither pair gives what one type for both does.
  const std::vector<float> mixed = output_of({"--kv-type", "q8_0,q4_0"});
  expect_near(mixed, exact, 0.2F);
  const std::vector<float> turned = output_of({"--kv-type", "q4_0,q8_0"});
  EXPECT_TRUE(differ(mixed, turned) && differ(mixed, output_of({"--kv-type", "q8_0"})) &&
              differ(mixed, output_of({"--kv-type", "q4_0"})));
  expect_near(output_of({"--kv-type", "f32,f32"}), exact);
  for (const char* const type : {"q8_0", "q4_0", "e4m3"}) {
    EXPECT_TRUE(differ(output_of({"--kv-type", type}), exact)) << "or nothing was quantised";
  }
  write("query", {2, 9, 4, 64});
  write("key", {2, 13, 2, 64});
  write("value", {2, 13, 2, 32});
  const std::vector<float> bshd = output_of({"--layout", "bshd"});
  expect_near(output_of({"--layout", "bshd", "--kv-type", "e4m3"}), bshd, 0.1F);
}

/// Keys and values cut in two and joined again.
TEST_F(ToolFeatures, JoinsPastAndPresent) {
  for (const bool bshd : {false, true}) {
    const Shape past = bshd ? Shape{2, 5, 2, 16} : Shape{2, 2, 5, 16};
    const Shape now = bshd ? Shape{2, 8, 2, 16} : Shape{2, 2, 8, 16};
    const Shape whole = bshd ? Shape{2, 13, 2, 16} : Shape{2, 2, 13, 16};
    if (bshd) write("query", {2, 9, 4, 16});
    for (const char* const name : {"key", "value"}) {
      const std::vector<float> values = noise(whole, static_cast<std::uint32_t>(name[0]));
      write_floats(std::string("whole_") + name, whole, values);
      std::vector<float> parts[2];
      for (std::size_t n = 0; n < values.size(); ++n) {
        const std::size_t row = bshd ? n / 32 % 13 : n / 16 % 13;
        parts[row < 5 ? 0 : 1].push_back(values[n]);
      }
      write_floats(std::string("past_") + name, past, parts[0]);
      write_floats(name, now, parts[1]);
    }
    const std::vector<std::string> layout = {"--layout", bshd ? "bshd" : "bhsd", "--causal", "--align",
                                             "bottom-right"};
    std::vector<std::string> joined = layout;
    joined.insert(joined.end(),
                  {"--past-key", file("past_key").string(), "--past-value", file("past_value").string(),
                   "--present-key", file("new_key").string(), "--present-value", file("new_value").string()});
    const std::vector<float> out = output_of(joined);
    for (const char* const name : {"key", "value"}) {
      const Array present = read_npy(file(std::string("new_") + name));
      EXPECT_EQ(present.shape, whole);
      EXPECT_EQ(present.values, read_npy(file(std::string("whole_") + name)).values);
      std::filesystem::copy_file(file(std::string("whole_") + name), file(name),
                                 std::filesystem::copy_options::overwrite_existing);
    }
    EXPECT_EQ(output_of(layout), out) << "the same bits on the device";
  }
}

TEST_F(ToolFeatures, PresentKeysAreInTheTypeOfTheRun) {
  const auto halves = [&](const std::string& name, const Shape& shape) {
    std::vector<std::uint16_t> values;
    for (const float value : noise(shape, 4)) values.push_back(float_to_half(value));
    write_npy(file(name), ElementType::kFloat16, shape, values);
  };
  halves("query", {9, 32});
  halves("key", {4, 32});
  halves("value", {4, 32});
  halves("past", {6, 32});
  for (const char* const type : {"f16", "q8_0", "e4m3"}) {
    expect_checked({"--past-key", file("past").string(), "--past-value", file("past").string(), "--kv-type",
                    type, "--present-key", file("present").string()});
    const Array present = read_npy(file("present"));
    EXPECT_EQ(present.type, ElementType::kFloat16);
    std::vector<float> expected = read_npy(file("past")).values;
    const std::vector<float> now = read_npy(file("key")).values;
    expected.insert(expected.end(), now.begin(), now.end());
    EXPECT_EQ(present.values, expected) << "as given, whatever the storage on the device";
  }
}

TEST_F(ToolFeatures, ReportsEveryFileInJson) {
  const ToolResult result = run_tool(words({"--weights", file("weights").string(), "--weights-stage",
                                            "scores", "--window", "3,0", "--check", "--json"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json report = json::parse(result.out);
  EXPECT_EQ(report["weights"]["shape"], json({2, 4, 9, 13}));
  EXPECT_TRUE(report["check"]["passed"].get<bool>());
  EXPECT_NE(report["problem"].get<std::string>().find("window=3,0 weights=scores"), std::string::npos);
}

TEST_F(ToolFeatures, RefusesFilesThatDoNotFit) {
  const auto refuses = [&](const std::vector<std::string>& more, int code, const char* part) {
    expect_refusal(words(more), code, part);
  };
  const std::string mask = file("mask").string();
  for (const Shape& shape : {Shape{9, 14}, Shape{8, 13}, Shape{3, 9, 13}, Shape{2, 2, 9, 13}}) {
    write("mask", shape);
    refuses({"--mask", mask}, 2, "does not broadcast to the scores (2, 4, 9, 13)");
  }
  write("mask", {1, 1, 1, 9, 13});
  refuses({"--mask", mask}, 2, "5 axes");
  write_npy(file("mask"), ElementType::kInt32, {13}, std::vector<std::int32_t>(13));
  refuses({"--mask", mask}, 2, "int32");
  refuses({"--sink", file("nothing").string()}, 2, "no such file");
  write_floats("sink", {2}, {1, 2});
  refuses({"--sink", file("sink").string()}, 2, "shape (4,)");
  refuses({"--alibi-slopes", file("sink").string()}, 2, "--alibi-slopes");
  write_npy(file("sink"), ElementType::kBool, {4}, std::vector<std::uint8_t>(4));
  refuses({"--sink", file("sink").string()}, 2, "bool");
  write_npy(file("lengths"), ElementType::kInt32, {2}, std::vector<std::int32_t>{9, 10});
  refuses({"--query-lengths", file("lengths").string()}, 2, "10 at index 1");
  refuses({"--kv-type", "q8_0"}, 2,
          "has rows of 16, but --kv-type q8_0 stores blocks of 32; pad the last dimension with zeros to 32");
  refuses({"--past-key", file("key").string(), "--past-value", file("query").string()}, 2, "heads: 4 and 2");
  refuses({"--past-key", file("value").string(), "--past-value", file("value").string()}, 2,
          "dimension: 8 and 16");
  write("past", {2, 2, 5, 16});
  refuses({"--past-key", file("past").string(), "--past-value", file("value").string()}, 2,
          "length: 5 and 13");
  write("key", {2, 2, 13, 32});
  write("query", {2, 4, 9, 32});
  write("value", {2, 2, 13, 32});
  std::string content = read_file(file("key"));
  content.replace(content.find("False"), 5, "True ");
  write_file(file("key"), content);
  refuses({"--kv-type", "q8_0"}, 2, "numpy.ascontiguousarray");
  refuses({"--past-key", file("value").string(), "--past-value", file("value").string()}, 2,
          "numpy.ascontiguousarray");
}

TEST(Tool, RefusesFeaturesThatMakeNoSense) {
  const auto refuses = [](std::vector<std::string> more, const char* part) {
    more.insert(more.begin(), {"run", "--query", "q", "--key", "k", "--value", "v"});
    expect_refusal(more, 2, part);
  };
  const auto refuses_each = [&](const char* option, const std::vector<std::string>& values,
                                const char* part) {
    for (const std::string& value : values) refuses({option, value}, part);
  };
  refuses_each("--window", {"5", "5\n"}, "--window needs two counts of keys, left and right, such as 512,0");
  refuses_each("--window", {"5,x", "a,b", "3,4,5", ",", "99999999999999999999,1"},
               "--window needs a whole number");
  refuses_each("--window", {"-2,3", "0,1073741825"}, "must be from -1 to 1073741824");
  refuses_each("--softcap", {"tanh", "5 "}, "--softcap needs a number, not");
  refuses_each("--softcap", {"1e40"}, "--softcap needs a number that fits float32");
  refuses_each("--softcap", {"-1", "inf", "nan"}, "must be finite and not negative");
  refuses_each("--softcap", {"1e31", "1e-31"}, "must be 0 or from 1e-30 to 1e30");
  refuses({"--softcap", "1e31"}, "--softcap '1e31': softcap is 1e+31");
  refuses({"--softcap", "5 "}, "not '5 '");
  refuses_each("--dropout", {"x", ""}, "--dropout ");
  refuses_each("--dropout", {"0.99999999", "1", "-0.5", "nan"}, "must be from 0 to below 1");
  refuses_each("--scale", {"inf", "nan"}, "must be finite");
  refuses({"--alibi", "--alibi-slopes", "f"}, "one of them");
  refuses({"--weights-stage", "scores"}, "--weights writes");
  refuses({"--weights", "w", "--weights-stage", "mask"}, "did you mean 'masked'?");
  refuses({"--seed", "3"}, "--dropout");
  refuses({"--dropout", "0.5", "--seed", "-3"}, "'-3'");
  refuses({"--kv-type", "q8"}, "q8_0, q4_0 or e4m3");
  refuses({"--kv-type", "q8_0,q4"}, "not 'q4'");
  refuses({"--kv-type", "q8_0,q4_0,f16"}, "not 'q4_0,f16'");
  refuses({"--kv-type", "q8_0,"}, "not ''");
  refuses({"--type", "q8_0"}, "f32, f16 or bf16");
  refuses({"--past-key", "p"}, "--past-value is missing");
  refuses({"--present-key", "p"}, "--past-key");
  refuses({"--output", "a", "--weights", "a"}, "--output and --weights name the same file");
  refuses({"--align", "bottom-right"}, "--causal, --window or --alibi");
}

}  // namespace
}  // namespace vkattn::tests
