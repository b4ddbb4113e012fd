#include "engine/pipelines.hpp"

// SPIR-V of tokens.comp, bars.vert and bars.frag, which glslang writes as arrays of words.
#include "bars_frag.h"
#include "bars_vert.h"
#include "tokens_comp.h"

namespace engine {

Pipelines::Pipelines(const example::Gpu& gpu, std::uint32_t sets)
    : device_(gpu.device),
      set_layout_(
          make_set_layout(device_, kBindings, VK_SHADER_STAGE_COMPUTE_BIT | VK_SHADER_STAGE_VERTEX_BIT)),
      pool_(make_set_pool(device_, kBindings, sets)) {
  compute_layout = make_layout(device_, set_layout_, VK_SHADER_STAGE_COMPUTE_BIT, sizeof(ComputePush));
  graphics_layout = make_layout(device_, set_layout_, VK_SHADER_STAGE_VERTEX_BIT, sizeof(BarPush));
  compute = make_compute(device_, compute_layout, tokens_comp);
  graphics = make_graphics(
      device_, {.layout = graphics_layout, .vertex = bars_vert, .fragment = bars_frag, .format = kFormat});
}

}  // namespace engine
