// Units of factors. Gradients of scores may be of any size; as float16 operands they are multiples of their row's unit, a
// power of two that only grows. When a step's largest factor exceeds 2^15 units, the unit is raised so that the factor is 2^7
// to 2^8 units. So float16 holds factors as normal numbers down to 2^-21 of the largest. Biased exponents stand for units.
#ifndef VKATTN_BACKWARD_UNITS
#define VKATTN_BACKWARD_UNITS

const uint kLeastUnit = 17u;  // 2^-110

// The power of two with a biased exponent; 0 if the exponent is too small.
float power_of_two(int exponent) { return uintBitsToFloat(uint(max(exponent, 0)) << 23); }

// The unit after a step with the magnitude `largest`, given as bits. As bits, NaN is above infinity, and infinity above
// numbers; neither raises the unit.
uint raised_unit(uint unit, uint largest) {
  const uint exponent = largest >> 23;
  return exponent > unit + 14u && exponent < 255u ? exponent - 7u : unit;
}

// The factor of sums that were in units of `before`.
float change_of_unit(uint before, uint unit) { return power_of_two(127 + int(before) - int(unit)); }

// The factor of a number that becomes an operand.
float units_of_one(uint unit) { return power_of_two(254 - int(unit)); }

#endif
