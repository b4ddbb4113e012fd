// A decode loop with a KV cache: each step appends one token's keys and values on the device, rotates its
// queries, and attends over all keys that the cache then holds. The lengths stay on the device from step to
// step. A plain computation checks every output.
#include <vkattn/cache.hpp>
#include <vkattn/runtime.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <utility>
#include <vector>

namespace {

constexpr std::int64_t kBatch = 2, kQueryHeads = 4, kKvHeads = 2, kDim = 16;
constexpr std::int64_t kCapacity = 32;  // keys that the cache has room for
constexpr std::int64_t kPrompt = 5, kSteps = 4;
using Lengths = std::array<std::int32_t, kBatch>;

// Ends the program if a call failed. The error says what failed and why.
template <class T>
T checked(vkattn::Result<T> result) {
  if (result.ok()) return *std::move(result);
  std::fprintf(stderr, "%s\n", result.error().message.c_str());
  std::exit(1);
}

void checked(const vkattn::Result<void>& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.error().message.c_str());
  std::exit(1);
}

template <class Values>
vkattn::Buffer upload(const vkattn::Runtime& runtime, const Values& values) {
  const auto bytes = std::as_bytes(std::span(values));
  vkattn::Buffer buffer = checked(runtime.create_buffer(bytes.size()));
  checked(runtime.write(buffer, 0, bytes));
  return buffer;
}

// The numbers that a model would compute from its tokens.
enum Kind : int { kQuery, kKey, kValue };
float element(Kind kind, std::int64_t batch, std::int64_t head, std::int64_t position, std::int64_t dim) {
  const std::int64_t seed = 1 + 37 * kind + 29 * batch + 11 * head + 17 * position + 5 * dim;
  return static_cast<float>(std::sin(static_cast<double>(seed)));
}

// (batch, heads, count, dim): `count` tokens of each batch entry, from its own first position on.
std::vector<float> tokens(Kind kind, std::int64_t heads, const Lengths& first, std::int64_t count) {
  std::vector<float> values;
  for (std::int64_t b = 0; b < kBatch; ++b) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t r = 0; r < count; ++r) {
        for (std::int64_t d = 0; d < kDim; ++d)
          values.push_back(element(kind, b, h, first[static_cast<std::size_t>(b)] + r, d));
      }
    }
  }
  return values;
}

vkattn::AppendDesc append_desc(std::int64_t new_length) {
  vkattn::AppendDesc desc;
  desc.batch = kBatch;
  desc.query_heads = kQueryHeads;
  desc.kv_heads = kKvHeads;
  desc.new_length = new_length;
  desc.head_dim = kDim;
  desc.cache_length = kCapacity;
  desc.has_positions = true;      // a device buffer says where each batch entry's cache ends
  desc.writes_kv_lengths = true;  // and gets the lengths with the new rows
  desc.rotary = {vkattn::RotaryStyle::kHalfSplit, kDim};
  return desc;
}

// One new query of each batch entry attends over its cache.
vkattn::AttentionDesc attention_desc() {
  vkattn::AttentionDesc desc;
  desc.batch = kBatch;
  desc.query_heads = kQueryHeads;
  desc.kv_heads = kKvHeads;
  desc.query_length = 1;
  desc.kv_length = kCapacity;  // at most: the buffer says how many are in use
  desc.kv_lengths = vkattn::Lengths::kPerEntry;
  desc.head_dim = kDim;
  return desc;
}

// A token's queries or keys, rotated like the device's.
std::array<double, kDim> rotated(Kind kind, std::int64_t batch, std::int64_t head, std::int64_t position) {
  std::array<double, kDim> row{};
  constexpr std::int64_t kHalf = kDim / 2;
  for (std::int64_t i = 0; i < kHalf; ++i) {
    const double x = static_cast<double>(element(kind, batch, head, position, i));
    const double y = static_cast<double>(element(kind, batch, head, position, i + kHalf));
    const double angle =
        static_cast<double>(position) * std::pow(10000.0, -2.0 * static_cast<double>(i) / kDim);
    row[static_cast<std::size_t>(i)] = x * std::cos(angle) - y * std::sin(angle);
    row[static_cast<std::size_t>(i + kHalf)] = x * std::sin(angle) + y * std::cos(angle);
  }
  return row;
}

// Attention of one query over all keys up to its own position, without a cache.
std::array<double, kDim> attend(std::int64_t batch, std::int64_t head, std::int64_t position) {
  const std::int64_t kv_head = head / (kQueryHeads / kKvHeads);
  const std::array<double, kDim> query = rotated(kQuery, batch, head, position);
  std::array<double, kDim> output{};
  double sum = 0;
  for (std::int64_t j = 0; j <= position; ++j) {
    const std::array<double, kDim> key = rotated(kKey, batch, kv_head, j);
    double score = 0;
    for (std::size_t d = 0; d < kDim; ++d) score += query[d] * key[d];
    const double weight = std::exp(score / std::sqrt(static_cast<double>(kDim)));
    sum += weight;
    for (std::size_t d = 0; d < kDim; ++d) {
      output[d] +=
          weight * static_cast<double>(element(kValue, batch, kv_head, j, static_cast<std::int64_t>(d)));
    }
  }
  for (double& value : output) value /= sum;
  return output;
}

