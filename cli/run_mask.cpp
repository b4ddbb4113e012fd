// Opens masks from .npy files, and fits their axes to the scores.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "common/checked.hpp"
#include "error.hpp"
#include "run_inputs.hpp"

namespace vkattn::cli {
namespace {

constexpr std::size_t kHeadAxis = 1, kKeyAxis = 3;

/// In a mask of bools or integers, every element other than 0 shows its key.
MaskType mask_type(npy::ElementType type) {
  if (!npy::is_float(type)) return MaskType::kBytes;
  return type == npy::ElementType::kFloat16 ? MaskType::kFloat16 : MaskType::kFloat32;
}

/// The mask's axes, aligned with those of the scores from the right. An axis that the mask leaves out is 1.
/// Fewer heads are taken in turn. Those of the keys are refused, as they stand for groups of query heads, and
/// the first of three axes, as the batch may be meant.
std::array<std::int64_t, 4> aligned_shape(const npy::Reader& reader,
                                          const std::array<std::int64_t, 4>& scores, std::int64_t kv_heads) {
  const std::vector<std::int64_t>& shape = reader.header().shape;
  const std::string text = "mask " + reader.path().string() + " " + npy::shape_text(shape) +
                           " does not broadcast to the scores " + npy::shape_text(scores);
  if (shape.size() > scores.size()) {
    fail_usage(text + ", because it has " + std::to_string(shape.size()) + " axes and they have 4");
  }
  constexpr std::array<const char*, 4> kNames = {"batch size", "number of query heads", "query length",
                                                 "key length"};
  std::array<std::int64_t, 4> aligned = {1, 1, 1, 1};
  const std::size_t left_out = aligned.size() - shape.size();
  for (std::size_t axis = left_out; axis < aligned.size(); ++axis) aligned[axis] = shape[axis - left_out];
  for (std::size_t axis = 0; axis < aligned.size(); ++axis) {
    const bool is_short = axis == kKeyAxis && aligned[axis] < scores[axis];
    const bool is_divisor = axis == kHeadAxis && aligned[axis] > 0 && scores[axis] % aligned[axis] == 0;
    const bool are_of_keys = is_divisor && aligned[axis] == kv_heads;
    const bool repeats = is_divisor && !are_of_keys && left_out == 0;
    if (aligned[axis] == scores[axis] || aligned[axis] == 1 || is_short || repeats) continue;
    std::string advice;
    if (are_of_keys) {
      advice =
          "; a mask may have fewer heads that divide these, but not those of the keys: repeat it for each "
          "query head";
    } else if (is_divisor) {
      advice = "; a mask of fewer heads, which are read in turn, needs 4 axes";
    }
    fail_usage(text + ", because the " + kNames[axis] + " is " + std::to_string(scores[axis]) +
               " but the mask has " + std::to_string(aligned[axis]) + advice);
  }
  return aligned;
}

}  // namespace

MaskFile open_mask(const std::string& path, Problem& problem) {
  MaskFile mask{take(npy::Reader::open(path))};
  const npy::Header& header = mask.reader.header();
  AttentionDesc& desc = problem.desc;
  const std::array<std::int64_t, 4> scores = {desc.batch, desc.query_heads, desc.query_length,
                                              desc.kv_length};
  const std::array<std::int64_t, 4> shape = aligned_shape(mask.reader, scores, desc.kv_heads);
  // A mask of one key holds for all keys. Any other mask that is too short hides the keys that it lacks.
  const bool is_short = shape[kKeyAxis] != 1 && shape[kKeyAxis] < scores[kKeyAxis];
  std::array<std::int64_t, 4> memory = shape;
  if (is_short) memory[kKeyAxis] = scores[kKeyAxis];

  std::array<std::int64_t, 4> strides = {0, 0, 0, 0};
  std::int64_t reach = 1;
  for (std::size_t n = 0; n < memory.size(); ++n) {
    const std::size_t axis = header.fortran_order ? n : memory.size() - 1 - n;
    if (memory[axis] != 1) strides[axis] = reach;
    reach = detail::saturating_multiply(reach, memory[axis]);
  }
  desc.mask.type = mask_type(header.type);
  desc.mask.strides = {strides[0], strides[1], strides[2], strides[3]};
  if (shape[kHeadAxis] != 1) desc.mask.heads = shape[kHeadAxis];  // fewer than the query heads repeat
  problem.mask_dims = {memory[0] != 1, memory[1] != 1, memory[2] != 1, memory[3] != 1};

  mask.run = header.elements;
  if (!is_short) return mask;
  // The distance between two keys: 1 in C order, a whole array of one key in Fortran order.
  const std::int64_t between = header.fortran_order ? strides[kKeyAxis] : 1;
  mask.run = shape[kKeyAxis] * between;
  mask.missing = detail::saturating_multiply(memory[kKeyAxis] - shape[kKeyAxis], between);
  return mask;
}

}  // namespace vkattn::cli
