// Runs a layer on a device: see layer_run.hpp.
#include "gpu/layer_run.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>

#include "harness/guard.hpp"
#include "harness/host_view.hpp"
#include "harness/quantise.hpp"
#include "harness/share.hpp"
#include "support/cache_reference.hpp"
#include "support/must.hpp"

namespace vkattn::tests {
namespace {

constexpr const char* kInputs[] = {"query", "key", "value"};

std::vector<float> random_numbers(std::int64_t count, double deviation, DataType type, std::uint64_t seed,
                                  std::uint64_t number) {
  harness::NormalNumbers normal(harness::stream_of(seed, 512 + number));
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = decoded(type, harness::stored_bits(static_cast<float>(normal.at(i) * deviation), type));
  }
  return values;
}

double roundoff(DataType type) {
  return type == DataType::kFloat32 ? 0x1p-24 : type == DataType::kFloat16 ? 0x1p-11 : 0x1p-8;
}

std::vector<float> decoded_blocks(DataType type, std::span<const std::byte> bytes) {
  std::vector<float> values;
  for (std::size_t at = 0; at < bytes.size(); at += block_bytes(type)) {
    const std::array<float, 32> block = block_elements_of(type, bytes.subspan(at, block_bytes(type)));
    values.insert(values.end(), block.begin(), block.end());
  }
  return values;
}

harness::TensorShape matrix_shape(DataType type, std::int64_t rows, std::int64_t columns) {
  return {TensorDesc{type, Strides{0, 0, columns, 1}, 0}, 1, 1, rows, columns};
}

void put_element(const harness::PutElement& put, DataType type, std::int64_t index, float value) {
  const std::uint32_t bits = encoded(type, value);
  const std::size_t size = element_bytes(type);
  put(index * static_cast<std::int64_t>(size), std::as_bytes(std::span(&bits, 1)).first(size));
}

}  // namespace

LayerData random_layer_data(const MultiHeadAttentionDesc& given, std::uint64_t seed) {
  const MultiHeadAttentionDesc desc = given.resolved();
  LayerData data;
  for (std::size_t i = 0; i < 3; ++i) {
    const InputSize size = input_size(desc, i);
    data.inputs[i] = random_numbers(size.rows * size.columns, 1, desc.type, seed, i);
  }
  std::uint64_t number = 3;
  for (const ParameterShape& parameter : parameters(desc)) {
    const double deviation =
        parameter.columns == 0 ? 0.5 : 1 / std::sqrt(static_cast<double>(parameter.columns));
    std::vector<float>& values = data.parameters[std::string(parameter.name)];
    const bool has_blocks = block_elements(parameter.type) > 1;
    values = random_numbers(parameter.elements(), deviation, has_blocks ? DataType::kFloat32 : parameter.type,
                            seed, number++);
    if (has_blocks) values = decoded_blocks(parameter.type, stored_parameter(parameter, values));
  }
  if (!desc.saves_for_gradients) return data;
  const InputSize output = input_size(desc, 0);
  data.grad_output = random_numbers(output.rows * output.columns, 1, desc.type, seed, number);
  return data;
}

std::vector<std::byte> stored_parameter(const ParameterShape& parameter, std::span<const float> values) {
  const std::size_t block = block_elements(parameter.type), size = block_bytes(parameter.type);
  std::vector<std::byte> bytes(values.size() / block * size);
  for (std::size_t i = 0; i < values.size() / block; ++i) {
    const auto target = std::span(bytes).subspan(i * size, size);
    if (block > 1) {
      harness::quantise_block(parameter.type, values.subspan(i * block, block), target,
                              harness::kLeastNormalScale);
    } else {
      const std::uint32_t bits = encoded(parameter.type, values[i]);
      std::memcpy(target.data(), &bits, size);
    }
  }
  return bytes;
}

LayerRun LayerRun::create(const Runtime& runtime, const MultiHeadAttentionDesc& desc, const LayerData& data,
                          const AttentionTensors& features, std::int64_t shift) {
  LayerRun run(runtime, desc.resolved());
  run.features_ = features;
  run.shift_ = shift;
  run.place_all(data);
  const AttentionDesc& a = run.desc_.attention;
  if (a.query_lengths != Lengths::kPerEntry) return run;
  for (std::int64_t b = 0; b < a.batch; ++b) {
    const std::int64_t length = reference::query_length(a, data.features, b);
    for (std::int64_t i = 0; i < a.query_length; ++i) run.is_row_written_.push_back(i < length);
  }
  return run;
}