double largest_error(const std::vector<float>& output, const Lengths& positions) {
  double largest = 0;
  for (std::size_t b = 0; b < kBatch; ++b) {
    for (std::size_t h = 0; h < kQueryHeads; ++h) {
      const auto expected = attend(static_cast<std::int64_t>(b), static_cast<std::int64_t>(h), positions[b]);
      for (std::size_t d = 0; d < kDim; ++d) {
        const double got = static_cast<double>(output[(b * kQueryHeads + h) * kDim + d]);
        const double error = std::abs(got - expected[d]);
        if (std::isnan(error)) return error;
        largest = std::max(largest, error);
      }
    }
  }
  return largest;
}

struct Cache {
  vkattn::Buffer key, value;
  vkattn::Buffer lengths;  // of each batch entry; appends and attention share them
};

Cache make_cache(const vkattn::Runtime& runtime) {
  const std::vector<float> empty(kBatch * kKvHeads * kCapacity * kDim);
  return {upload(runtime, empty), upload(runtime, empty), upload(runtime, Lengths{0, 0})};
}

// Appends prompts of different lengths at once. (A model would attend here as well.)
void append_prompts(const vkattn::Runtime& runtime, const Cache& cache, const Lengths& prompt_lengths) {
  vkattn::AppendDesc desc = append_desc(kPrompt);
  desc.query_heads = 0;
  desc.new_lengths = vkattn::Lengths::kPerEntry;
  const vkattn::AppendPlan plan = checked(
      vkattn::AppendPlan::create(runtime.device(), desc, {.pipeline_cache = runtime.pipeline_cache()}));
  const vkattn::Buffer key = upload(runtime, tokens(kKey, kKvHeads, {0, 0}, kPrompt));
  const vkattn::Buffer value = upload(runtime, tokens(kValue, kKvHeads, {0, 0}, kPrompt));
  const vkattn::Buffer new_lengths = upload(runtime, prompt_lengths);
  vkattn::AppendTensors tensors;
  tensors.key = key.range();
  tensors.value = value.range();
  tensors.cache_key = cache.key.range();
  tensors.cache_value = cache.value.range();
  tensors.new_lengths = new_lengths.range();
  tensors.positions = tensors.kv_lengths = cache.lengths.range();
  const vkattn::Bindings bindings = checked(plan.make_bindings(tensors));
  checked(runtime.execute([&](VkCommandBuffer commands) { plan.record(commands, bindings); }));
}

}  // namespace

int main() {
  const vkattn::Runtime runtime = checked(vkattn::Runtime::create());
  const Cache cache = make_cache(runtime);
  Lengths positions{kPrompt, 3};
  append_prompts(runtime, cache, positions);

  // One token for each batch entry. Both plans serve every step.
  const vkattn::Buffer query = upload(runtime, std::vector<float>(kBatch * kQueryHeads * kDim));
  const vkattn::Buffer key = upload(runtime, std::vector<float>(kBatch * kKvHeads * kDim));
  const vkattn::Buffer value = upload(runtime, std::vector<float>(kBatch * kKvHeads * kDim));
  const vkattn::Buffer output = upload(runtime, std::vector<float>(kBatch * kQueryHeads * kDim));

  const vkattn::AppendPlan append = checked(vkattn::AppendPlan::create(
      runtime.device(), append_desc(1), {.pipeline_cache = runtime.pipeline_cache()}));
  vkattn::AppendTensors new_rows;
  new_rows.query = new_rows.query_output = query.range();  // rotated in place
  new_rows.key = key.range();
  new_rows.value = value.range();
  new_rows.cache_key = cache.key.range();
  new_rows.cache_value = cache.value.range();
  new_rows.positions = new_rows.kv_lengths = cache.lengths.range();
  const vkattn::Bindings append_bindings = checked(append.make_bindings(new_rows));

  const vkattn::AttentionPlan attention = checked(runtime.make_plan(attention_desc()));
  const vkattn::Buffer workspace = checked(runtime.create_workspace(attention));
  vkattn::AttentionTensors tensors;
  tensors.query = query.range();
  tensors.key = cache.key.range();
  tensors.value = cache.value.range();
  tensors.kv_lengths = cache.lengths.range();
  tensors.output = output.range();
  const vkattn::Bindings bindings = checked(attention.make_bindings(tensors, workspace.range()));

  std::vector<float> result(kBatch * kQueryHeads * kDim);
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const auto send = [&](const vkattn::Buffer& buffer, Kind kind, std::int64_t heads) {
      const std::vector<float> rows = tokens(kind, heads, positions, 1);
      checked(runtime.write(buffer, 0, std::as_bytes(std::span(rows))));
    };
    send(query, kQuery, kQueryHeads);
    send(key, kKey, kKvHeads);
    send(value, kValue, kKvHeads);
    // Each execute() waits. In your own command buffer, put a memory barrier between the two.
    checked(runtime.execute([&](VkCommandBuffer commands) { append.record(commands, append_bindings); }));
    checked(runtime.execute(attention, bindings));

    checked(runtime.read(output, 0, std::as_writable_bytes(std::span(result))));
    const double error = largest_error(result, positions);
    std::printf("step %d: attended over %d and %d keys, largest error %.1e\n", static_cast<int>(step),
                positions[0] + 1, positions[1] + 1, error);
    if (!(error < 1e-5)) {
      std::fprintf(stderr, "the output is not what a plain computation gives\n");
      return 1;
    }
    for (std::int32_t& position : positions) ++position;
  }
  Lengths held{};
  checked(runtime.read(cache.lengths, 0, std::as_writable_bytes(std::span(held))));
  std::printf("the cache holds %d and %d keys\n", held[0], held[1]);
}
