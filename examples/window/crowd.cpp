#include "window/crowd.hpp"

#include "crowd/model.hpp"
#include "crowd_frag.h"
#include "crowd_vert.h"
#include "engine/make_pipelines.hpp"
#include "picture/colors.hpp"
#include "steer_comp.h"
#include "window/checks.hpp"

namespace window {

namespace {

constexpr VkDeviceSize kFloat = sizeof(float);
constexpr float kNearness = 30, kKindness = 14;
// A dispatch is estimated to take at most this. lavapipe takes ten times as long for the weights, and a slice
// of 2 ms should have several.
constexpr std::uint64_t kDispatchNs = 25'000;

struct SteerPush {
  std::uint32_t stage, selected;
  float seconds, nearness;
};
struct DrawPush {
  float colors[kKinds][4];
  std::uint32_t drawn, selected;
  float pixel;
};

vkattn::AttentionDesc describe_crowd() {
  vkattn::AttentionDesc desc;
  desc.query_heads = kKinds;
  desc.kv_heads = 1;
  desc.query_length = kAgents;
  desc.kv_length = kMemories;
  desc.head_dim = kCrowdDims;
  desc.value_dim = kPlaceDims;
  desc.scale = 1;
  desc.weights = vkattn::WeightsStage::kProbabilities;
  return desc;
}

vkattn::AttentionPlan make_plan(const Gpu& gpu) {
  vkattn::PlanOptions options;
  options.max_dispatch_ns = kDispatchNs;
  return example::checked(vkattn::AttentionPlan::create(gpu.attention(), describe_crowd(), options));
}

// Memories of a kind lie in a few groups; a kind has a code of random signs.
void fill(World& world) {
  crowd::Random random(5);
  const auto place = [&](float size) { return size * (2 * random.next() - 1); };
  for (auto& code : world.codes) {
    for (std::uint32_t i = 3; i < kCrowdDims; ++i) code[i] = random.next() < 0.5F ? -1.0F : 1.0F;
  }
  constexpr std::uint32_t kGroup = 8;
  float middle[2] = {0, 0};
  for (std::uint32_t i = 0; i < kMemories; ++i) {
    if (i % kGroup == 0) {
      for (float& each : middle) each = place(0.85F);
    }
    for (int axis : {0, 1}) world.memories[i][axis] = middle[axis] + place(0.09F);
    world.memories[i][2] = static_cast<float>(i / kGroup % kKinds);
  }
  for (std::uint32_t i = 0; i < kAgents; ++i) {
    Agent& agent = world.agents[i];
    for (int axis : {0, 1}) agent.place[axis] = agent.target[axis] = place(0.9F);
    agent.danger[0] = 9;  // far away until attention tells
    agent.need = std::array{0U, 2U, 3U, 4U, 5U}[i % 5];
  }
}

// The key of a memory: its place, the square of its distance from the middle, and the code of its kind.
void fill_keys(const World& world, std::span<float> keys, std::span<float> values) {
  for (std::size_t i = 0; i < kMemories; ++i) {
    const auto& memory = world.memories[i];
    const float x = memory[0], y = memory[1];
    const auto& code = world.codes[static_cast<std::size_t>(memory[2])];
    const std::span<float> key = keys.subspan(i * kCrowdDims, kCrowdDims);
    key[0] = x, key[1] = y, key[2] = x * x + y * y;
    for (std::size_t d = 3; d < kCrowdDims; ++d) key[d] = code[d] * kKindness / (kCrowdDims - 3);
    values[i * kPlaceDims] = x, values[i * kPlaceDims + 1] = y, values[i * kPlaceDims + 2] = 1;
  }
}

}  // namespace

Crowd::Crowd(const Gpu& gpu)
    : device_(gpu.device),
      plan_(make_plan(gpu)),
      workspace_(example::make_workspace(gpu, plan_)),
      budget_(plan_.dispatches()) {}

Crowd::Crowd(const Gpu& gpu, VkRenderPass render_pass) : Crowd(gpu) {
  set_layout_ = engine::make_set_layout(device_, 4, VK_SHADER_STAGE_COMPUTE_BIT | VK_SHADER_STAGE_VERTEX_BIT);
  pool_ = engine::make_set_pool(device_, 4, 1);
  const auto make = [&](example::Buffer& buffer, VkDeviceSize bytes, bool is_devices = false) {
    buffer = example::Buffer(gpu, bytes, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT, is_devices);
    return buffer.range();
  };
  vkattn::AttentionTensors tensors;
  tensors.query = make(query_, VkDeviceSize{kKinds} * kAgents * kCrowdDims * kFloat);
  tensors.key = make(key_, VkDeviceSize{kMemories} * kCrowdDims * kFloat);
  tensors.value = make(value_, VkDeviceSize{kMemories} * kPlaceDims * kFloat);
  tensors.output = make(output_, VkDeviceSize{kKinds} * kAgents * kPlaceDims * kFloat, true);
  tensors.weights = make(weights_, VkDeviceSize{kKinds} * kAgents * kMemories * kFloat);
  bindings_.emplace(example::checked(plan_.make_bindings(tensors, workspace_.range())));
  make(world_, sizeof(World));
  World& world = world_.values<World>()[0];
  world = {};
  fill(world);
  fill_keys(world, key_.values(), value_.values());
  set_ = engine::make_set(device_, pool_, set_layout_,
                          std::array{world_.handle(), query_.handle(), output_.handle(), weights_.handle()});
  steer_layout_ = engine::make_layout(device_, set_layout_, VK_SHADER_STAGE_COMPUTE_BIT, sizeof(SteerPush));
  draw_layout_ = engine::make_layout(device_, set_layout_, VK_SHADER_STAGE_VERTEX_BIT, sizeof(DrawPush));
  steer_ = engine::make_compute(device_, steer_layout_, steer_comp);
  draw_ = engine::make_graphics(device_, {.layout = draw_layout_,
                                          .vertex = crowd_vert,
                                          .fragment = crowd_frag,
                                          .render_pass = render_pass,
                                          .blends = true});
}

Crowd::~Crowd() {
  vkDeviceWaitIdle(device_);
  for (const VkPipeline each : {steer_, draw_}) vkDestroyPipeline(device_, each, nullptr);
  for (const VkPipelineLayout each : {steer_layout_, draw_layout_})
    vkDestroyPipelineLayout(device_, each, nullptr);
  vkDestroyDescriptorPool(device_, pool_, nullptr);
  vkDestroyDescriptorSetLayout(device_, set_layout_, nullptr);
}

// Binds everything anew, as attention may have replaced pipeline, set and push constants.
void Crowd::steer(VkCommandBuffer commands, std::uint32_t stage, std::uint32_t selected,
                  float seconds) const {
  const SteerPush push{stage, selected, seconds, kNearness};
  vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, steer_);
  vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, steer_layout_, 0, 1, &set_, 0, nullptr);
  vkCmdPushConstants(commands, steer_layout_, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(push), &push);
  vkCmdDispatch(commands, 1, 1, 1);
}

