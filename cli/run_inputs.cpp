// Shapes of the input files and the problem they make.
#include "run_inputs.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <utility>

#include "console.hpp"
#include "error.hpp"

namespace vkattn::cli {
namespace {

enum class Axis { kBatch, kHead, kRow, kDim };

/// The meaning of each axis, slowest first, of an array of that rank.
std::span<const Axis> axes_of(Layout layout, std::size_t rank) {
  static constexpr std::array kBhsd = {Axis::kBatch, Axis::kHead, Axis::kRow, Axis::kDim};
  static constexpr std::array kBshd = {Axis::kBatch, Axis::kRow, Axis::kHead, Axis::kDim};
  static constexpr std::array kSingleHead = {Axis::kRow, Axis::kDim};
  if (rank == 2) return kSingleHead;
  return std::span(layout == Layout::kBshd ? kBshd : kBhsd).last(rank);
}

/// Element strides of an array whose first index runs fastest. Axes that the rank leaves out have size 1.
Strides fortran_strides(const npy::Header& header, Layout layout) {
  Strides strides{header.elements, header.elements, header.elements, header.elements};
  std::int64_t stride = 1;
  const std::span<const Axis> axes = axes_of(layout, header.shape.size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    switch (axes[i]) {
      case Axis::kBatch:
        strides.batch = stride;
        break;
      case Axis::kHead:
        strides.head = stride;
        break;
      case Axis::kRow:
        strides.row = stride;
        break;
      case Axis::kDim:
        strides.dim = stride;
        break;
    }
    stride *= header.shape[i];
  }
  return strides;
}

void require_equal(const InputFile& a, const InputFile& b, const char* what, std::int64_t in_a,
                   std::int64_t in_b) {
  if (in_a == in_b) return;
  fail_usage(a.text() + " and " + b.text() + " differ in " + what + ": " + std::to_string(in_a) + " and " +
             std::to_string(in_b));
}

void require_matching_shapes(const InputFile& query, const InputFile& key, const InputFile& value) {
  const auto as_int = [](std::size_t rank) { return static_cast<std::int64_t>(rank); };
  require_equal(query, key, "rank", as_int(query.rank()), as_int(key.rank()));
  require_equal(query, value, "rank", as_int(query.rank()), as_int(value.rank()));
  require_equal(query, key, "batch size", query.batch, key.batch);
  require_equal(query, value, "batch size", query.batch, value.batch);
  require_equal(key, value, "heads", key.heads, value.heads);
  require_equal(key, value, "length", key.length, value.length);
  require_equal(query, key, "head dimension", query.dim, key.dim);
  const bool heads_fit = key.heads == 0 ? query.heads == 0 : query.heads % key.heads == 0;
  if (!heads_fit) {
    fail_usage("the " + std::to_string(query.heads) + " heads of " + query.text() +
               " are no multiple of the " + std::to_string(key.heads) + " of " + key.text());
  }
}

std::vector<std::int32_t> read_kv_lengths(const std::string& path, const AttentionDesc& desc) {
  npy::Reader reader = take(npy::Reader::open(path));
  const npy::Header& header = reader.header();
  const std::string array = path + ": shape " + npy::shape_text(header.shape);
  if (header.shape.size() != 1 || header.shape[0] != desc.batch) {
    fail_usage(array + " does not fit --kv-lengths; one length for each batch entry is needed, so shape (" +
               std::to_string(desc.batch) + ",)");
  }
  std::vector<std::int32_t> lengths;
  for (const std::int64_t length : take(npy::read_integers(reader, desc.batch))) {
    if (length < 0 || length > desc.kv_length) {
      fail_usage(path + ": key length " + std::to_string(length) + " at index " +
                 std::to_string(lengths.size()) + " is not from 0 to " + std::to_string(desc.kv_length) +
                 ", the length of key and value");
    }
    lengths.push_back(static_cast<std::int32_t>(length));
  }
  return lengths;
}

DataType default_type(const InputFile& query, const InputFile& key, const InputFile& value) {
  const bool all_half = std::ranges::all_of(std::array{&query, &key, &value}, [](const InputFile* input) {
    return input->reader.header().type == npy::ElementType::kFloat16;
  });
  return all_half ? DataType::kFloat16 : DataType::kFloat32;
}

}  // namespace

std::string InputFile::text() const {
  return role + " " + reader.path().string() + " " + npy::shape_text(reader.header().shape);
}

InputFile open_input(const std::string& role, const std::string& path, Layout layout) {
  InputFile input{role, take(npy::Reader::open(path))};
  const npy::Header& header = input.reader.header();
  if (!npy::is_float(header.type)) {
    fail(path + ": the elements are " + std::string(npy::name(header.type)) + "; " + role +
         " has to be float16, float32 or float64");
  }
  if (input.rank() < 2 || input.rank() > 4) {
    fail_usage(path + ": shape " + npy::shape_text(header.shape) + " has rank " +
               std::to_string(input.rank()) + "; " + role +
               " has to be of rank 4 (batch, heads, length, dim), 3 (one batch entry) or 2 (one head)");
  }
  const std::span<const Axis> axes = axes_of(layout, input.rank());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::array<std::int64_t*, 4> sizes = {&input.batch, &input.heads, &input.length, &input.dim};
    *sizes.at(static_cast<std::size_t>(axes[i])) = header.shape[i];
  }
  return input;
}