void LayerRun::place_all(const LayerData& data) {
  const AttentionDesc& a = desc_.attention;
  for (std::size_t i = 0; i < 3; ++i) {
    const auto [rows, columns] = input_size(desc_, i);
    if (rows == 0) continue;
    add(kInputs[i], rows, columns, desc_.type, &data.inputs[i]);
    add(std::string("grad_") + kInputs[i], rows, columns, desc_.type, nullptr);
  }
  for (const ParameterShape& parameter : parameters(desc_)) {
    add_parameter(parameter, data.parameters.at(std::string(parameter.name)));
  }
  const auto [rows, columns] = input_size(desc_, 0);
  add("output", rows, columns, desc_.type, nullptr);
  if (!data.grad_output.empty()) add("grad_output", rows, columns, desc_.type, &data.grad_output);
  if (!data.frequencies.empty()) {
    const auto count = static_cast<std::int64_t>(data.frequencies.size());
    add("frequencies", 1, count, DataType::kFloat32, &data.frequencies);
  }
  if (a.weights != WeightsStage::kNone) {
    add("weights", a.batch * a.query_heads * a.query_length, a.kv_length, DataType::kFloat32, nullptr);
  }
  if (desc_.has_averaged_weights) {
    add("averaged_weights", a.batch * a.query_length, a.kv_length, DataType::kFloat32, nullptr);
  }
}

void LayerRun::add(const std::string& name, std::int64_t rows, std::int64_t columns, DataType type,
                   const std::vector<float>* values) {
  Tensor tensor{{}, type, rows, columns};
  const std::int64_t size = element_bytes(type);
  must(harness::place(*runtime_, rows * columns * size, shift_ * size, tensor.buffer));
  if (values != nullptr) {
    must(harness::fill_with(*runtime_, tensor.buffer, harness::input_filler(type),
                            [&](const harness::PutElement& put) {
                              for (std::size_t i = 0; i < values->size(); ++i)
                                put_element(put, type, static_cast<std::int64_t>(i), (*values)[i]);
                            }));
  }
  tensors_[name] = std::move(tensor);
}

void LayerRun::add_parameter(const ParameterShape& parameter, std::span<const float> values) {
  const bool is_bias = parameter.columns == 0;
  Tensor tensor{
      {}, parameter.type, is_bias ? 1 : parameter.rows, is_bias ? parameter.rows : parameter.columns};
  const std::vector<std::byte> bytes = stored_parameter(parameter, values);
  const auto size = static_cast<std::int64_t>(bytes.size());
  must(harness::place(*runtime_, size, shift_ * element_bytes(parameter.type), tensor.buffer));
  must(harness::fill_with(*runtime_, tensor.buffer, harness::input_filler(parameter.type),
                          [&](const harness::PutElement& put) { put(0, bytes); }));
  tensors_[std::string(parameter.name)] = std::move(tensor);
}

void LayerRun::prepare(const std::string& name, bool adds) {
  Tensor& tensor = tensors_.at(name);
  tensor.adds = adds;
  if (std::find(written_.begin(), written_.end(), name) == written_.end()) written_.push_back(name);
  const std::int64_t ones = adds ? tensor.rows * tensor.columns : 0;
  must(harness::fill_with(*runtime_, tensor.buffer, harness::output_poison(tensor.type),
                          [&](const harness::PutElement& put) {
                            for (std::int64_t i = 0; i < ones; ++i) put_element(put, tensor.type, i, 1.0F);
                          }));
}

Buffer LayerRun::poisoned_buffer(VkDeviceSize bytes) const {
  if (bytes == 0) return {};
  Buffer buffer = must(runtime_->create_buffer(bytes));
  const std::vector<std::byte> poison(static_cast<std::size_t>(bytes), std::byte{0xff});
  must(runtime_->write(buffer, 0, poison));
  return buffer;
}

