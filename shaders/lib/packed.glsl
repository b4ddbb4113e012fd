// Batch entries of packed tensors, whose rows lie one after the other.
#ifndef VKATTN_LIB_PACKED
#define VKATTN_LIB_PACKED

// Where an entry begins, and its length, of its two cumulative lengths. Whatever the numbers are, nothing lies outside.
ivec2 packed_extent(int first, int end, uint total, uint longest) {
  const int begin = clamp(first, 0, int(total));
  return ivec2(begin, clamp(end, begin, begin + min(int(longest), int(total) - begin)) - begin);
}

#endif
