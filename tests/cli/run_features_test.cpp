// `vkattn run` with masks, windows, caches and the other features: results and refusals.
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "npy.hpp"
#include "support/special_numbers.hpp"
#include "support/text.hpp"
#include "tool_run.hpp"

namespace vkattn::tests {
namespace {

using npy::ElementType;
using Values = std::vector<float>;

/// Queries (2, 4, 9, 16), keys (2, 2, 13, 16), values (2, 2, 13, 8).
class ToolFeatures : public ToolRun {
 protected:
  /// Checks that the mask in mask.npy gives the same as the options.
  void expect_masked(const std::string& options) const {
    expect_near(output_of("--mask mask.npy"), output_of(options));
  }
  /// Writes a mask over (query, key) of the type. It is 0 where a key is hidden.
  void write_visible(std::int64_t keys, const std::function<bool(std::int64_t, std::int64_t)>& visible,
                     ElementType type = ElementType::kBool, int most = 1) const {
    std::vector<std::uint8_t> bytes;
    for (std::int64_t n = 0; n < 9 * keys; ++n)
      bytes.push_back(visible(n / keys, n % keys) ? static_cast<std::uint8_t>(1 + n % most)
                                                  : std::uint8_t{0});
    write_npy(file("mask"), {9, keys}, bytes, type);
  }
};

TEST_F(ToolFeatures, ABoolMaskIsTheCausalOneWhereItSaysSo) {
  const auto causal = [](std::int64_t i, std::int64_t j) { return j <= i + 4; };
  write_visible(13, causal);
  expect_masked("--causal --align 4");
  write_visible(13, causal, ElementType::kUint8, 255);
  expect_masked("--causal --align 4");
  write_visible(13, [](std::int64_t i, std::int64_t j) { return j >= i - 2 && j <= i + 3; });
  expect_masked("--window 2,3");
}

/// An integer counts as true even if only its last byte has a bit set.
template <class Integer>
std::vector<Integer> causal_integers() {
  std::vector<Integer> mask;
  for (int n = 0; n < 9 * 13; ++n)
    mask.push_back(n % 13 <= n / 13 + 4 ? std::numeric_limits<Integer>::min() : Integer{0});
  return mask;
}

TEST_F(ToolFeatures, MasksAndLengthsHaveAnyIntegerType) {
  const Values expected = output_of("--causal --align 4");
  write_npy(file("mask"), {9, 13}, causal_integers<std::int8_t>(), ElementType::kInt8);
  expect_near(output_of("--mask mask.npy"), expected);
  write_npy(file("mask"), {9, 13}, causal_integers<std::int16_t>(), ElementType::kInt16);
  expect_near(output_of("--mask mask.npy"), expected);
  write_npy(file("mask"), {9, 13}, causal_integers<std::int32_t>(), ElementType::kInt32);
  expect_near(output_of("--mask mask.npy"), expected);
  write_npy(file("mask"), {9, 13}, causal_integers<std::int64_t>(), ElementType::kInt64);
  expect_near(output_of("--mask mask.npy"), expected);
  write_list<std::int32_t>("lengths", {10, 7});
  const Values shorter = output_of("--kv-lengths lengths.npy");
  write_npy(file("lengths"), {2}, std::vector<std::int8_t>{10, 7}, ElementType::kInt8);
  EXPECT_EQ(output_of("--kv-lengths lengths.npy"), shorter);
  write_npy(file("lengths"), {2}, std::vector<std::int16_t>{10, 7}, ElementType::kInt16);
  EXPECT_EQ(output_of("--kv-lengths lengths.npy"), shorter);
  write_npy(file("lengths"), {2}, std::vector<std::uint16_t>{10, 7}, ElementType::kUint16);
  EXPECT_EQ(output_of("--kv-lengths lengths.npy"), shorter);
}

TEST_F(ToolFeatures, ShortMasksHideTheRest) {
  write_list<std::int32_t>("lengths", {10, 10});
  const std::string lengths = "--kv-lengths lengths.npy";
  write_visible(10, [](std::int64_t, std::int64_t) { return true; });
  expect_masked(lengths);
  write("mask", {1, 10}, std::vector<std::uint8_t>(10, 2));
  expect_masked(lengths);
  write("mask", {4, 9, 10}, std::vector<std::uint16_t>(360, 0));
  expect_masked(lengths);
  // In Fortran order the missing keys belong at the end of the memory.
  write("mask", {9, 10}, Values(90, 0.0F));
  claim_fortran_order("mask");
  expect_masked(lengths);
}

TEST_F(ToolFeatures, FloatMasksAreAddedInEveryType) {
  Values bias = noise({9, 13}, 3);
  bias[5] = -kInfinity;
  for (float& value : bias) value = half_to_float(float_to_half(value));
  write("mask", {9, 13}, bias);
  const Values expected = output_of("--mask mask.npy");
  EXPECT_NE(expected, output_of(""));
  write("mask", {9, 13}, halves(bias));
  expect_near(output_of("--mask mask.npy"), expected);
  write("mask", {9, 13}, std::vector<double>(bias.begin(), bias.end()));
  expect_near(output_of("--mask mask.npy"), expected);
}

/// In a mask of float64 all keys of a row have a bias that does not fit float32. The row sees all of them.
TEST_F(ToolFeatures, OnlyInfinityHidesInMasksOfFloat64) {
  std::vector<double> bias(9 * 13, -1e300);
  for (std::size_t key = 0; key < 13; ++key) bias[key] = -std::numeric_limits<double>::infinity();
  write("mask", {9, 13}, bias);
  const ToolResult result = run(attend("--mask mask.npy --output out.npy --lse lse.npy --check"));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  const Values lse = values("lse");
  for (std::size_t row = 0; row < lse.size(); ++row) EXPECT_EQ(std::isfinite(lse[row]), row % 9 != 0) << row;
  const Values out = values("out");
  write("mask", {9, 1}, std::vector<double>(9, 0.0));
  write("query", {2, 4, 9, 16}, Values(2 * 4 * 9 * 16, 0.0F));
  const Values mean = output_of("--mask mask.npy");
  for (std::size_t i = 0; i < out.size(); ++i)
    EXPECT_NEAR(out[i], i / 8 % 9 == 0 ? 0.0F : mean[i], 1e-5F) << i;
  write("sink", {4}, std::vector<double>(4, 1e300));
  for (const float value : output_of("--sinks sink.npy")) EXPECT_EQ(value, 0.0F);
}

TEST_F(ToolFeatures, MasksBroadcastAsInNumPy) {
  // Each shape gives the same as the mask that is written out in full.
  for (const Shape& shape : {Shape{}, Shape{13}, Shape{1, 13}, Shape{9, 1}, Shape{4, 9, 13},
                             Shape{2, 1, 9, 1}, Shape{2, 4, 9, 13}, Shape{1, 4, 1, 1}}) {
    const Values values = noise(shape, 9);
    write("mask", shape, values);
    Shape padded(4 - shape.size(), 1);
    padded.insert(padded.end(), shape.begin(), shape.end());
    Values whole;
    for (std::int64_t n = 0; n < 2 * 4 * 9 * 13; ++n) {
      const std::int64_t index[4] = {n / (4 * 9 * 13), n / (9 * 13) % 4, n / 13 % 9, n % 13};
      std::int64_t at = 0;
      for (std::size_t axis = 0; axis < 4; ++axis) {
        at = at * padded[axis] + (padded[axis] == 1 ? 0 : index[axis]);
      }
      whole.push_back(values[static_cast<std::size_t>(at)]);
    }
    write("whole", {2, 4, 9, 13}, whole);
    expect_masked("--mask whole.npy");
    if (shape.size() != 3) continue;
    write("mask", shape, turned(values, shape));
    claim_fortran_order("mask");
    expect_masked("--mask whole.npy");
  }
}

TEST_F(ToolFeatures, SoftcapAlibiAndSinks) {
  const Values plain = output_of("");
  expect_near(output_of("--softcap 1e6"), plain);
  EXPECT_NE(output_of("--softcap 0.5"), plain);
  // The slopes of four heads are 2^-2, 2^-4, 2^-6, 2^-8.
  write_list<float>("slopes", {0.25F, 0.0625F, 0.015625F, 0.00390625F});
  expect_near(output_of("--alibi --align bottom-right"), output_of("--alibi-slopes slopes.npy --align 4"));
  write_list<float>("slopes", {0, 0, 0, 0});
  expect_near(output_of("--alibi-slopes slopes.npy"), plain);
  write_list<float>("sink", {-100, -100, -100, -100});
  expect_near(output_of("--sinks sink.npy"), plain);
  write_list<float>("sink", {100, 100, 100, 100});
  for (const float value : output_of("--sinks sink.npy")) EXPECT_NEAR(value, 0, 1e-6F);
}

TEST_F(ToolFeatures, HeadsOfAMaskInTurnAndSlopesThatMultiplyIt) {
  write_inputs({2, 4, 9, 16}, {2, 1, 13, 16}, {2, 1, 13, 8});
  Values few, whole, scaled;
  const Values slopes = {0.5F, -1, 0, 2};
  for (std::size_t n = 0; n < std::size_t{4} * 9 * 13; ++n) {
    const std::size_t head = n / (9 * 13), in_few = n % (std::size_t{2} * 9 * 13);
    const float number = std::sin(static_cast<float>(in_few));
    if (head < 2) few.push_back(number);
    whole.push_back(number);
    scaled.push_back(slopes[head] * number);
  }
  write("mask", {1, 2, 9, 13}, few);
  write("whole", {4, 9, 13}, whole);
  write("scaled", {4, 9, 13}, scaled);
  write_list<float>("slopes", slopes);
  expect_masked("--mask whole.npy");
  expect_near(output_of("--mask mask.npy --alibi-slopes slopes.npy --alibi-times-mask"),
              output_of("--mask scaled.npy"));
}

TEST_F(ToolFeatures, QueryLengthsLeaveZeros) {
  write_list<std::int64_t>("lengths", {9, 3});
  for (const bool bshd : {false, true}) {
    if (bshd) write_inputs({2, 9, 4, 16}, {2, 13, 2, 16}, {2, 13, 2, 8});
    const Values out = output_of("--query-lengths lengths.npy --lse lse.npy --weights weights.npy --layout " +
                                 std::string(bshd ? "bshd" : "bhsd"));
    /// Checks that the rows beyond the lengths have this value, and no other rows have it. A row has
    /// `row_size` elements.
    const auto expect_behind = [](const Values& values, float behind, std::size_t row_size) {
      for (std::size_t n = 0; n < values.size(); ++n) {
        EXPECT_EQ(values[n] == behind, n >= values.size() / 2 && n / row_size % 9 >= 3) << n;
      }
    };
    expect_behind(out, 0, bshd ? 32 : 8);
    expect_behind(values("lse"), -kInfinity, 1);
    expect_behind(values("weights"), 0, 13);
  }
}

TEST_F(ToolFeatures, WeightsOfEveryStage) {
  const auto weights_of = [&](const std::string& stage) {
    expect_checked("--weights weights.npy --causal --softcap 0.5" + stage);
    const Array array = read_npy(file("weights"));
    EXPECT_EQ(array.shape, (Shape{2, 4, 9, 13}));
    EXPECT_EQ(array.type, ElementType::kFloat32);
    return array.values;
  };
  const Values scores = weights_of(" --weights-stage scores");
  const Values softcap = weights_of(" --weights-stage softcap");
  const Values masked = weights_of(" --weights-stage masked");
  const Values probabilities = weights_of(" --weights-stage probabilities");
  for (std::size_t n = 0; n < scores.size(); ++n) {
    ASSERT_NEAR(softcap[n], 0.5F * std::tanh(scores[n] / 0.5F), 1e-5F);
    const bool hidden = n % 13 > n / 13 % 9;
    if (hidden) {
      ASSERT_EQ(masked[n], -kInfinity);
    } else {
      ASSERT_NEAR(masked[n], softcap[n], 1e-6F);
    }
    ASSERT_EQ(probabilities[n] == 0, hidden);
  }
  for (auto row = probabilities.begin(); row != probabilities.end(); row += 13) {
    ASSERT_NEAR(std::accumulate(row, row + 13, 0.0F), 1, 1e-5F);
  }
  EXPECT_EQ(weights_of(""), probabilities) << "without a stage";
  write_inputs({9, 16}, {13, 16}, {13, 8});
  expect_checked("--weights weights.npy");
  EXPECT_EQ(shape("weights"), (Shape{9, 13}));
}

TEST_F(ToolFeatures, DropoutDrawsByItsSeed) {
  const auto drawn = [&](const char* seed) {
    return output_of("--dropout 0.5 --dropout-seed " + std::string(seed));
  };
  const Values first = drawn("3");
  EXPECT_EQ(drawn("3"), first);
  EXPECT_NE(drawn("4"), first);
  EXPECT_NE(drawn("18446744073709551615"), first);
}

TEST_F(ToolFeatures, AWindowThatCoversAllKeysIsNone) {
  const Values plain = output_of(""), causal = output_of("--causal --align 4");
  EXPECT_EQ(output_of("--window -1"), plain);
  EXPECT_EQ(output_of("--window 2147483647,9223372036854775807"), plain);
  EXPECT_EQ(output_of("--causal --align 4 --window 4294967296,0"), causal);
  expect_near(output_of("--window 2147483646,1073741825"), plain);
}

TEST_F(ToolFeatures, DropoutOfOneLeavesZeros) {
  write_noise("grad", {2, 4, 9, 8});
  const std::string options = "--causal --align 4 --lse lse.npy --weights weights.npy ";
  expect_checked(options);
  const Values lse = values("lse"), weights = values("weights");
  for (const std::string kernel : {"lane", "tile"}) {
    const Values out = output_of(options + "--dropout 1 --kernel " + kernel);
    EXPECT_EQ(out, Values(out.size(), 0.0F)) << kernel;
    expect_near(values("lse"), lse);
    expect_near(values("weights"), weights);
  }
  const std::string gradients =
      printed(attend("--dropout 1 --grad-output grad.npy --grad-query dq.npy --grad-key dk.npy --grad-value "
                     "dv.npy --check --kernel lane"));
  EXPECT_TRUE(has(gradients, "passed: at most")) << gradients;
  for (const char* const name : {"dq", "dk", "dv"}) {
    const Values gradient = values(name);
    EXPECT_EQ(gradient, Values(gradient.size(), 0.0F)) << name;
  }
}

TEST_F(ToolFeatures, QuantisesKeysAndValues) {
  write_inputs({2, 4, 9, 64}, {2, 2, 13, 64}, {2, 2, 13, 32});
  const Values exact = output_of("");
  const auto stored = [&](const std::string& type, float error) {
    const Values values = output_of("--kv-type " + type);
    expect_near(values, exact, error);
    return values;
  };
  expect_near(stored("f32,f32", 1e-5F), exact);
  EXPECT_NE(stored("f16", 0.002F), exact) << "or nothing was rounded";
  EXPECT_NE(stored("e4m3", 0.1F), exact);
  const Values q8_0 = stored("q8_0", 0.02F), q4_0 = stored("q4_0", 0.2F);
  EXPECT_TRUE(q8_0 != exact && q4_0 != exact);
  // Different types for keys and values give other results than one type for both.
  const Values mixed = stored("q8_0,q4_0", 0.2F);
  EXPECT_TRUE(mixed != output_of("--kv-type q4_0,q8_0") && mixed != q8_0 && mixed != q4_0);
  write_inputs({2, 9, 4, 64}, {2, 13, 2, 64}, {2, 13, 2, 32});
  expect_near(output_of("--layout bshd --kv-type e4m3"), output_of("--layout bshd"), 0.1F);
}

/// Keys and values are cut in two and joined again.
TEST_F(ToolFeatures, JoinsPastAndPresent) {
  for (const bool bshd : {false, true}) {
    const auto shape_of = [&](std::int64_t rows) {
      return bshd ? Shape{2, rows, 2, 16} : Shape{2, 2, rows, 16};
    };
    if (bshd) write_noise("query", {2, 9, 4, 16});
    for (const std::string name : {"key", "value"}) {
      const Values values = noise(shape_of(13), static_cast<std::uint32_t>(name[0]));
      Values parts[2];
      for (std::size_t n = 0; n < values.size(); ++n) {
        parts[(bshd ? n / 32 : n / 16) % 13 < 5 ? 0 : 1].push_back(values[n]);
      }
      write("whole_" + name, shape_of(13), values);
      write("past_" + name, shape_of(5), parts[0]);
      write(name, shape_of(8), parts[1]);
    }
    const std::string options =
        std::string("--causal --align bottom-right --layout ") + (bshd ? "bshd" : "bhsd");
    const Values out = output_of(options +
                                 " --past-key past_key.npy --past-value past_value.npy"
                                 " --present-key new_key.npy --present-value new_value.npy");
    for (const std::string name : {"key", "value"}) {
      EXPECT_EQ(shape("new_" + name), shape_of(13));
      EXPECT_EQ(values("new_" + name), values("whole_" + name));
      std::filesystem::rename(file("whole_" + name), file(name));
    }
    EXPECT_EQ(output_of(options), out) << "the same bits on the device";
  }
}

/// Each case prints one warning line on standard error and one in JSON. If the option is given explicitly,
/// there is no warning.
TEST_F(ToolFeatures, WhatMayBeMeantOtherwiseIsTold) {
  write_noise("past_key", {2, 2, 5, 16});
  write_noise("past_value", {2, 2, 5, 8});
  write_visible(13, [](std::int64_t, std::int64_t) { return true; });
  write_noise("bias", {9, 18});
  write_noise("slopes", {4});
  const std::string past = " --check --past-key past_key.npy --past-value past_value.npy ";
  const std::string of_mask =
      "mask.npy has 13 of 18 keys, so the last 5 are hidden; the 5 of --past-key come first";
  const std::string of_align =
      "query 0 lies at key 0 of 18, as without --align it does; where the queries follow "
      "the 5 keys of --past-key, give --align bottom-right";
  struct Case {
    std::string options, warning;
  };
  for (const Case& c : {Case{past + "--mask mask.npy", of_mask},
                        {past + "--causal", of_align},
                        {past + "--window 3,0", of_align},
                        {past + "--causal --align top-left", ""},
                        {past + "--causal --align bottom-right", ""},
                        {past, ""},
                        {past + "--mask bias.npy --alibi-slopes slopes.npy --alibi-times-mask", ""},
                        {"--check --causal --mask mask.npy", ""}}) {
    SCOPED_TRACE(c.options);
    const ToolResult result = run(attend(c.options));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(lines_of(result.err).size(), c.warning.empty() ? 0U : 1U) << result.err;
    EXPECT_TRUE(has(result.err, c.warning));
    const auto json = nlohmann::json::parse(printed(attend(c.options + " --json")));
    EXPECT_EQ(json["warnings"].size(), c.warning.empty() ? 0U : 1U);
  }
  write_visible(12, [](std::int64_t, std::int64_t) { return true; });
  EXPECT_TRUE(
      has(run(attend("--check --mask mask.npy")).err, "has 12 of 13 keys, so the last 1 is hidden\n"));
}

TEST_F(ToolFeatures, ArraysThatLookLikeAnotherLayoutAreTold) {
  const std::string advice =
      "vkattn: warning: key key.npy (1, 4, 9, 16) has 9 heads of 4 keys, as --layout bshd reads it; if it is "
      "(batch, heads, length, dim), leave out --layout\n";
  write_inputs({1, 4, 9, 16}, {1, 4, 9, 16}, {1, 4, 9, 16});
  EXPECT_EQ(run(attend("--check --layout bshd")).err, advice);
  EXPECT_EQ(run("inspect --query query.npy --key key.npy --layout bshd").err, advice);
  EXPECT_EQ(run(attend("--check")).err, "");
  write_inputs({1, 9, 4, 16}, {1, 9, 4, 16}, {1, 9, 4, 16});
  EXPECT_EQ(run(attend("--check --layout bshd")).err, "");
}

/// The scores are 64 x 64 x 64, which exceeds 65504.
TEST_F(ToolFeatures, OverflowOfFloat16ArithmeticIsTold) {
  for (const char* const name : {"query", "key"}) write(name, {8, 64}, halves(Values(8 * 64, 64.0F)));
  write("value", {8, 64}, halves(Values(8 * 64, 1.0F)));
  const std::string options = "--kernel tile --scale 1 --output out.npy";
  EXPECT_EQ(run(attend(options)).err, "");
  const ToolResult result = run(attend(options + " --arithmetic f16"));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(has(result.err, "512 of the output's 512 elements are NaN or infinite"));
  write("query", {8, 64}, halves(Values(8 * 64, 0.5F)));
  EXPECT_EQ(run(attend(options + " --arithmetic f16")).err, "");
}

TEST_F(ToolFeatures, PresentKeysAreInTheTypeOfTheRun) {
  const std::pair<const char*, std::int64_t> arrays[] = {{"query", 9}, {"key", 4}, {"value", 4}, {"past", 6}};
  for (const auto& [name, rows] : arrays) write(name, {rows, 32}, halves(noise({rows, 32}, 4)));
  Values expected = values("past");
  const Values now = values("key");
  expected.insert(expected.end(), now.begin(), now.end());
  for (const std::string type : {"f16", "q8_0", "e4m3"}) {
    expect_checked("--past-key past.npy --past-value past.npy --present-key present.npy --kv-type " + type);
    const Array present = read_npy(file("present"));
    EXPECT_EQ(present.type, ElementType::kFloat16);
    EXPECT_EQ(present.values, expected) << "as given, whatever the storage on the device";
  }
}

}  // namespace
}  // namespace vkattn::tests