BufferRange LayerRun::range(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? BufferRange{} : harness::range_of(found->second.buffer);
}

MultiHeadAttentionTensors LayerRun::tensors() const {
  MultiHeadAttentionTensors tensors;
  tensors.query = range("query");
  tensors.key = range("key");
  tensors.value = range("value");
  tensors.output = range("output");
  for (const ParameterShape& parameter : parameters(desc_)) {
    tensors.parameters.*parameter.range = range(std::string(parameter.name));
  }
  tensors.saved = saved_.size() == 0 ? BufferRange{} : saved_.range();
  tensors.averaged_weights = range("averaged_weights");
  tensors.attention = features_;
  tensors.attention.weights = range("weights");
  tensors.frequencies = range("frequencies");
  return tensors;
}

MultiHeadAttentionBackwardTensors LayerRun::backward_tensors() const {
  MultiHeadAttentionBackwardTensors backward;
  backward.forward = tensors();
  backward.grad_output = range("grad_output");
  backward.grad_query = range("grad_query");
  backward.grad_key = range("grad_key");
  backward.grad_value = range("grad_value");
  for (const ParameterShape& parameter : parameters(desc_)) {
    backward.grad_parameters.*parameter.range = range("grad " + std::string(parameter.name));
  }
  backward.attention.grad_mask = range("grad_mask");
  backward.attention.grad_alibi_slopes = range("grad_alibi_slopes");
  backward.attention.grad_sinks = range("grad_sinks");
  return backward;
}

template <class Plan, class CallTensors>
void LayerRun::run_plan(const Plan& plan, const CallTensors& call_tensors, std::uint32_t slice) const {
  const PlanRequirements needs = plan.requirements();
  const Buffer workspace = poisoned_buffer(needs.workspace_bytes);
  const BufferRange range = workspace.size() == 0 ? BufferRange{} : workspace.range();
  const bool pushes = needs.dispatches != 0 && needs.descriptor_sets == 0;
  std::optional<Bindings> bindings;
  if (!pushes) bindings = must(plan.make_bindings(call_tensors, range));
  const std::uint32_t all = needs.dispatches;
  for (std::uint32_t first = 0; first < all; first += std::min(slice, all - first)) {
    const RecordOptions how{.first_dispatch = first, .dispatch_count = slice};
    must(runtime_->execute([&](VkCommandBuffer commands) {
      if (bindings) {
        plan.record(commands, *bindings, how);
      } else {
        must(plan.record(commands, call_tensors, range, how));
      }
    }));
  }
}

void LayerRun::execute(const MultiHeadAttentionPlan& plan, std::uint32_t slice) {
  prepare("output", desc_.adds_to_output);
  for (const char* const name : {"weights", "averaged_weights"}) {
    if (tensors_.contains(name)) prepare(name, false);
  }
  saved_ = poisoned_buffer(plan.saved_bytes());
  run_plan(plan, tensors(), slice);
}

void LayerRun::execute(const MultiHeadAttentionBackwardPlan& plan, std::uint32_t slice) {
  const MultiHeadAttentionBackwardDesc& desc = plan.desc();
  const bool wanted[] = {desc.has_grad_query, desc.has_grad_key, desc.has_grad_value};
  for (std::size_t i = 0; i < 3; ++i) {
    if (wanted[i] && tensors_.contains(kInputs[i]))
      prepare(std::string("grad_") + kInputs[i], desc.adds_to_inputs);
  }
  if (desc.has_grad_parameters) {
    for (const ParameterShape& parameter : parameters(desc_)) {
      const Tensor& itself = tensors_.at(std::string(parameter.name));
      const std::string name = "grad " + std::string(parameter.name);
      add(name, itself.rows, itself.columns, *desc.grad_parameter_type, nullptr);
      prepare(name, desc.adds_to_parameters);
    }
  }
  prepare_score_gradients(desc);
  run_plan(plan, backward_tensors(), slice);
}

