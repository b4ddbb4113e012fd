#include "train_text/steps.hpp"

// SPIR-V of the shaders, which glslang writes as arrays of words.
#include "activate_comp.h"
#include "adamw_comp.h"
#include "cross_entropy_comp.h"
#include "embed_comp.h"
#include "embed_gradient_comp.h"
#include "gelu_gradient_comp.h"
#include "norm_comp.h"
#include "norm_gradient_comp.h"

namespace train_text {

std::span<const decoder::ShaderRow> shader_table() {
  static const std::array<decoder::ShaderRow, 8> table = {{{"embed", embed_comp, 5},
                                                           {"embed_gradient", embed_gradient_comp, 4},
                                                           {"norm", norm_comp, 3},
                                                           {"norm_gradient", norm_gradient_comp, 4},
                                                           {"activate", activate_comp, 2},
                                                           {"gelu_gradient", gelu_gradient_comp, 2},
                                                           {"cross_entropy", cross_entropy_comp, 3},
                                                           {"adamw", adamw_comp, 4}}};
  return table;
}

}  // namespace train_text
