// Combining the parts of a split over the keys, in the workgroup that finishes a tile's last part.
//   void combine_parts(TilePosition tile)
// No invocation needs the numbers in shared memory any more.
#ifndef VKATTN_DECODE_COMBINE_PARTS
#define VKATTN_DECODE_COMBINE_PARTS

#include "decode/tile.glsl"
#include "lib/finished_parts.glsl"
#include "lib/partials.glsl"
#include "lib/unrolled.glsl"

layout(constant_id = VKATTN_SPEC_DECODE_PARTS) const uint kPartsInFlight = 8;  // of a row; a multiple of 4
layout(constant_id = VKATTN_SPEC_DECODE_PARTS_EARLY) const bool kPartsEarly = false;

// Globals, as GLSL passes arrays by copying them.
float part_elements[kRows * kPartsInFlight];  // of a dim: parts by rows
uint first_partials[kRows];                   // the rows' first partial results
float part_sums[kRows];                       // of the weights,
float part_results[kRows];                    // and of the elements times these

// Counts this workgroup's part. True, in all its invocations, if the tile's other parts were counted before: they can be
// read then. Nobody waits for another workgroup.
bool is_last_part() {
  parts_barrier();  // this part is stored before it is counted; the stages were read by all
  if (thread_index() == 0u) weight_stage[0] = count_finished_part() ? 1.0 : 0.0;
  parts_barrier();  // the other parts are read after the count
  return weight_stage[0] != 0.0;
}

uint first_partial(TilePosition tile, uint row) {
  const uint packed = packed_row(tile, row);
  return partial_row(tile.batch, packed_head(tile.kv_head, packed), packed_query(packed), 0u);
}

// The last part stands for hidden parts beyond it.
float partial_at(uint begin, uint part, uint element) {
  return coherent_partials[begin + min(part, params.kv_splits - 1u) * (kValueDim + 1u) + element];
}

// The parts of a row in whole rounds. Those beyond the last are hidden.
uint padded_parts() { return (params.kv_splits + kPartsInFlight - 1u) / kPartsInFlight * kPartsInFlight; }

// The weights of all parts go to the stage, row by row in vectors of 4 parts, and the largest log-sum-exps to maximum_stage. A
// subgroup has a row, and each of its lanes a vector at a time; a lane reads back what itself has written.
void weigh_row(TilePosition tile, uint row) {
  const uint lane = gl_SubgroupInvocationID;
  const uint begin = first_partial(tile, row);
  const uint vectors = padded_parts() / 4;
  float maximum = kHiddenScore;
  for (uint first = 0; first < vectors; first += kSubgroupSize) {  // uniform, as shuffles follow
    const uint n = first + lane;
    vec4 lse;
    [[unroll]] for (uint i = 0; i < 4; ++i) lse[i] = partial_at(begin, n * 4 + i, kValueDim);
    [[unroll]] for (uint i = 0; i < 4; ++i) {
      if (n * 4 + i >= params.kv_splits) lse[i] = kHiddenScore;
      maximum = max(maximum, lse[i]);
    }
    if (n < vectors) stage[row * vectors + n] = lse;
  }
#define VKATTN_MAXIMUM_OF_LANES(LANES) maximum = max(maximum, subgroupShuffleXor(maximum, LANES))
  VKATTN_LANE_STEPS(1u, kSubgroupSize, VKATTN_MAXIMUM_OF_LANES)
  for (uint n = lane; n < vectors; n += kSubgroupSize) {
    vec4 weights = stage[row * vectors + n];
    [[unroll]] for (uint i = 0; i < 4; ++i) weights[i] = part_weight(weights[i], maximum);
    stage[row * vectors + n] = weights;
  }
  if (lane == 0u) maximum_stage[row] = maximum;
}

// Starts the reads of the next kPartsInFlight parts of a dim of a set's rows.
void load_parts(uint first, uint dim) {
  [[unroll]] for (uint i = 0; i < kPartsInFlight; ++i) {
    [[unroll]] for (uint r = 0; r < kRows; ++r) {
      part_elements[i * kRows + r] = partial_at(first_partials[r], first + i, dim);
    }
  }
}

// Finds the rows of number i, which is dim i % kValueDim of set i / kValueDim. Numbers beyond the last set read that set.
void find_rows(TilePosition tile, uint i) {
  const uint set = min(i / kValueDim, kRowSets - 1u);
  [[unroll]] for (uint r = 0; r < kRows; ++r) first_partials[r] = first_partial(tile, set * kRows + r);
}

void store_combined(TilePosition tile, uint row, uint dim, float sum, float result) {
  const uint packed = tile.first_row + row;
  if (packed >= packed_row_count()) return;
  const uint head = packed_head(tile.kv_head, packed);
  const uint query = packed_query(packed);
  store_output(output_row(tile.batch, head, query), dim, combined(sum, result));
  if (dim == 0) store_lse(tile.batch, head, query, maximum_stage[row], sum);
}

// Adds them up, in the order of the parts.
void add_parts(uint first_row_of_set, uint first) {
  const uint vectors = padded_parts() / 4;
  [[unroll]] for (uint n = 0; n < kPartsInFlight / 4; ++n) {
    [[unroll]] for (uint r = 0; r < kRows; ++r) {
      const vec4 weights = stage[(first_row_of_set + r) * vectors + first / 4 + n];
      [[unroll]] for (uint i = 0; i < 4; ++i) {
        add_part(weights[i], part_elements[(n * 4 + i) * kRows + r], part_sums[r], part_results[r]);
      }
    }
  }
}

// Combines and stores number i, whose first parts were asked for if `early`. The loop's parts are asked for and added up in the
// same round: carried from one to the next, compilers copy them, in twice the registers.
void combine_dim(TilePosition tile, uint i, bool early) {
  if (i >= kRowSets * kValueDim) return;
  const uint first_row_of_set = i / kValueDim * kRows;
  const uint dim = i % kValueDim;
  [[unroll]] for (uint r = 0; r < kRows; ++r) part_sums[r] = part_results[r] = 0.0;
  if (early) add_parts(first_row_of_set, 0u);
  for (uint first = early ? kPartsInFlight : 0u; first < params.kv_splits; first += kPartsInFlight) {
    load_parts(first, dim);
    add_parts(first_row_of_set, first);
  }
  [[unroll]] for (uint r = 0; r < kRows; ++r) store_combined(tile, first_row_of_set + r, dim, part_sums[r], part_results[r]);
}

// A thread has a dim of a set's rows at a time. With kPartsEarly its first parts are asked for together with the log-sum-exps.
void combine_parts(TilePosition tile) {
  if (!is_last_part()) return;  // uniform over the workgroup, so no barrier is missed
  const bool early = kPartsEarly && kRowSets * kValueDim <= kThreads;  // with one dim a thread
  if (early) {
    find_rows(tile, thread_index());
    load_parts(0u, thread_index() % kValueDim);
  }
  for (uint row = gl_SubgroupID; row < kTileRows; row += kThreads / kSubgroupSize) weigh_row(tile, row);
  barrier();  // the weights are complete
  if (early) {
    combine_dim(tile, thread_index(), true);
    return;
  }
  for (uint i = thread_index(); i < kRowSets * kValueDim; i += kThreads) {
    find_rows(tile, i);
    combine_dim(tile, i, false);
  }
}

#endif
