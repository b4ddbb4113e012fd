// Batch entries of packed tensors: their rows lie one after the other.
#ifndef VKATTN_LIB_PACKED
#define VKATTN_LIB_PACKED

// An entry's first row and its length, from two neighbouring cumulative lengths. For any numbers it stays inside the tensor.
ivec2 packed_extent(int first, int end, uint total, uint longest) {
  const int begin = clamp(first, 0, int(total));
  return ivec2(begin, clamp(end, begin, begin + min(int(longest), int(total) - begin)) - begin);
}

#endif
