// Reads the shapes of the input files and makes the problem.
#include "run_inputs.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <utility>

#include "console.hpp"
#include "error.hpp"
#include "npy_lengths.hpp"

namespace vkattn::cli {
namespace {

enum class Axis { kBatch, kHead, kRow, kDim };

/// The meaning of each axis, slowest first, of an array of this rank.
std::span<const Axis> axes_of(Layout layout, std::size_t rank) {
  static constexpr std::array kBhsd = {Axis::kBatch, Axis::kHead, Axis::kRow, Axis::kDim};
  static constexpr std::array kBshd = {Axis::kBatch, Axis::kRow, Axis::kHead, Axis::kDim};
  static constexpr std::array kSingleHead = {Axis::kRow, Axis::kDim};
  if (rank == 2) return kSingleHead;
  return std::span(layout == Layout::kBshd ? kBshd : kBhsd).last(rank);
}

/// Element strides of an array whose first index runs fastest. An axis that the rank leaves out has size 1.
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

/// If keys are not packed, they have a batch axis, which packed queries do not have. set_cache() checks the
/// batch size of the keys.
void require_matching_ranks(const InputFile& query, const InputFile& key, const InputFile& value,
                            bool packed_apart) {
  const auto as_int = [](std::size_t rank) { return static_cast<std::int64_t>(rank); };
  const InputFile& other = packed_apart ? key : query;
  if (!packed_apart) require_equal(query, key, "rank", as_int(query.rank()), as_int(key.rank()));
  require_equal(other, value, "rank", as_int(other.rank()), as_int(value.rank()));
}

void require_matching_shapes(const InputFile& query, const InputFile& key, const InputFile& value) {
  require_equal(key, value, "heads", key.heads, value.heads);
  require_equal(key, value, "length", key.length, value.length);
  require_equal(query, key, "head dimension", query.dim, key.dim);
  const bool heads_fit = key.heads == 0 ? query.heads == 0 : query.heads % key.heads == 0;
  if (!heads_fit) {
    fail_usage("the " + std::to_string(query.heads) + " heads of " + query.text() +
               " are no multiple of the " + std::to_string(key.heads) + " of " + key.text());
  }
}

/// Reads one float for each query head.
std::vector<float> read_per_head(const PerHeadFile& file, std::int64_t heads) {
  npy::Reader reader = take(npy::Reader::open(file.path));
  const npy::Header& header = reader.header();
  if (header.shape.size() != 1 || header.shape[0] != heads) {
    fail_usage(file.path + ": shape " + npy::shape_text(header.shape) + " does not fit " + file.option +
               "; one number for each query head is needed, so shape (" + std::to_string(heads) + ",)");
  }
  return take(npy::read_floats(reader, heads, npy::Beyond::kLargest));
}

DataType default_type(const InputFile& query, const InputFile& key, const InputFile& value) {
  const bool all_half = std::ranges::all_of(std::array{&query, &key, &value}, [](const InputFile* input) {
    return input->reader.header().type == npy::ElementType::kFloat16;
  });
  return all_half ? DataType::kFloat16 : DataType::kFloat32;
}

}  // namespace

bool repeats(const InputFile& input, const AttentionDesc& desc) {
  return input.rank() == 4 && input.batch == 1 && desc.batch != 1 && !desc.has_packed_keys() &&
         desc.cache.mapping != KeyMapping::kPaged;
}

std::string InputFile::text() const {
  return role + " " + reader.path().string() + " " + npy::shape_text(reader.header().shape);
}

namespace {

/// Opens a floating-point array.
InputFile open_floats(const std::string& role, const std::string& path) {
  InputFile input{role, take(npy::Reader::open(path))};
  const npy::ElementType type = input.reader.header().type;
  if (!npy::is_float(type)) {
    fail_usage(path + ": the elements are " + std::string(npy::name(type)) + "; " + role +
               " has to be float16, float32 or float64");
  }
  return input;
}

/// Opens a floating-point array of rank 2 to 4.
InputFile open_input(const std::string& role, const std::string& path, Layout layout) {
  InputFile input = open_floats(role, path);
  const npy::Header& header = input.reader.header();
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

/// Keys or values must agree with those of the past in everything except the length.
void require_same_cache(const InputFile& past, const InputFile& now) {
  require_equal(past, now, "rank", static_cast<std::int64_t>(past.rank()),
                static_cast<std::int64_t>(now.rank()));
  require_equal(past, now, "batch size", past.batch, now.batch);
  require_equal(past, now, "heads", past.heads, now.heads);
  require_equal(past, now, "dimension", past.dim, now.dim);
}

/// An array that is not copied as it lies must lie in its file row by row.
void require_c_order(const InputFile& input, const std::string& because) {
  if (!input.reader.header().fortran_order) return;
  refuse_fortran_order(input.text(), because);
}

/// A row must be a whole number of blocks of its type.
void require_whole_blocks(const InputFile& input, DataType type) {
  const std::int64_t block = block_elements(type);
  if (input.dim % block == 0) return;
  fail_usage(input.text() + " has rows of " + std::to_string(input.dim) + ", but --kv-type " +
             std::string(name(type)) + " stores blocks of " + std::to_string(block) +
             "; pad the last dimension with zeros to " +
             std::to_string((input.dim + block - 1) / block * block) +
             " (of a key the query's too, and give --scale), or use e4m3 or f16");
}

void set_storage(RunInputs& inputs, const RunOptions& options) {
  AttentionDesc& desc = inputs.problem.desc;
  desc.set_type(options.type.value_or(default_type(inputs.query, inputs.key, inputs.value)));
  desc.key.type = options.key_type.value_or(desc.key.type);
  desc.value.type = options.value_type.value_or(desc.value.type);
  for (const auto& [input, type] :
       {std::pair(&inputs.key, desc.key.type), std::pair(&inputs.value, desc.value.type)}) {
    require_whole_blocks(*input, type);
  }
  desc = desc.resolved();
  for (const auto& [input, tensor] :
       {std::pair(&inputs.query, &desc.query), std::pair(&inputs.key, &desc.key),
        std::pair(&inputs.value, &desc.value)}) {
    if (is_quantised(tensor->type)) require_c_order(*input, "--kv-type " + std::string(name(tensor->type)));
    const npy::Header& header = input->reader.header();
    if (header.fortran_order) tensor->strides = fortran_strides(header, options.problem.desc.layout);
    if (input != &inputs.query && repeats(*input, desc)) tensor->strides->batch = 0;
  }
}

void open_past(RunInputs& inputs, const RunOptions& options) {
  if (options.past_key.empty()) return;
  inputs.past_key = open_input("past key", options.past_key, options.problem.desc.layout);
  inputs.past_value = open_input("past value", options.past_value, options.problem.desc.layout);
  require_same_cache(*inputs.past_key, inputs.key);
  require_same_cache(*inputs.past_value, inputs.value);
  require_equal(*inputs.past_key, *inputs.past_value, "length", inputs.past_key->length,
                inputs.past_value->length);
  for (const InputFile* input : {&inputs.key, &inputs.value, &*inputs.past_key, &*inputs.past_value}) {
    require_c_order(*input, "joining it with another");
  }
}

/// Opens the gradient of a result of this shape, if its option is given.
std::optional<InputFile> open_gradient(const std::string& option, const std::string& path,
                                       const std::string& result, const std::vector<std::int64_t>& shape) {
  if (path.empty()) return std::nullopt;
  InputFile input = open_floats("gradient of the " + result, path);
  if (input.reader.header().shape != shape) {
    fail_usage(input.text() + " has to have the shape of the " + result + ", " + npy::shape_text(shape));
  }
  require_c_order(input, option);
  return input;
}

void open_gradients(RunInputs& inputs, const RunOptions& options) {
  const std::size_t rank = inputs.query.rank();
  inputs.grad_output =
      open_gradient("--grad-output", options.grad_output, "output", output_shape(inputs.problem, rank));
  inputs.grad_lse = open_gradient("--grad-lse", options.grad_lse, "lse", lse_shape(inputs.problem, rank));
}

/// A mask with fewer keys than the problem hides the remaining keys. A mask made for the new keys alone has
/// that shape beside a past.
void warn_of_hidden_keys(RunInputs& inputs) {
  if (inputs.mask->missing == 0) return;
  const npy::Reader& reader = inputs.mask->reader;
  const std::int64_t has = reader.header().shape.back(), keys = inputs.problem.desc.kv_length;
  std::string text = "mask " + reader.path().string() + " has " + std::to_string(has) + " of " +
                     console::count(static_cast<std::uint64_t>(keys), "key") + ", so the last " +
                     std::to_string(keys - has) + (keys - has == 1 ? " is" : " are") + " hidden";
  if (inputs.past_key) {
    text += "; the " + std::to_string(inputs.past_key->length) +
            " of --past-key come first, and a mask has columns for them too";
  }
  inputs.warnings.push_back(std::move(text));
}

/// Queries after a past lie at the end of the keys, but the default places them at the beginning.
void warn_of_align(const RunOptions& options, RunInputs& inputs) {
  const std::int64_t past = inputs.past_key ? inputs.past_key->length : 0;
  if (!options.is_align_left_out || past == 0) return;
  inputs.warnings.push_back("query 0 lies at key 0 of " + std::to_string(inputs.problem.desc.kv_length) +
                            ", as without --align it does; where the queries follow the " +
                            console::count(static_cast<std::uint64_t>(past), "key") +
                            " of --past-key, give --align bottom-right");
}

/// If --layout bshd reads an array as more heads than keys, the array may be in the default layout.
void warn_of_layout(const RunOptions& options, RunInputs& inputs) {
  const InputFile& key = inputs.key;
  const bool is_in_doubt = options.problem.desc.layout == Layout::kBshd && key.rank() > 2 &&
                           key.heads > key.length && inputs.query.heads > inputs.query.length;
  if (!is_in_doubt || !options.page_table.empty()) return;
  inputs.warnings.push_back(key.text() + " has " + std::to_string(key.heads) + " heads of " +
                            console::count(static_cast<std::uint64_t>(key.length), "key") +
                            ", as --layout bshd reads it; if it is (batch, heads, length, dim), leave out "
                            "--layout");
}

/// Opens the inputs beside Q, K and V.
void open_features(RunInputs& inputs, const RunOptions& options) {
  Problem& problem = inputs.problem;
  AttentionDesc& desc = problem.desc;
  if (!options.kv_lengths.empty()) {
    desc.kv_lengths = Lengths::kPerEntry;
    const char* const of_what = options.page_table.empty() ? "key and value" : "a row of --page-table";
    problem.kv_lengths =
        take(npy::read_lengths(options.kv_lengths, "--kv-lengths", desc.batch, desc.kv_length, of_what));
  }
  if (!options.query_lengths.empty()) {
    desc.query_lengths = Lengths::kPerEntry;
    problem.query_lengths = take(
        npy::read_lengths(options.query_lengths, "--query-lengths", desc.batch, desc.query_length, "query"));
  }
  for (const PerHeadFile& file : options.per_head) {
    inputs.per_head.push_back({file.tensor, read_per_head(file, desc.query_heads)});
  }
  open_page_table(options, inputs);
  if (!options.mask.empty()) {
    inputs.mask = open_mask(options.mask, problem);
    warn_of_hidden_keys(inputs);
  }
}

}  // namespace

void refuse_fortran_order(const std::string& file, const std::string& because) {
  fail_usage(file + " is in Fortran order, but " + because +
             " needs C order; save it with numpy.ascontiguousarray");
}

reference::Inputs lengths_of(const RunInputs& inputs) {
  reference::Inputs lengths;
  lengths.kv_lengths = inputs.problem.kv_lengths;
  lengths.query_lengths = inputs.problem.query_lengths;
  lengths.cumulative_query_lengths = inputs.cumulative_query_lengths;
  lengths.cumulative_kv_lengths = inputs.cumulative_kv_lengths;
  return lengths;
}

RunInputs open_run_inputs(const RunOptions& options) {
  RunInputs inputs{open_input("query", options.query, options.problem.desc.layout),
                   open_input("key", options.key, options.problem.desc.layout),
                   open_input("value", options.value, options.problem.desc.layout)};
  const InputFile& query = inputs.query;
  const InputFile& key = inputs.key;
  open_sequences(options, inputs);
  const bool packed_apart =
      !options.cumulative_query_lengths.empty() && options.cumulative_kv_lengths.empty();
  require_matching_ranks(query, key, inputs.value, packed_apart);
  require_matching_shapes(query, key, inputs.value);
  open_past(inputs, options);
  Problem& problem = inputs.problem;
  problem = options.problem;
  AttentionDesc& desc = problem.desc;
  desc.batch = query.batch;
  desc.query_heads = query.heads;
  desc.kv_heads = key.heads;
  desc.query_length = query.length;
  desc.kv_length = key.length + (inputs.past_key ? inputs.past_key->length : 0);
  desc.head_dim = query.dim;
  desc.value_dim = inputs.value.dim;
  set_sequences(options, inputs);
  set_cache(options, inputs);
  set_storage(inputs, options);
  open_features(inputs, options);
  open_gradients(inputs, options);
  require(validate(desc));  // positions start from the descriptor's offset, so it must be valid
  open_rotary(options, inputs);
  warn_of_align(options, inputs);
  warn_of_layout(options, inputs);
  return inputs;
}

namespace {

std::vector<std::int64_t> shape_of(Layout layout, std::size_t rank,
                                   const std::array<std::int64_t, 4>& sizes) {
  std::vector<std::int64_t> shape;
  for (const Axis axis : axes_of(layout, rank)) shape.push_back(sizes.at(static_cast<std::size_t>(axis)));
  return shape;
}

}  // namespace

std::vector<std::int64_t> output_shape(const Problem& problem, std::size_t rank) {
  const TensorExtents extents = query_extents(problem.desc, problem.desc.value_dim);
  return shape_of(problem.desc.layout, rank, {extents.batch, extents.heads, extents.rows, extents.dims});
}

std::vector<std::int64_t> present_shape(const RunInputs& inputs, bool of_value) {
  const AttentionDesc& desc = inputs.problem.desc;
  const InputFile& input = of_value ? inputs.value : inputs.key;
  return shape_of(desc.layout, input.rank(), {input.batch, desc.kv_heads, desc.kv_length, input.dim});
}

std::vector<std::int64_t> lse_shape(const Problem& problem, std::size_t rank) {
  const TensorExtents extents = query_extents(problem.desc, 1);
  const std::array<std::int64_t, 3> sizes = {extents.batch, extents.heads, extents.rows};
  const std::size_t dropped = 4 - rank;
  return {sizes.begin() + static_cast<std::ptrdiff_t>(dropped), sizes.end()};
}

std::vector<std::int64_t> weights_shape(const Problem& problem, std::size_t rank) {
  const TensorExtents extents = score_extents(problem.desc);
  const std::array<std::int64_t, 4> sizes = {extents.batch, extents.heads, extents.rows, extents.dims};
  const std::size_t dropped = problem.desc.has_packed_queries() ? 0 : 4 - rank;
  return {sizes.begin() + static_cast<std::ptrdiff_t>(dropped), sizes.end()};
}

}  // namespace vkattn::cli
