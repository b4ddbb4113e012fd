// This folder's shaders and the kinds of plans that a training has.
#pragma once

#include <vkattn/matmul.hpp>
#include <vkattn/multi_head_attention.hpp>

#include "decoder/steps.hpp"

namespace train_text {

using decoder::checked;
using decoder::Floats;
using decoder::groups_of;
using decoder::Indices;
using decoder::record_all;
using decoder::Shaders;
using decoder::Step;
using decoder::Steps;
using decoder::word;

// The shaders, in the order of their table.
enum class Shader {
  kEmbed,
  kEmbedGradient,
  kNorm,
  kNormGradient,
  kActivate,
  kGeluGradient,
  kCrossEntropy,
  kAdamw
};
[[nodiscard]] std::span<const decoder::ShaderRow> shader_table();

using Plans = decoder::PlansOf<vkattn::MatmulDesc, vkattn::MultiHeadAttentionDesc,
                               vkattn::MultiHeadAttentionBackwardDesc>;

}  // namespace train_text
