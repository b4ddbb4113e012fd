#include "crowd/speakers.hpp"

namespace crowd {

namespace {

using example::checked;

constexpr VkBufferUsageFlags kStorage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT;

vkattn::AppendDesc append_desc(std::size_t speakers, std::size_t rows) {
  vkattn::AppendDesc desc;
  desc.batch = static_cast<std::int64_t>(speakers);
  desc.query_heads = kHeads;
  desc.kv_heads = 1;
  desc.new_length = static_cast<std::int64_t>(rows);
  desc.head_dim = kDim;
  desc.cache_length = kCapacity;
  desc.set_layout(vkattn::Layout::kBshd);
  desc.rotary = {vkattn::RotaryStyle::kHalfSplit, kDim};
  return desc;
}

vkattn::AppendPlan make_append(const vkattn::Device& device) {
  vkattn::AppendDesc desc = append_desc(kSpeakers, 1);
  desc.has_positions = desc.writes_kv_lengths = true;
  return checked(vkattn::AppendPlan::create(device, desc));
}

vkattn::AttentionPlan make_attention(const vkattn::Device& device, std::uint64_t dispatch_ns) {
  vkattn::AttentionDesc desc;
  desc.batch = kSpeakers;
  desc.query_heads = kHeads;
  desc.kv_heads = 1;
  desc.query_length = 1;
  desc.kv_length = kCapacity;
  desc.kv_lengths = vkattn::Lengths::kPerEntry;
  desc.head_dim = kDim;
  desc.set_layout(vkattn::Layout::kBshd);
  vkattn::PlanOptions options;
  options.max_dispatch_ns = dispatch_ns;
  return checked(vkattn::AttentionPlan::create(device, desc, options));
}

void send(const Buffer& buffer, std::span<const float> values) {
  std::copy(values.begin(), values.end(), buffer.values().begin());
}

std::string prompt() {
  const std::string sentence = "the market is full, and everyone has something to say. ";
  std::string text;
  while (text.size() < kPrompt) text += sentence;
  text.resize(kPrompt);
  return text;
}

}  // namespace

Speakers::Speakers(const Gpu& gpu, VkQueue queue, const example::CommandPool& pool, std::uint64_t dispatch_ns)
    : append_(make_append(gpu.attention())),
      attention_(make_attention(gpu.attention(), dispatch_ns)),
      workspace_(example::make_workspace(gpu, attention_)),
      whole_workspace_(example::make_workspace(gpu, attention_)),
      lines_(kSpeakers) {
  for (Buffer* each : {&query_, &output_, &whole_output_})
    *each = Buffer(gpu, kSpeakers * kHidden * sizeof(float), kStorage);
  for (Buffer* each : {&key_, &value_}) *each = Buffer(gpu, kSpeakers * kDim * sizeof(float), kStorage);
  make_caches(gpu);
  budget_.emplace(caches_[0].step->dispatches());
  for (std::size_t i = 0; i < kSpeakers; ++i) dice_.emplace_back(i + 1);
  warm_up(queue, pool);
  read_prompt(gpu, queue, pool);
}

// Runs both plans once, as some drivers compile at the first execution: not in a frame. The caches are still
// empty.
void Speakers::warm_up(VkQueue queue, const example::CommandPool& pool) const {
  example::execute(queue, pool, [&](VkCommandBuffer commands) { caches_[0].step->record(commands); });
}

void Speakers::make_caches(const Gpu& gpu) {
  for (std::size_t i = 0; i < kLayers; ++i) {
    LayerCache& cache = caches_.emplace_back();
    cache.key = Buffer(gpu, kSpeakers * kCapacity * kDim * sizeof(float), kStorage);
    cache.value = Buffer(gpu, kSpeakers * kCapacity * kDim * sizeof(float), kStorage);
    cache.lengths = Buffer(gpu, kSpeakers * sizeof(std::int32_t), kStorage);
    vkattn::AppendTensors rows;
    rows.query = rows.query_output = query_.range();  // rotated in place
    rows.key = key_.range();
    rows.value = value_.range();
    rows.cache_key = cache.key.range();
    rows.cache_value = cache.value.range();
    rows.positions = rows.kv_lengths = cache.lengths.range();
    cache.append.emplace(checked(append_.make_bindings(rows)));
    vkattn::AttentionTensors tensors;
    tensors.query = query_.range();
    tensors.key = cache.key.range();
    tensors.value = cache.value.range();
    tensors.kv_lengths = cache.lengths.range();
    tensors.output = output_.range();
    cache.attention.emplace(checked(attention_.make_bindings(tensors, workspace_.range())));
    tensors.output = whole_output_.range();
    cache.whole.emplace(checked(attention_.make_bindings(tensors, whole_workspace_.range())));
    const vkattn::SequenceItem items[] = {{&append_, &*cache.append}, {&attention_, &*cache.attention}};
    cache.step.emplace(checked(vkattn::Sequence::create(items)));
  }
}

// The prompt goes through the layers once, into the first speaker's caches, which are copied for the others.
void Speakers::read_prompt(const Gpu& gpu, VkQueue queue, const example::CommandPool& pool) {
  vkattn::AttentionDesc desc;
  desc.query_heads = kHeads;
  desc.kv_heads = 1;
  desc.query_length = desc.kv_length = kPrompt;
  desc.head_dim = kDim;
  desc.causal = true;
  desc.set_layout(vkattn::Layout::kBshd);
  const auto append = checked(vkattn::AppendPlan::create(gpu.attention(), append_desc(1, kPrompt)));
  const auto attention = checked(vkattn::AttentionPlan::create(gpu.attention(), desc));
  const vkattn::PlanRequirements first = append.requirements(), second = attention.requirements();
  const Buffer workspace = example::make_workspace(gpu, attention);
  Buffer buffers[4];  // Q, K, V, O
  for (Buffer& each : buffers) each = Buffer(gpu, kPrompt * kHidden * sizeof(float), kStorage);
  std::vector<float> x = model_.embed(prompt());
  for (std::size_t i = 0; i < kLayers; ++i) {
    const Layer& layer = model_.layers[i];
    const LayerCache& cache = caches_[i];
    const std::vector<float> normal = normalized(x);
    send(buffers[0], layer.query(normal));
    send(buffers[1], layer.key(normal));
    send(buffers[2], layer.value(normal));
    vkattn::AppendTensors rows;
    rows.query = rows.query_output = buffers[0].range();
    rows.key = buffers[1].range();
    rows.value = buffers[2].range();
    rows.cache_key = cache.key.range();
    rows.cache_value = cache.value.range();
    vkattn::AttentionTensors tensors;
    tensors.query = buffers[0].range();
    tensors.key = cache.key.range();
    tensors.value = cache.value.range();
    tensors.output = buffers[3].range();
    const vkattn::Bindings append_bindings = checked(append.make_bindings(rows));
    const vkattn::Bindings bindings = checked(attention.make_bindings(tensors, workspace.range()));
    example::execute(queue, pool, [&](VkCommandBuffer commands) {
      append.record(commands, append_bindings);
      example::barrier(commands, first.last_stages, first.last_access, second.first_stages,
                       second.first_access);
      attention.record(commands, bindings);
      example::barrier(commands, second.last_stages, second.last_access, VK_PIPELINE_STAGE_HOST_BIT,
                       VK_ACCESS_HOST_READ_BIT);
    });
    layer.finish(x, buffers[3].values());
    for (const Buffer* each : {&cache.key, &cache.value}) {
      const std::span<float> all = each->values();
      for (std::size_t speaker = 1; speaker < kSpeakers; ++speaker) {
        std::copy_n(all.begin(), kPrompt * kDim,
                    all.begin() + static_cast<std::ptrdiff_t>(speaker * kCapacity * kDim));
      }
    }
    for (std::int32_t& length : cache.lengths.values<std::int32_t>()) length = kPrompt;
  }
  for (std::size_t i = 0; i < kSpeakers; ++i) x_.insert(x_.end(), x.end() - kHidden, x.end());
  speak();
}

// Draws a character for each speaker, and begins the first layer of the next step.
void Speakers::speak() {
  std::string last;
  for (std::size_t i = 0; i < kSpeakers; ++i) {
    lines_[i] += model_.sample(std::span(x_).subspan(i * kHidden, kHidden), dice_[i]);
    last += lines_[i].back();
  }
  x_ = model_.embed(last);
  layer_ = 0;
  begin_layer();
}

// The device is done with these buffers when this is called.
void Speakers::begin_layer() {
  const Layer& layer = model_.layers[layer_];
  const std::vector<float> normal = normalized(x_);
  send(query_, layer.query(normal));
  send(key_, layer.key(normal));
  send(value_, layer.value(normal));
  budget_->restart();
  is_waiting_ = false;
}

vkattn::RecordOptions Speakers::record(VkCommandBuffer commands, double budget_ns) {
  const vkattn::RecordOptions slice = budget_->next(budget_ns);
  caches_[layer_].step->record(commands, slice);
  is_waiting_ = budget_->is_done();
  if (is_waiting_) {
    const vkattn::PlanRequirements last = attention_.requirements();
    example::barrier(commands, last.last_stages, last.last_access, VK_PIPELINE_STAGE_HOST_BIT,
                     VK_ACCESS_HOST_READ_BIT);
  }
  return slice;
}

void Speakers::record_check(VkCommandBuffer commands) const {
  if (executions_ >= kChecked) return;
  attention_.record(commands, *caches_[layer_].whole, {.wait_for_earlier = true});
  const vkattn::PlanRequirements needs = attention_.requirements();
  example::barrier(commands, needs.last_stages, needs.last_access, VK_PIPELINE_STAGE_HOST_BIT,
                   VK_ACCESS_HOST_READ_BIT);
}

void Speakers::check_layer() {
  const std::span<const float> got = output_.values(), whole = whole_output_.values();
  const bool same_bits = std::memcmp(got.data(), whole.data(), got.size_bytes()) == 0;
  const auto length = static_cast<std::size_t>(caches_[layer_].lengths.values<std::int32_t>()[0]);
  double largest = 0;
  for (std::size_t row = 0; row < kSpeakers * kHeads; ++row) {
    const std::size_t first = row / kHeads * kCapacity * kDim;
    const auto keys = caches_[layer_].key.values().subspan(first, length * kDim);
    const auto values = caches_[layer_].value.values().subspan(first, length * kDim);
    const std::vector<double> expected =
        example::plain_attention(query_.values().subspan(row * kDim, kDim), keys, values);
    const double each = example::largest_difference(got.subspan(row * kDim, kDim), expected);
    if (!(each <= largest)) largest = each;
  }
  std::printf("layer %zu over %zu keys: slices %s the whole, largest difference from the formula %.1e\n",
              layer_, length, same_bits ? "equal" : "differ from", largest);
  is_right_ = is_right_ && same_bits && largest < 1e-4;
}

void Speakers::finish_layer() {
  if (executions_ < kChecked) check_layer();
  ++executions_;
  model_.layers[layer_].finish(x_, output_.values());
  if (++layer_ == kLayers) {
    speak();
  } else {
    begin_layer();
  }
}

}  // namespace crowd
