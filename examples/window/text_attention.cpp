#include "window/text_attention.hpp"

#include <chrono>

#include "window/checks.hpp"

namespace window {

namespace {

constexpr VkDeviceSize kNumberBytes = sizeof(float);

TextAttention::Shown make(const vkattn::Device& device, const TrainedHeads& trained, Controls controls) {
  const auto begin = std::chrono::steady_clock::now();
  TextAttention::Shown made;
  made.rows = controls.is_trained ? trained.rows(controls.text, controls.heads, controls.dims)
                                  : seeded_rows(controls.text, controls.heads, controls.dims);
  made.controls = std::move(controls);
  if (made.rows.tokens() > 0) {
    auto plan = vkattn::AttentionPlan::create(device, describe(made.controls, made.rows.tokens()));
    if (plan) {
      made.plan = *std::move(plan);
    } else {
      made.error = plan.error().message;
    }
  }
  made.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return made;
}

void send(const example::Buffer& buffer, std::span<const float> values) {
  std::ranges::copy(values, buffer.values().begin());
}

}  // namespace

vkattn::AttentionDesc describe(const Controls& controls, int tokens) {
  vkattn::AttentionDesc desc;
  desc.query_heads = controls.heads;
  desc.query_length = desc.kv_length = tokens;
  desc.head_dim = controls.dims;
  desc.scale = controls.scale / std::sqrt(static_cast<float>(controls.dims)) / controls.temperature;
  desc.causal = controls.is_causal;
  if (controls.window > 0) desc.window = {controls.window, controls.window};
  desc.softcap = controls.softcap;
  desc.has_sinks = controls.has_sinks;
  if (controls.has_alibi) desc.alibi = vkattn::Alibi::kStandard;
  desc.weights = vkattn::WeightsStage::kProbabilities;
  return desc;
}

TextAttention::TextAttention(const Gpu& gpu, const TrainedHeads& trained) : gpu_(gpu), trained_(trained) {
  constexpr VkBufferUsageFlags kStorage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT;
  constexpr VkDeviceSize kRows = VkDeviceSize{kMostHeads} * kMostTokens;
  for (example::Buffer* each : {&query_, &key_})
    *each = example::Buffer(gpu, kRows * kMostDims * kNumberBytes, kStorage);
  output_ = example::Buffer(gpu, kRows * kMostDims * kNumberBytes, kStorage, true);
  weights_ =
      example::Buffer(gpu, kRows * kMostTokens * kNumberBytes, kStorage | VK_BUFFER_USAGE_TRANSFER_SRC_BIT);
  sinks_ = example::Buffer(gpu, kMostHeads * kNumberBytes, kStorage);
}

TextAttention::~TextAttention() {
  if (pending_.valid()) pending_.wait();
}

void TextAttention::update(const Controls& wanted, const Screen& screen) {
  using namespace std::chrono_literals;
  if (pending_.valid()) {
    if (pending_.wait_for(0s) != std::future_status::ready) return;
    Shown made = pending_.get();
    screen.wait();
    show(std::move(made));
  }
  if (shown_.controls == wanted) return;
  pending_ =
      std::async(std::launch::async, [this, wanted] { return make(gpu_.attention(), trained_, wanted); });
}

// The picture is of the weights alone, so the keys also serve as values.
void TextAttention::show(Shown made) {
  bindings_.reset();
  made.number = shown_.number + 1;
  shown_ = std::move(made);
  if (!shown_.plan) return;
  const vkattn::AttentionPlan& plan = *shown_.plan;
  send(query_, shown_.rows.query);
  send(key_, shown_.rows.key);
  std::ranges::fill(sinks_.values(), shown_.controls.sink);
  workspace_ = example::make_workspace(gpu_, plan);
  const auto range = [&](const example::Buffer& buffer,
                         vkattn::BufferRange vkattn::AttentionTensors::*tensor) {
    return vkattn::BufferRange{buffer.handle(), 0, plan.range_bytes(tensor)};
  };
  vkattn::AttentionTensors tensors;
  tensors.query = range(query_, &vkattn::AttentionTensors::query);
  tensors.key = range(key_, &vkattn::AttentionTensors::key);
  tensors.value = range(key_, &vkattn::AttentionTensors::value);
  tensors.output = range(output_, &vkattn::AttentionTensors::output);
  tensors.weights = range(weights_, &vkattn::AttentionTensors::weights);
  if (shown_.controls.has_sinks) tensors.sinks = range(sinks_, &vkattn::AttentionTensors::sinks);
  bindings_.emplace(example::checked(plan.make_bindings(tensors, workspace_.range())));
}

void TextAttention::record(VkCommandBuffer commands) const {
  const vkattn::PlanRequirements needs = shown_.plan->requirements();
  example::barrier(commands,
                   needs.last_stages | VK_PIPELINE_STAGE_FRAGMENT_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
                   needs.last_access, needs.first_stages, needs.first_access);
  record_counted([&] { shown_.plan->record(commands, *bindings_); });
  example::barrier(commands, needs.last_stages, needs.last_access,
                   VK_PIPELINE_STAGE_FRAGMENT_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
                   VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_TRANSFER_READ_BIT);
}

double TextAttention::difference() const {
  if (!has_work()) return 0;
  return weights_difference(shown_.plan->desc(), shown_.rows.query, shown_.rows.key, shown_.controls.sink,
                            weights_.values());
}

Maps TextAttention::maps() const {
  Maps maps;
  maps.labels = shown_.rows.labels;
  const auto tokens = static_cast<std::uint32_t>(maps.tokens());
  maps.heads = shown_.controls.heads;
  maps.head_stride = tokens * tokens;
  maps.row_stride = tokens;
  maps.left = shown_.controls.window > 0 ? shown_.controls.window : -1;
  maps.is_causal = shown_.controls.is_causal;
  maps.has_labels_below = shown_.controls.is_trained;
  return maps;
}

}  // namespace window
