/// @file
/// First values of weights: Xavier's and He's, uniform and normal. On the host; the same numbers on every
/// platform.
#pragma once

#include <cstdint>
#include <span>

namespace vkattn {

/// A distribution around 0, whose width follows from the number of inputs and outputs of a layer, so that
/// activations and gradients keep their size from layer to layer.
enum class Initialisation : std::uint32_t {
  kXavierUniform = 0,  ///< from -b to b, b = sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010)
  kXavierNormal = 1,   ///< standard deviation sqrt(2 / (fan_in + fan_out))
  kHeUniform = 2,      ///< from -b to b, b = sqrt(6 / fan_in) (He et al., arXiv:1502.01852)
  kHeNormal = 3,       ///< standard deviation sqrt(2 / fan_in)
};

/// Fills `values` with numbers that the arguments alone decide: std::mt19937_64 by the seed, and arithmetic
/// that is rounded the same everywhere. A layer has its weights as (fan_out, fan_in), in any order. Fans
/// below 1 count as 1. All are multiplied by `gain`.
void initialise(std::span<float> values, std::int64_t fan_in, std::int64_t fan_out, Initialisation how,
                std::uint64_t seed, float gain = 1);

}  // namespace vkattn