Slice Crowd::record(const Frame& frame, double budget_ns, std::uint32_t selected, float seconds,
                    Timer& timer) {
  constexpr auto kCompute = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
  constexpr auto kUsed = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;
  const vkattn::PlanRequirements needs = plan_.requirements();
  // The last frame's shaders have read what is written now.
  example::barrier(frame.commands, VK_PIPELINE_STAGE_VERTEX_SHADER_BIT | kCompute | needs.last_stages,
                   VK_ACCESS_SHADER_WRITE_BIT | needs.last_access, kCompute, kUsed);
  Slice slice;
  if (budget_.is_done()) budget_.restart();
  slice.dispatches = budget_.next(budget_ns);
  slice.is_first = slice.dispatches.first_dispatch == 0;
  slice.is_last = budget_.is_done();
  if (slice.is_first) steer(frame.commands, 0, selected, 0);
  example::barrier(frame.commands, kCompute, VK_ACCESS_SHADER_WRITE_BIT, needs.first_stages,
                   needs.first_access);
  timer.begin(frame);
  record_counted([&] { plan_.record(frame.commands, *bindings_, slice.dispatches); });
  timer.end(frame);
  example::barrier(frame.commands, needs.last_stages, needs.last_access, kCompute, kUsed);
  if (slice.is_last) {
    steer(frame.commands, 1, selected, 0);
    example::barrier(frame.commands, kCompute, VK_ACCESS_SHADER_WRITE_BIT, kCompute, kUsed);
  }
  steer(frame.commands, 2, selected, seconds);
  example::barrier(frame.commands, kCompute, VK_ACCESS_SHADER_WRITE_BIT, VK_PIPELINE_STAGE_VERTEX_SHADER_BIT,
                   VK_ACCESS_SHADER_READ_BIT);
  return slice;
}

void Crowd::draw(VkCommandBuffer commands, VkRect2D area, std::uint32_t selected) const {
  engine::set_viewport(commands, area);
  vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_GRAPHICS, draw_);
  vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_GRAPHICS, draw_layout_, 0, 1, &set_, 0, nullptr);
  DrawPush push{};
  for (std::size_t i = 0; i < kKinds; ++i) {
    const vkattn::picture::Color& color = vkattn::picture::series_color(i);
    push.colors[i][0] = static_cast<float>(color.red);
    push.colors[i][1] = static_cast<float>(color.green);
    push.colors[i][2] = static_cast<float>(color.blue);
  }
  push.selected = selected;
  push.pixel = 2 / static_cast<float>(area.extent.width);
  for (const std::uint32_t drawn : {0U, 2U, 1U}) {  // memories, lines, agents
    push.drawn = drawn;
    vkCmdPushConstants(commands, draw_layout_, VK_SHADER_STAGE_VERTEX_BIT, 0, sizeof(push), &push);
    vkCmdDraw(commands, 4, drawn == 1 ? kAgents : kMemories, 0, 0);
  }
}

double Crowd::difference() const {
  return weights_difference(plan_.desc(), query_.values(), key_.values(), 0, weights_.values());
}

}  // namespace window
