// See run_rotary.hpp.
#include "run_rotary.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "error.hpp"
#include "reference/positions.hpp"

namespace vkattn::cli {
namespace {

constexpr std::int64_t kMostPosition = std::int64_t{1} << 30;

/// Reads the position of each row of each entry from a file of shape (rows,) or (entries, rows).
std::vector<std::int32_t> read_positions(const std::string& path, const char* option,
                                         const TensorExtents& extents) {
  npy::Reader reader = take(npy::Reader::open(path));
  const npy::Header& header = reader.header();
  const bool is_for_all = header.shape == std::vector{extents.rows};
  if (!is_for_all && header.shape != std::vector{extents.batch, extents.rows}) {
    fail_usage(path + ": shape " + npy::shape_text(header.shape) + " does not fit " + option +
               "; one position for each row is needed, so shape (" + std::to_string(extents.rows) +
               ",) or (" + std::to_string(extents.batch) + ", " + std::to_string(extents.rows) + ")");
  }
  if (header.fortran_order && !is_for_all) refuse_fortran_order(path, option);
  const std::vector<std::int64_t> numbers = take(npy::read_integers(reader, header.elements));
  std::vector<std::int32_t> positions;
  for (std::int64_t entry = 0; entry < (is_for_all ? extents.batch : 1); ++entry) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (numbers[i] < 0 || numbers[i] > kMostPosition) {
        fail_usage(path + ": position " + std::to_string(numbers[i]) + " at index " + std::to_string(i) +
                   " is not from 0 to " + std::to_string(kMostPosition));
      }
      positions.push_back(static_cast<std::int32_t>(numbers[i]));
    }
  }
  return positions;
}

/// The positions that attention sees: query i lies at key i + offset.
std::vector<std::int32_t> aligned_positions(const RunInputs& inputs) {
  const AttentionDesc& desc = inputs.problem.desc;
  const reference::Inputs lengths = lengths_of(inputs);
  std::vector<std::int32_t> positions;
  for (std::int64_t entry = 0; entry < desc.batch; ++entry) {
    const std::int64_t first = reference::position_offset(desc, lengths, entry);
    if (first < 0) {
      fail_usage("query 0 of batch entry " + std::to_string(entry) + " lies at " + std::to_string(first) +
                 " among the keys, which is no position for --rotary; give --query-positions");
    }
    const std::int64_t rows =
        desc.has_packed_queries() ? reference::query_length(desc, lengths, entry) : desc.query_length;
    for (std::int64_t i = 0; i < rows; ++i) positions.push_back(static_cast<std::int32_t>(first + i));
  }
  return positions;
}

/// Key j of a batch entry has position j.
std::vector<std::int32_t> counted_positions(const RunInputs& inputs, const TensorExtents& extents) {
  const AttentionDesc& desc = inputs.problem.desc;
  const reference::Inputs lengths = lengths_of(inputs);
  std::vector<std::int32_t> positions;
  const std::int64_t entries = desc.has_packed_keys() ? desc.batch : extents.batch;
  for (std::int64_t entry = 0; entry < entries; ++entry) {
    const std::int64_t rows =
        desc.has_packed_keys() ? reference::key_length(desc, lengths, entry) : extents.rows;
    for (std::int64_t j = 0; j < rows; ++j) positions.push_back(static_cast<std::int32_t>(j));
  }
  return positions;
}

/// Makes each row a batch entry of its own, so that it may have any position.
AppendDesc turning_desc(const TensorDesc& tensor, const TensorExtents& extents, const RotaryDesc& rotary) {
  AppendDesc desc;
  desc.batch = extents.rows;
  desc.query_heads = extents.heads;
  desc.kv_heads = 0;
  desc.new_length = 1;
  desc.head_dim = extents.dims;
  desc.query = tensor;
  desc.query.strides->batch = tensor.strides->row;
  desc.query.alignment_bytes = 0;
  desc.query_output = desc.query;
  desc.has_positions = true;
  desc.rotary = rotary;
  return desc.resolved();
}