void LayerRun::prepare_score_gradients(const MultiHeadAttentionBackwardDesc& desc) {
  const AttentionDesc& a = desc_.attention;
  const auto prepare_new = [&](const char* name, std::int64_t rows, std::int64_t columns, DataType type) {
    add(name, rows, columns, type, nullptr);
    prepare(name, false);
  };
  if (desc.attention.has_grad_mask) {
    const Strides& strides = *desc.attention.grad_mask->strides;
    const auto positions = [](std::int64_t stride, std::int64_t extent) { return stride == 0 ? 1 : extent; };
    const std::int64_t rows = positions(strides.batch, a.batch) * positions(strides.head, a.query_heads) *
                              positions(strides.row, a.query_length);
    prepare_new("grad_mask", rows, positions(strides.dim, a.kv_length), desc.attention.grad_mask->type);
  }
  if (desc.attention.has_grad_alibi_slopes)
    prepare_new("grad_alibi_slopes", 1, a.query_heads, DataType::kFloat32);
  if (desc.attention.has_grad_sinks) prepare_new("grad_sinks", 1, a.query_heads, DataType::kFloat32);
}

std::string LayerRun::check(const LayerResults& expected, double& share) const {
  std::string message;
  for (const std::string& name : written_) {
    if (name == "output") message += compare(name, expected.output, share);
    if (name == "weights") message += compare(name, expected.weights, share);
    if (name == "averaged_weights") message += compare(name, expected.averaged_weights, share);
    if (name == "grad_mask") message += compare(name, expected.grad_mask, share);
    if (name == "grad_alibi_slopes") message += compare(name, expected.grad_alibi_slopes, share);
    if (name == "grad_sinks") message += compare(name, expected.grad_sinks, share);
    for (std::size_t i = 0; i < 3; ++i) {
      if (name == std::string("grad_") + kInputs[i]) message += compare(name, expected.grad_inputs[i], share);
    }
    if (name.starts_with("grad "))
      message += compare(name, expected.grad_parameters.at(name.substr(5)), share);
  }
  return message;
}

std::string LayerRun::compare(const std::string& name, const std::vector<double>& expected,
                              double& share) const {
  const Tensor& tensor = tensors_.at(name);
  const auto view = must(harness::HostView::of(*runtime_, tensor.buffer));
  if (static_cast<std::int64_t>(expected.size()) != tensor.rows * tensor.columns) {
    return name + " has another size than what is expected. ";
  }
  const auto is_written = [&](std::int64_t row) {
    return is_row_written_.empty() || name != "output" || is_row_written_[static_cast<std::size_t>(row)];
  };
  double largest = 0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  if (tensor.adds) largest += 1;
  const double tolerance = kUnits * std::max(roundoff(desc_.type), roundoff(tensor.type)) * largest;
  std::string message;
  double worst = 1;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::int64_t row = static_cast<std::int64_t>(i) / tensor.columns;
    if (!is_written(row)) continue;
    const double got = harness::loaded(view.tensor().data() + i * element_bytes(tensor.type), tensor.type);
    const double right = expected[i] + (tensor.adds ? 1 : 0);
    const double its = harness::share_of(right, got, tolerance, tensor.type);
    share = std::max(share, its);
    if (its <= worst) continue;
    worst = its;
    message = name + " at row " + std::to_string(row) + ", column " +
              std::to_string(static_cast<std::int64_t>(i) % tensor.columns) + " is " + std::to_string(got) +
              " and should be " + std::to_string(right) + ": " + std::to_string(its) + " of the tolerance. ";
  }
  harness::CheckReport report;
  harness::check_guards(
      name, matrix_shape(tensor.type, tensor.rows, tensor.columns), tensor.buffer, view.bytes(),
      [&](const harness::Position&) { return true; }, report);
  if (!report.guard_intact) message += report.guard_message + ". ";
  if (report.elements_unwritten != 0 && is_row_written_.empty()) {
    message += std::to_string(report.elements_unwritten) + " elements of " + name + " were not written. ";
  }
  return message;
}

std::map<std::string, std::vector<std::byte>> LayerRun::bytes() const {
  std::map<std::string, std::vector<std::byte>> all;
  for (const std::string& name : written_) {
    const auto view = must(harness::HostView::of(*runtime_, tensors_.at(name).buffer));
    all[name].assign(view.bytes().begin(), view.bytes().end());
  }
  return all;
}

}  // namespace vkattn::tests