Problem make_problem(const InputFile& query, const InputFile& key, const InputFile& value,
                     const ProblemOptions& options) {
  require_matching_shapes(query, key, value);
  Problem problem;
  problem.layout = options.layout;
  AttentionDesc& desc = problem.desc;
  desc.batch = query.batch;
  desc.query_heads = query.heads;
  desc.kv_heads = key.heads;
  desc.query_length = query.length;
  desc.kv_length = key.length;
  desc.head_dim = query.dim;
  desc.value_dim = value.dim;
  desc.set_type(options.type.value_or(default_type(query, key, value)));
  desc.set_layout(options.layout);
  for (const auto& [input, tensor] :
       {std::pair(&query, &desc.query), std::pair(&key, &desc.key), std::pair(&value, &desc.value)}) {
    const npy::Header& header = input->reader.header();
    if (header.fortran_order) tensor->strides = fortran_strides(header, options.layout);
  }
  // The tool's own buffers begin aligned.
  for (TensorDesc* tensor : {&desc.query, &desc.key, &desc.value, &desc.output}) tensor->alignment_bytes = 16;
  desc.scale = options.scale;
  desc.causal = options.causal;
  desc.align = options.align;
  desc.offset = options.offset;
  desc.has_lse = options.lse;
  if (!options.kv_lengths_path.empty()) {
    desc.has_kv_lengths = true;
    problem.kv_lengths = read_kv_lengths(options.kv_lengths_path, desc);
  }
  require(validate(desc));
  return problem;
}

std::vector<std::int64_t> output_shape(const Problem& problem, std::size_t rank) {
  const AttentionDesc& desc = problem.desc;
  const std::array<std::int64_t, 4> sizes = {desc.batch, desc.query_heads, desc.query_length, desc.value_dim};
  std::vector<std::int64_t> shape;
  for (const Axis axis : axes_of(problem.layout, rank))
    shape.push_back(sizes.at(static_cast<std::size_t>(axis)));
  return shape;
}

std::vector<std::int64_t> lse_shape(const Problem& problem, std::size_t rank) {
  const std::array<std::int64_t, 3> sizes = {problem.desc.batch, problem.desc.query_heads,
                                             problem.desc.query_length};
  const std::size_t dropped = 4 - rank;
  return {sizes.begin() + static_cast<std::ptrdiff_t>(dropped), sizes.end()};
}

}  // namespace vkattn::cli