std::vector<float> read_frequencies(const std::string& path, std::int64_t dims) {
  npy::Reader reader = take(npy::Reader::open(path));
  const std::vector<std::int64_t>& shape = reader.header().shape;
  if (shape != std::vector{dims / 2}) {
    fail_usage(path + ": shape " + npy::shape_text(shape) +
               " does not fit --rotary-frequencies; one for each pair of " + std::to_string(dims) +
               " dims is needed, so shape (" + std::to_string(dims / 2) + ",)");
  }
  return take(npy::read_floats(reader, dims / 2));
}

Buffer buffer_of(const Runtime& runtime, std::span<const std::byte> bytes) {
  Buffer buffer = take(runtime.create_buffer(bytes.size()));
  require(runtime.write(buffer, 0, bytes));
  return buffer;
}

}  // namespace

void open_rotary(const RunOptions& options, RunInputs& inputs) {
  if (options.rotary.style == RotaryStyle::kNone) return;
  const AttentionDesc& desc = inputs.problem.desc;
  if (is_quantised(desc.key.type)) {
    fail_usage("--rotary turns keys on the device before attention, but --kv-type " +
               std::string(name(desc.key.type)) + " stores them in blocks; turn them beforehand");
  }
  RotaryDesc rotary = options.rotary;
  if (rotary.dims == 0) rotary.dims = desc.head_dim;
  if (!options.rotary_frequencies.empty()) {
    rotary.has_frequencies = true;
    inputs.frequencies = read_frequencies(options.rotary_frequencies, rotary.dims);
  }
  const TensorExtents queries = query_extents(desc, desc.head_dim);
  TensorExtents keys = key_extents(desc, desc.head_dim);
  if (repeats(inputs.key, desc)) keys.batch = 1;
  inputs.turned = {
      {&AttentionTensors::query, turning_desc(desc.query, queries, rotary), desc.query.strides->batch,
       options.query_positions.empty()
           ? aligned_positions(inputs)
           : read_positions(options.query_positions, "--query-positions", queries)},
      {&AttentionTensors::key, turning_desc(desc.key, keys, rotary), desc.key.strides->batch,
       options.key_positions.empty() ? counted_positions(inputs, keys)
                                     : read_positions(options.key_positions, "--key-positions", keys)}};
  for (const TurnedRows& rows : inputs.turned) require(validate(rows.desc));
}

void turn_rows(const Transfer& transfer, const RunInputs& inputs) {
  const Runtime& runtime = transfer.runtime;
  for (const TurnedRows& rows : inputs.turned) {
    if (rows.positions.empty() || rows.desc.is_empty()) continue;
    const AppendPlan plan = take(runtime.make_plan(rows.desc));
    const auto numbers = std::span(rows.positions);
    const Buffer positions = buffer_of(runtime, std::as_bytes(numbers));
    std::optional<Buffer> frequencies;
    if (!inputs.frequencies.empty())
      frequencies = buffer_of(runtime, std::as_bytes(std::span(inputs.frequencies)));
    const auto count = static_cast<std::size_t>(rows.desc.batch);
    std::vector<Bindings> all;
    for (std::size_t entry = 0; entry < numbers.size() / count; ++entry) {
      AppendTensors tensors;
      tensors.query = harness::range_of(transfer.run.tensor(rows.tensor));
      const VkDeviceSize skipped =
          entry * static_cast<VkDeviceSize>(rows.entry_stride) * element_bytes(rows.desc.query.type);
      tensors.query.offset += skipped;
      tensors.query.size -= skipped;
      tensors.query_output = tensors.query;
      tensors.positions = positions.range();
      tensors.positions.offset += entry * count * sizeof(std::int32_t);
      tensors.positions.size = count * sizeof(std::int32_t);
      if (frequencies) tensors.frequencies = frequencies->range();
      all.push_back(take(plan.make_bindings(tensors)));
    }
    static_cast<void>(take(runtime.execute([&](VkCommandBuffer commands) {
      for (const Bindings& bindings : all) plan.record(commands, bindings);
    })));
  }
}

}  // namespace vkattn::cli
