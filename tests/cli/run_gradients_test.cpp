// `vkattn run --grad-*`: gradients compared with the reference and with numbers computed by hand, and
// refusals.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "npy.hpp"
#include "tool_run.hpp"

namespace vkattn::tests {
namespace {

/// Queries (2, 4, 9, 16), keys (2, 2, 13, 16), values (2, 2, 13, 8).
class ToolGradients : public ToolRun {
 protected:
  void SetUp() override {
    ToolRun::SetUp();
    if (!IsSkipped()) write_noise("grad", {2, 4, 9, 8});
  }
};

constexpr const char* kAll =
    "--grad-output grad.npy --grad-query dq.npy --grad-key dk.npy --grad-value dv.npy ";

TEST_F(ToolGradients, OfEverythingThatIsAskedFor) {
  write_noise("sinks", {4});
  write_noise("slopes", {4});
  const std::string out =
      printed(attend(kAll + std::string("--grad-sinks ds.npy --grad-alibi-slopes da.npy --sinks sinks.npy "
                                        "--alibi-slopes slopes.npy --causal --align bottom-right --check")));
  EXPECT_NE(out.find("passed: at most"), std::string::npos) << out;
  EXPECT_EQ(shape("dq"), (Shape{2, 4, 9, 16}));
  EXPECT_EQ(shape("dk"), (Shape{2, 2, 13, 16}));
  EXPECT_EQ(shape("dv"), (Shape{2, 2, 13, 8}));
  EXPECT_EQ(shape("ds"), (Shape{4}));
  EXPECT_EQ(shape("da"), (Shape{4}));
}

TEST_F(ToolGradients, OfAMaskOfFewerHeadsAndOfItsSlopes) {
  write_inputs({2, 4, 9, 16}, {2, 1, 13, 16}, {2, 1, 13, 8});
  write_noise("mask", {1, 2, 9, 13});
  write_noise("slopes", {4});
  const std::string out =
      printed(attend(kAll + std::string("--mask mask.npy --grad-mask dm.npy --alibi-slopes slopes.npy "
                                        "--alibi-times-mask --grad-alibi-slopes da.npy --check")));
  EXPECT_NE(out.find("passed: at most"), std::string::npos) << out;
  EXPECT_EQ(shape("dm"), (Shape{1, 2, 9, 13}));
  EXPECT_EQ(shape("da"), (Shape{4}));
}

/// The gradient of a sink's loss of the lse alone: each row has p of the sink, and its keys the rest.
TEST_F(ToolGradients, OfALossOfTheLse) {
  write_noise("sinks", {4});
  write_noise("grad_lse", {2, 4, 9});
  const std::string out = printed(attend(
      kAll +
      std::string("--grad-lse grad_lse.npy --sinks sinks.npy --grad-sinks ds.npy --lse l.npy --check")));
  EXPECT_NE(out.find("passed: at most"), std::string::npos) << out;
  write("grad", {2, 4, 9, 8}, std::vector<float>(576, 0));
  (void)printed(
      attend("--grad-output grad.npy --grad-lse grad_lse.npy --sinks sinks.npy --grad-sinks ds.npy"));
  const std::vector<float> lse = values("l"), given = values("grad_lse"), sinks = values("sinks"),
                           made = values("ds");
  std::vector<double> expected(4);
  for (std::size_t row = 0; row < lse.size(); ++row) {
    const std::size_t head = row / 9 % 4;
    expected[head] += static_cast<double>(given[row]) * std::exp(static_cast<double>(sinks[head] - lse[row]));
  }
  for (std::size_t head = 0; head < 4; ++head) EXPECT_NEAR(made[head], expected[head], 1e-4);
}

/// Each row of weights sums to 1. So the gradients of all values of a head sum to those of its outputs.
TEST_F(ToolGradients, OfValuesSumToThoseOfOutputs) {
  claim_fortran_order("value");  // this changes the numbers; the gradient's file still has C order
  (void)printed(attend("--grad-output grad.npy --grad-value dv.npy"));
  EXPECT_FALSE(std::filesystem::exists(file("dq")));
  const std::vector<float> given = values("grad"), made = values("dv");
  EXPECT_NEAR(std::accumulate(given.begin(), given.end(), 0.0),
              std::accumulate(made.begin(), made.end(), 0.0), 1e-4);
}

TEST_F(ToolGradients, HaveTheKernelThatIsNamed) {
  const auto kernels = [&](const std::string& options) {
    const auto json = nlohmann::json::parse(printed(attend(kAll + options + " --json")));
    return json["kernel"].get<std::string>() + " " + json["gradients"]["kernel"].get<std::string>();
  };
  EXPECT_EQ(kernels("--kernel tile"), "tile tile");
  EXPECT_EQ(kernels("--kernel lane"), "lane lane");
  EXPECT_EQ(kernels("--kernel lane --backward-kernel tile"), "lane tile");
  write_noise("query", {2, 4, 1, 16});
  write_noise("grad", {2, 4, 1, 8});
  EXPECT_EQ(kernels("--kernel decode --backward-kernel lane"), "decode lane");
}

TEST_F(ToolGradients, ThePastHasThemToo) {
  write_noise("past_key", {2, 2, 3, 16});
  write_noise("past_value", {2, 2, 3, 8});
  (void)printed(attend(kAll + std::string("--past-key past_key.npy --past-value past_value.npy --check")));
  EXPECT_EQ(shape("dk"), (Shape{2, 2, 16, 16}));
  EXPECT_EQ(shape("dv"), (Shape{2, 2, 16, 8}));
}

/// The gradient of a whole mask, and of one that is broadcast. The latter is the sum of the former.
TEST_F(ToolGradients, OfMasks) {
  write_noise("whole", {2, 4, 9, 13});
  const std::string options = "--grad-output grad.npy --check ";
  (void)printed(attend(options + "--mask whole.npy --grad-mask whole_gradient.npy --causal"));
  EXPECT_EQ(shape("whole_gradient"), (Shape{2, 4, 9, 13}));
  const std::vector<float> whole = values("whole_gradient");
  EXPECT_EQ(whole.at(1), 0) << "a key behind the causal mask";
  EXPECT_NE(whole.at(13), 0);

  write_noise("of_heads", {4, 1, 13});
  (void)printed(attend(options + "--mask of_heads.npy --grad-mask sums.npy"));
  EXPECT_EQ(shape("sums"), (Shape{4, 1, 13}));
  // The gradients of each row of scores add up to 0.
  const std::vector<float> sums = values("sums");
  for (std::ptrdiff_t head = 0; head < 4; ++head) {
    const auto first = sums.begin() + head * 13;
    EXPECT_NEAR(std::accumulate(first, first + 13, 0.0), 0, 1e-5);
    EXPECT_NE(*first, 0);
  }
  claim_fortran_order("of_heads");
  (void)printed(attend(options + "--mask of_heads.npy --grad-mask sums.npy"));
  EXPECT_EQ(shape("sums"), (Shape{4, 1, 13}));
}

TEST_F(ToolGradients, AreRefusedWithoutWhatTheyNeed) {
  write_noise("short", {9, 5});
  write_bools("allowed", {9, 13}, std::vector<std::uint8_t>(117, 1));
  write_noise("wrong", {2, 4, 9, 9});
  write_noise("lse", {2, 4, 9, 1});
  const std::string output = "--grad-output grad.npy ", mask = output + "--grad-mask dm.npy ";
  expect_refused(
      attend(""),
      {{"--grad-query dq.npy", "--grad-query is made of the gradient of the output; give --grad-output"},
       {output, "say which to write: --grad-query"},
       {output + "--grad-sinks ds.npy", "--grad-sinks is the gradient of --sinks; give both"},
       {output + "--grad-alibi-slopes da.npy", "give both"},
       {mask, "--grad-mask is the gradient of --mask; give both"},
       {mask + "--mask short.npy", "has fewer keys than the 13 that there are"},
       {mask + "--mask allowed.npy", "(9, 13) is boolean"},
       {output + "--grad-query grad.npy", "would overwrite"},
       {"--grad-output wrong.npy --grad-query dq.npy",
        "(2, 4, 9, 9) has to have the shape of the output, (2, 4, 9, 8)"},
       {"--grad-lse lse.npy", "--grad-lse is for a loss that also has --grad-output; give both"},
       {output + "--grad-lse lse.npy --grad-query dq.npy",
        "gradient of the lse lse.npy (2, 4, 9, 1) has to have the shape of the lse, (2, 4, 9)"},
       {output + "--grad-lse allowed.npy --grad-query dq.npy", "has to be float16, float32 or float64"},
       {kAll + std::string("--kv-type e4m3"), "the type of key is e4m3, which has no gradients", 3}});
  for (const char* const gradient : {"dm", "dq"}) EXPECT_FALSE(std::filesystem::exists(file(gradient)));
}

}  // namespace
}  // namespace vkattn::tests
