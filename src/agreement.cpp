// Checks numbers that host and shaders share: the public enums become specialization constants, or words in
// device memory, as they are.
#include <vkattn/attention.hpp>
#include <vkattn/attention_plan.hpp>
#include <vkattn/cache.hpp>

#include "shared/attention_constants.h"
#include "shared/cache_constants.h"

namespace vkattn::detail {
namespace {

template <typename Enum>
constexpr bool agrees(Enum value, int constant) {
  return static_cast<int>(value) == constant;
}

static_assert(agrees(DataType::kFloat32, VKATTN_TYPE_FLOAT32));
static_assert(agrees(DataType::kFloat16, VKATTN_TYPE_FLOAT16));
static_assert(agrees(DataType::kBfloat16, VKATTN_TYPE_BFLOAT16));
static_assert(agrees(DataType::kQ8_0, VKATTN_TYPE_Q8_0));
static_assert(agrees(DataType::kQ4_0, VKATTN_TYPE_Q4_0));
static_assert(agrees(DataType::kFloat8E4m3, VKATTN_TYPE_FLOAT8_E4M3));

static_assert(agrees(MaskType::kNone, VKATTN_MASK_NONE));
static_assert(agrees(MaskType::kFloat32, VKATTN_MASK_FLOAT32));
static_assert(agrees(MaskType::kFloat16, VKATTN_MASK_FLOAT16));
static_assert(agrees(MaskType::kBytes, VKATTN_MASK_BYTES));
static_assert(agrees(MaskType::kBits, VKATTN_MASK_BITS));

static_assert(agrees(KeyMapping::kContiguous, VKATTN_KEYS_CONTIGUOUS));
static_assert(agrees(KeyMapping::kRing, VKATTN_KEYS_RING));
static_assert(agrees(KeyMapping::kPaged, VKATTN_KEYS_PAGED));
static_assert(agrees(KeyMapping::kContiguous, VKATTN_APPEND_CONTIGUOUS));
static_assert(agrees(KeyMapping::kRing, VKATTN_APPEND_RING));
static_assert(agrees(KeyMapping::kPaged, VKATTN_APPEND_PAGED));

static_assert(agrees(WeightsStage::kScores, VKATTN_WEIGHTS_SCORES));
static_assert(agrees(WeightsStage::kSoftcap, VKATTN_WEIGHTS_SOFTCAP));
static_assert(agrees(WeightsStage::kMasked, VKATTN_WEIGHTS_MASKED));
static_assert(agrees(WeightsStage::kProbabilities, VKATTN_WEIGHTS_PROBABILITIES));

static_assert(agrees(Alibi::kNone, VKATTN_ALIBI_NONE));
static_assert(agrees(Alibi::kStandard, VKATTN_ALIBI_STANDARD));
static_assert(agrees(Alibi::kGiven, VKATTN_ALIBI_GIVEN));
static_assert(agrees(Alibi::kTimesMask, VKATTN_ALIBI_TIMES_MASK));

static_assert(agrees(BlockVisibility::kHidden, VKATTN_BLOCK_HIDDEN));
static_assert(agrees(BlockVisibility::kMixed, VKATTN_BLOCK_MIXED));
static_assert(agrees(BlockVisibility::kVisible, VKATTN_BLOCK_VISIBLE));

static_assert(agrees(RotaryStyle::kNone, VKATTN_ROTARY_NONE));
static_assert(agrees(RotaryStyle::kInterleaved, VKATTN_ROTARY_INTERLEAVED));
static_assert(agrees(RotaryStyle::kHalfSplit, VKATTN_ROTARY_HALF_SPLIT));

}  // namespace
}  // namespace vkattn::detail
