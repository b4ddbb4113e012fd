// Refusals of the tool before it opens a device: exit code 2, and one sentence with these words.
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "plot.hpp"
#include "tool_run.hpp"

namespace vkattn::tests {
namespace {

using Integers = std::vector<std::int32_t>;

class ToolRefusals : public RunFolder {
 protected:
  void expect_refused(const std::string& command, const std::vector<Refusal>& refusals) const {
    Tool::expect_refused(command, refusals, kNoDevice);
  }
};

TEST_F(ToolRefusals, WrongUsage) {
  expect_refused("",
                 {{"", "a command is needed"},
                  {"rnu", "did you mean 'run'?"},
                  {"transmogrify",
                   "the commands are devices, run, bench, tune, kernels, inspect, report, "
                   "completion and man"},
                  {"devices all", "'all'"},
                  {"run", "--query is missing"},
                  {"run --query --key K.npy", "--query needs a value"},
                  {"run --output ''", "--output is given an empty value"},
                  {"run --cuasal", "did you mean --causal?"},
                  {"--version=3", "--version takes no value; leave out '=3'"},
                  {"run --causal=banana", "--causal takes no value; leave out '=banana'"},
                  {"run --check=-1", "--check takes no value; leave out '=-1'"},
                  {"run --check=false", "--check takes no value; leave out '=false'"},
                  {"run --output --causal=2 --json=0", "--json takes no value; leave out '=0'"},
                  {"bench --list --suite nonsense", "there is no suite 'nonsense'"},
                  {"bench --list --csv", "--list measures nothing and goes with --suite and --json alone"},
                  {"bench --list '8x8 d8'", "leave out a problem"},
                  {"bench --list --score-buffer t=f", "leave out --score"},
                  {"bench", "needs a problem"},
                  {"bench --suite smok", "did you mean 'smoke'?"},
                  {"bench smoke", "--suite smoke"},
                  {"bench 'b1 h8 512x512 d64x'", "d64x"},
                  {"bench 'b1 h8 512x512 d6400'", "6400"},
                  {"bench 'b99999999999999999999 8x8 d8'", "b99999999999999999999"}});
  const char* const picture = picture::check_support().ok() ? "/nonexistent/x.png" : "libcairo2-dev";
  expect_refused("bench '8x8 d8' ", {{"--repeat two", "'two'"},
                                     {"--tile rows=4", "--kernel"},
                                     {"--kernel lane,tile --tile rows=4", "--kernel"},
                                     {"--kernel tile --tile row=4", "no block size 'row'"},
                                     {"--kv-splits 0", "--kv-splits 0"},
                                     {"--kv-splits x", "'x'"},
                                     {"--arithmetic bf16", "f32 or f16"},
                                     {"--repeat 1", "--repeat 1"},
                                     {"--max-seconds 0", "--max-seconds 0"},
                                     {"--json --csv", "one of --json, --csv and --markdown"},
                                     {"--kernel lan", "did you mean 'lane'?"},
                                     {"--kernel lane,tyle", "did you mean 'tile'?"},
                                     {"--kernel lane,", "before and after each comma"},
                                     {"--kernel lane,tile,lane", "names lane twice"},
                                     {"--output /nonexistent/x.json", "/nonexistent/x.json"},
                                     {"--plot x.jpg", ".png and .svg"},
                                     {"--plot x.svg --output x.svg", "the same file"},
                                     {"--plot x.svg --no-peaks", "leave out --no-peaks"},
                                     {"--plot /nonexistent/x.png", picture}});
}

/// Numbers and names. Unit tests check the rules of the library itself.
TEST_F(ToolRefusals, ValuesOfRun) {
  expect_refused(
      "run --query q --key k --value v ",
      {{"--type f17", "'f17'"},
       {"--type q8_0", "f32, f16 or bf16"},
       {"--layout bsdh", "'bsdh'"},
       {"--scale nan", "must be finite"},
       {"--scale 1e39", "1e39"},
       {"--causal --align middle", "'middle'"},
       {"--align 3", "--causal, --window or --alibi"},
       {"--kernel tyle", "did you mean 'tile'?"},
       {"--arithmetic f17", "'f17'"},
       {"--arithmetic f16 --grad-output g --grad-query d", "leave out --arithmetic"},
       {"--kernel decode --grad-output g --grad-query d",
        "'decode' is no kernel of gradients; name theirs with --backward-kernel: tile, "},
       {"--backward-kernel decode --grad-output g --grad-query d", "theirs are tile"},
       {"--backward-kernel lane", "is for gradients"},
       {"--output a --lse a", "the same file"},
       {"--output a --output b", "only once"},
       {"--window 5", "--window needs two counts of keys, left and right, such as 512,0"},
       {"--window '5\n'", "--window needs two counts of keys"},
       {"--window 5,x", "--window needs a whole number"},
       {"--window 3,4,5", "--window needs a whole number"},
       {"--window 99999999999999999999,1", "--window needs a whole number"},
       {"--window -2,3", "window.left is -2 but must be a count of keys, or -1 for no bound"},
       {"--softcap tanh", "--softcap needs a number, not"},
       {"--softcap '5 '", "--softcap needs a number, not '5 '"},
       {"--softcap 1e40", "--softcap needs a number that fits float32"},
       {"--softcap 1e31", "--softcap '1e31': softcap is 1e+31 but must be 0 or from 1e-30 to 1e30"},
       {"--dropout x", "--dropout "},
       {"--dropout ''", "--dropout "},
       {"--dropout 1.5", "dropout is 1.5 but must be from 0 to 1"},
       {"--dropout 0.5 --dropout-seed -3", "'-3'"},
       {"--dropout-seed 3", "--dropout"},
       {"--alibi --alibi-slopes f", "one of them"},
       {"--alibi-slopes f --alibi-times-mask", "for an additive --mask; give both"},
       {"--mask f --alibi-times-mask",
        "--alibi-times-mask says what slopes multiply, so it needs --alibi-slopes"},
       {"--mask f --alibi-slopes f --alibi-times-mask --align bottom-right",
        "so it needs --causal, --window or --alibi"},
       {"--weights-stage scores", "--weights writes"},
       {"--weights w --weights-stage mask", "did you mean 'masked'?"},
       {"--kv-type q8", "q8_0, q4_0 or e4m3"},
       {"--kv-type q8_0,q4", "not 'q4'"},
       {"--kv-type q8_0,q4_0,f16", "not 'q4_0,f16'"},
       {"--kv-type q8_0,", "not ''"},
       {"--past-key p", "--past-value is missing"},
       {"--present-key p", "--past-key"},
       {"--ring-lengths n --kv-lengths n", "leave out --kv-lengths"},
       {"--ring-lengths n --page-table t", "give one of them"},
       {"--ring-lengths n --past-key p --past-value p", "makes --key a ring"},
       {"--page-table t --past-key p --past-value p", "has --key in pages"},
       {"--page-table t --cumulative-query-lengths n --cumulative-kv-lengths n", "give one of them"},
       {"--ring-lengths n --cumulative-query-lengths n --cumulative-kv-lengths n", "give one of them"}});
}

TEST_F(ToolRefusals, NoFileTakesThePlaceOfAnother) {
  write_file(folder_ / "q.npy", "kept");
  std::filesystem::create_symlink("q.npy", folder_ / "link.npy");
  std::filesystem::create_symlink("new.svg", folder_ / "dangling.svg");
  const std::string up_and_down = "../" + folder_.path().filename().string() + "/o.npy";
  std::vector<Refusal> of_run{
      {"--output q.npy", "--output 'q.npy' would overwrite the file of --query"},
      {"--lse ./q.npy", "--lse './q.npy' would overwrite the file of --query"},
      {"--weights link.npy", " would overwrite the file of --query, 'q.npy'"},
      {"--output o.npy --lse " + up_and_down, "--output and --lse name the same file 'o.npy' ("},
      {"--output new.svg --lse dangling.svg", "--output and --lse name the same file"},
      {"--past-key p --past-value o --present-key o",
       "--present-key 'o' would overwrite the file of --past-value"},
      {"--cumulative-query-lengths q --cumulative-kv-lengths o --lse o",
       "would overwrite the file of --cumulative-kv-lengths"},
      {"--past-key p --past-value p --present-key o --output o",
       "--output and --present-key name the same file 'o'"},
      {"--rotary half-split --query-positions f --output f", "would overwrite the file of --query-positions"},
      {"--score s --score-buffer t=f --lse f", "the file of --score-buffer"}};
  for (const std::string option :
       {"--mask", "--alibi-slopes", "--sinks", "--kv-lengths", "--query-lengths",
        "--cumulative-query-lengths", "--ring-lengths", "--page-table", "--score", "--tuning"}) {
    of_run.push_back({option + " f --output ./f", "--output './f' would overwrite the file of " + option});
  }
  expect_refused("run --query q.npy --key k --value v ", of_run);
  expect_refused("bench '8x8 d8' --output q.npy ",
                 {{"--plot link.npy", "--output and --plot name the same file"},
                  {"--score link.npy", "would overwrite the file of --score"},
                  {"--tuning q.npy", "would overwrite the file of --tuning"}});
  refuses("bench '8x8 d8' --output q.npy", "would overwrite the file of VKATTN_TUNING", 2,
          "VKATTN_TUNING=q.npy");
  EXPECT_EQ(read_file(folder_ / "q.npy"), "kept");
  EXPECT_EQ(folder_.file_count(), 2U);
}

/// Every command that reads files refuses a pipe at once. Opening it would wait for ever.
TEST_F(ToolRefusals, NamedPipesAreNotWaitedFor) {
  write_inputs({2, 4, 9, 16}, {2, 2, 13, 16}, {2, 2, 13, 8});
  write_noise("x", {9, 16});
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  const std::string words = "this is a named pipe, not a regular file";
  Tool::expect_refused("",
                       {{"run --query pipe --key key.npy --value value.npy --output o.npy", "pipe: " + words},
                        {attend("--mask pipe"), "pipe: " + words},
                        {attend("--kv-lengths pipe"), "pipe: " + words},
                        {"inspect --query query.npy --key pipe", "pipe: " + words},
                        {"inspect --input x.npy --weights pipe --heads 2", "pipe: cannot be read: " + words}},
                       std::string(kNoDevice) + " timeout 60");
}

TEST_F(ToolRefusals, FilesThatDoNotFit) {
  write_inputs({2, 4, 9, 16}, {2, 2, 13, 16}, {2, 2, 13, 8});
  write_noise("keys_too_many", {9, 14});
  write_noise("rows_too_few", {8, 13});
  write_noise("heads_of_keys", {2, 2, 9, 13});
  write_noise("batch_of_heads", {2, 9, 13});
  write_noise("five_axes", {1, 1, 1, 9, 13});
  write_list("integers", std::vector<std::int32_t>(13));
  write_list<float>("two", {1, 2});
  write_bools("bools", {4}, {0, 0, 0, 0});
  write_list<std::int32_t>("lengths", {13, 14});
  write_list<std::uint32_t>("huge", {3, 0xffffffffU});
  write_list<std::uint64_t>("huger", {~std::uint64_t{0}, 3});
  write_noise("past", {2, 2, 5, 16});
  const std::string broadcast = "does not broadcast to the scores (2, 4, 9, 13)";
  expect_refused(
      attend(""),
      {{"--mask keys_too_many.npy", broadcast},
       {"--mask rows_too_few.npy", broadcast},
       {"--mask heads_of_keys.npy", broadcast},
       {"--mask heads_of_keys.npy", "has 2; a mask may have fewer heads that divide these, but not"},
       {"--mask five_axes.npy", "5 axes"},
       {"--sinks nothing.npy", "no such file"},
       {"--sinks two.npy", "shape (4,)"},
       {"--sinks bools.npy", "bool"},
       {"--alibi-slopes two.npy", "--alibi-slopes"},
       {"--kv-lengths lengths.npy", "14 at index 1"},
       {"--kv-lengths two.npy", "float32, but --kv-lengths needs integers"},
       {"--kv-lengths huge.npy", "length 4294967295 at index 1 is not from 0 to"},
       {"--query-lengths huger.npy", "18446744073709551615 at index 0"},
       {"--kv-type q8_0", "stores blocks of 32; pad the last dimension with zeros to 32"},
       {"--past-key key.npy --past-value query.npy", "heads: 4 and 2"},
       {"--past-key value.npy --past-value value.npy", "dimension: 8 and 16"},
       {"--past-key past.npy --past-value value.npy", "length: 5 and 13"}});
  write_inputs({2, 4, 9, 16}, {2, 1, 13, 16}, {2, 1, 13, 8});
  expect_refused(attend(""), {{"--mask batch_of_heads.npy",
                               "has 2; a mask of fewer heads, which are read in turn, needs 4 axes"}});
  write_inputs({2, 4, 9, 32}, {2, 2, 13, 32}, {2, 2, 13, 32});
  claim_fortran_order("key");
  expect_refused(attend(""), {{"--kv-type q8_0", "numpy.ascontiguousarray"},
                              {"--past-key value.npy --past-value value.npy", "numpy.ascontiguousarray"}});
}

TEST_F(ToolRefusals, PackedSequencesThatDoNotFit) {
  write_inputs({4, 9, 16}, {2, 13, 16}, {2, 13, 8});
  write_list<std::int32_t>("ends_q", {0, 4, 4, 9});
  write_list<std::int32_t>("ends_k", {0, 6, 8, 13});
  const std::pair<const char*, Integers> others[] = {{"late", {1, 4, 4, 9}},
                                                     {"falling", {0, 4, 3, 9}},
                                                     {"short", {0, 4, 4, 8}},
                                                     {"fewer", {0, 6, 13}},
                                                     {"none", {}}};
  for (const auto& [name, ends] : others) write_list(name, ends);
  write("square", {2, 2}, Integers{0, 6, 8, 13});
  write_list<float>("floats", {0, 6, 8, 13});
  write_bools("mask", {9, 13}, std::vector<std::uint8_t>(9 * 13));
  expect_refused(attend("--cumulative-kv-lengths ends_k.npy --cumulative-query-lengths "),
                 {{"late.npy", "begins with 1, but the first sequence begins at row 0"},
                  {"falling.npy", "falls from 4 to 3 at index 2"},
                  {"short.npy", "ends at 8, but query query.npy (4, 9, 16) has 9 rows"}});
  const std::string queries = "--cumulative-query-lengths ends_q.npy ";
  expect_refused(attend(queries), {{"", "where keys are packed too, give --cumulative-kv-lengths"},
                                   {"--query-lengths ends_q.npy", "leave out --query-lengths"},
                                   {"--cumulative-kv-lengths fewer.npy", "fewer.npy has 2 sequences"},
                                   {"--cumulative-kv-lengths none.npy", "shape (0,) does not fit"},
                                   {"--cumulative-kv-lengths square.npy", "shape (2, 2) does not fit"},
                                   {"--cumulative-kv-lengths floats.npy",
                                    "float32, but --cumulative-kv-lengths needs integers"}});
  const std::string packed = queries + "--cumulative-kv-lengths ends_k.npy ";
  expect_refused(attend(""),
                 {{"--cumulative-kv-lengths ends_k.npy", "give --cumulative-query-lengths with it"}});
  expect_refused(attend(packed),
                 {{"--layout bshd", "as --layout bshd reads it; --layout bhsd takes (heads, rows, dim)"},
                  {"--kv-lengths ends_q.npy", "leave out --kv-lengths"},
                  {"--past-key ends_q.npy --past-value ends_q.npy", "--cumulative-kv-lengths packs these"},
                  {"--mask mask.npy", "does not broadcast to the scores (3, 4, 5, 6)"}});
  write_inputs({1, 4, 9, 16}, {1, 2, 13, 16}, {1, 2, 13, 8});
  expect_refused(attend(packed), {{"", "has rank 4, but packed sequences have no batch axis"}});
}

}  // namespace
}  // namespace vkattn::tests
