// Units of factors: gradients of scores are of any size, and as float16 operands they are multiples of their row's unit, a
// power of two that only grows. Where a step's largest factor exceeds 2^15 units, the unit is raised so that it is 2^7 to 2^8.
// So float16 holds factors as normal numbers down to 2^-21 of the largest. Units are given by their biased exponents.
#ifndef VKATTN_BACKWARD_UNITS
#define VKATTN_BACKWARD_UNITS

const uint kLeastUnit = 17u;  // 2^-110

// 2^exponent of a biased exponent; 0 for those that are too small.
float power_of_two(int exponent) { return uintBitsToFloat(uint(max(exponent, 0)) << 23); }

// As bits NaN is above infinity, and infinity above numbers. `largest` are the bits of a magnitude; of neither the unit is
// raised.
uint raised_unit(uint unit, uint largest) {
  const uint exponent = largest >> 23;
  return exponent > unit + 14u && exponent < 255u ? exponent - 7u : unit;
}

// What sums in units of before are multiplied by.
float change_of_unit(uint before, uint unit) { return power_of_two(127 + int(before) - int(unit)); }

// What a factor is multiplied by.
float units_of_one(uint unit) { return power_of_two(254 - int(unit)); }

#endif
