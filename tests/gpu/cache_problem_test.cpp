// Problems whose last keys the device appends to the cache: the words append= and rotary=.
#include <string>

#include "gpu/support.hpp"

namespace vkattn::tests {
namespace {

class CacheProblems : public GpuTest {};

/// Compares the bytes of the caches with caches that the host filled, and then attention with the reference.
/// If queries are packed, new rows are packed like them, with the same cumulative lengths.
TEST_F(CacheProblems, AppendedKeysAreSeen) {
  for (const char* const words : part_of(
           {"f16 append=9 kv_lengths=40,3,70 causal align=bottom-right",
            "append=40 ring=32 window=20,0 align=bottom-right", "f16 cache=q4_0 append=33 page=8",
            "key=e4m3 value=q8_0 append=2 ring=48 kv_lengths=60,50,9", "cache=q8_0 append=6 magnitude=1e-4",
            "append=5 rotary=half-split ring=32 cache=q8_0 kv_lengths=70,33,8",
            "sequences=queries query_lengths=5,1,3 cache=q8_0 append=3 ring=32",
            // at most 5; one entry has 2 keys
            "sequences=queries query_lengths=5,1,3 append=40 kv_lengths=2,70,9 layout=bshd pad=3 shift=1",
            "sequences=queries query_lengths=0,5,1 f16 append=5 rotary=interleaved page=16"})) {
    EXPECT_TRUE(runs_right(runtime(), std::string("b3 hq4 hkv2 5x70 d32 lse ") + words, {"lane"}));
  }
}

/// The comparison after an append can fail: other rows in the cache change the result.
TEST_F(CacheProblems, RotationChangesTheResult) {
  const auto first_output = [&](const char* text) {
    const Problem problem = parsed(text);
    auto run = harness::ProblemRun::create(runtime(), problem);
    EXPECT_TRUE(run.ok() && run->fill_inputs().ok());
    return read_element(runtime(), run->key(), problem.desc.key, 69 * 32);  // an element of the last key
  };
  EXPECT_NE(first_output("5x70 d32 append=5 rotary=half-split"), first_output("5x70 d32 append=5"));
}

}  // namespace
}  // namespace vkattn::tests
