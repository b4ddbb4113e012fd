// Making a cache and appending to it: see cache.hpp.
#include "cache.hpp"

#include <pybind11/stl.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "module.hpp"

namespace py = pybind11;

namespace vkattn::python {
namespace {

DataType storage_type(const std::string& type_name) {
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16, DataType::kQ8_0,
                              DataType::kQ4_0, DataType::kFloat8E4m3}) {
    if (type_name == name(type)) return type;
  }
  fail("a cache stores float32, float16, bfloat16, q8_0, q4_0 or e4m3, not '" + type_name + "'");
}

RotaryStyle rotary_style(const std::string& style) {
  if (style == "half-split") return RotaryStyle::kHalfSplit;
  if (style == "interleaved") return RotaryStyle::kInterleaved;
  fail("a rotary style is 'half-split' or 'interleaved', not '" + style + "'");
}

std::size_t bytes_of_keys(const AttentionDesc& desc, const TensorDesc& tensor, std::int64_t dims) {
  const TensorExtents e = key_extents(desc, dims);
  return static_cast<std::size_t>(take(tensor_bytes(tensor, e.batch, e.heads, e.rows, e.dims)));
}

/// Requires scales for e4m3, which has a scale for each KV head, and none for other types.
void require_scales(DataType type, bool are_given, const char* name, const char* what) {
  const bool are_needed = type == DataType::kFloat8E4m3;
  if (are_given == are_needed) return;
  fail(std::string(name) + (are_given ? " are given, but " : " are not given, but ") + what +
       " are stored as " + std::string(vkattn::name(type)) +
       (are_needed ? ", which has a scale for each KV head" : ", which has none"));
}

/// Checks that there are as many numbers as the cache reads.
InputList checked_list(const CacheLists::OptionalArray& array, std::int64_t count, const char* name,
                       const char* one_for_each) {
  return array ? InputList(*array, count, name, one_for_each) : InputList();
}

}  // namespace

Cache::Cache(std::shared_ptr<Session> session, const CacheOptions& options, const CacheLists& lists)
    : session_(std::move(session)), options_(options) {
  AttentionDesc desc;
  desc.query_heads = options.kv_heads;
  desc.query_length = 1;
  desc.head_dim = options.head_dim;
  describe_keys(desc, options.capacity);
  desc = desc.resolved();
  take(validate(append_desc(0)));
  take(validate(desc));
  require_scales(options.key_type, lists.key_scales.has_value(), "key_scales", "keys");
  require_scales(options.value_type, lists.value_scales.has_value(), "value_scales", "values");
  host_lengths_.assign(static_cast<std::size_t>(options.batch), 0);
  const std::size_t key_bytes = bytes_of_keys(desc, desc.key, options.head_dim);
  const std::size_t value_bytes = bytes_of_keys(desc, desc.value, options.value_dim);
  const InputList key_scales = checked_list(lists.key_scales, options.kv_heads, "key_scales", "each KV head");
  const InputList value_scales =
      checked_list(lists.value_scales, options.kv_heads, "value_scales", "each KV head");
  const InputList frequencies =
      checked_list(lists.frequencies, options.rotary.dims / 2, "frequencies", "each pair of dims");
  session_->use([&](const Runtime& runtime) {
    key_ = device_buffer(runtime, key_bytes);
    value_ = device_buffer(runtime, value_bytes);
    const std::vector<std::int32_t> none(static_cast<std::size_t>(options.batch), 0);
    lengths_ = upload(runtime, std::as_bytes(std::span(none)));
    key_scales_ = upload(runtime, key_scales.bytes());
    value_scales_ = upload(runtime, value_scales.bytes());
    frequencies_ = upload(runtime, frequencies.bytes());
  });
  if (lists.page_table) set_page_table(*lists.page_table);
}

void Cache::describe_keys(AttentionDesc& desc, std::int64_t kv_length) const {
  desc.batch = options_.batch;
  desc.kv_heads = options_.kv_heads;
  desc.kv_length = kv_length;
  desc.kv_lengths = Lengths::kPerEntry;
  desc.value_dim = options_.value_dim;
  desc.key.type = options_.key_type;
  desc.value.type = options_.value_type;
  desc.cache = options_.layout;
}

void Cache::add_to(AttentionTensors& tensors) const {
  tensors.key = key_.range();
  tensors.value = value_.range();
  tensors.kv_lengths = lengths_.range();
  tensors.page_table = page_table_.range();
  tensors.key_scales = key_scales_.range();
  tensors.value_scales = value_scales_.range();
}

void Cache::add_to(MultiHeadAttentionTensors& tensors) const {
  add_to(tensors.attention);
  tensors.cache_key = key_.range();
  tensors.cache_value = value_.range();
  tensors.positions = lengths_.range();
}

void Cache::set_page_table(const py::array& table) {
  const py::array dense = without_gaps(table);
  const std::span bytes = bytes_of(dense);
  session_->use([&](const Runtime& runtime) { page_table_ = upload(runtime, bytes); });
}

void Cache::set_lengths(const py::array& lengths) {
  const InputList list(lengths, options_.batch, "lengths", "each batch entry");
  const std::span bytes = list.bytes();
  std::vector<std::int32_t> numbers(bytes.size() / sizeof(std::int32_t));
  if (numbers.size() != static_cast<std::size_t>(options_.batch)) fail("lengths must be int32");
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  session_->use([&](const Runtime& runtime) {
    take(runtime.write(lengths_, 0, bytes));
    const std::lock_guard lock(host_lengths_mutex_);
    host_lengths_.assign(numbers.begin(), numbers.end());
  });
}

std::vector<std::int64_t> Cache::lengths() const {
  session_->require_own_process();
  const std::lock_guard lock(host_lengths_mutex_);
  return host_lengths_;
}

void Cache::grow(std::int64_t new_length, std::span<const std::byte> counts) {
  const std::lock_guard lock(host_lengths_mutex_);
  for (std::size_t i = 0; i < host_lengths_.size(); ++i) {
    std::int32_t count = 0;
    if (!counts.empty()) std::memcpy(&count, counts.data() + i * sizeof count, sizeof count);
    host_lengths_[i] += counts.empty() ? new_length : count;
  }
}

AppendDesc Cache::append_desc(std::int64_t new_length) const {
  AppendDesc desc;
  desc.batch = options_.batch;
  desc.kv_heads = options_.kv_heads;
  desc.new_length = new_length;
  desc.head_dim = options_.head_dim;
  desc.value_dim = options_.value_dim;
  desc.cache_key.type = options_.key_type;
  desc.cache_value.type = options_.value_type;
  desc.cache = options_.layout;
  desc.cache_length = options_.capacity;
  desc.has_positions = desc.writes_kv_lengths = true;
  desc.rotary = options_.rotary;
  return desc;
}

void Cache::append(const py::array& key, const py::array& value, const std::optional<py::array>& counts) {
  const InputArray keys(key, "key");
  const InputArray values(value, "value");
  AppendDesc desc = append_desc(keys.extents()[2]);
  desc.key = {element_type(key, "key"), keys.strides()};
  desc.value = {element_type(value, "value"), values.strides()};
  std::span<const std::byte> count_bytes;
  if (counts) {
    desc.new_lengths = Lengths::kPerEntry;
    count_bytes = bytes_of(*counts);
  }
  session_->use([&](const Runtime& runtime) {
    RunMemory memory(runtime);
    AppendTensors tensors;
    tensors.key = memory.upload(keys.bytes());
    tensors.value = memory.upload(values.bytes());
    tensors.cache_key = key_.range();
    tensors.cache_value = value_.range();
    tensors.positions = tensors.kv_lengths = lengths_.range();
    if (!count_bytes.empty()) tensors.new_lengths = memory.upload(count_bytes);
    tensors.page_table = page_table_.range();
    tensors.key_scales = key_scales_.range();
    tensors.value_scales = value_scales_.range();
    tensors.frequencies = frequencies_.range();
    execute_append(runtime, desc, tensors);
    grow(desc.new_length, count_bytes);
  });
}

void Cache::execute_append(const Runtime& runtime, const AppendDesc& desc, const AppendTensors& tensors) {
  const AppendPlan& plan = session_->plan(desc);
  if (plan.desc().is_empty()) return;
  const Bindings bindings = take(plan.make_bindings(tensors));
  take(runtime.execute([&](VkCommandBuffer commands) { plan.record(commands, bindings); }));
}

namespace {

void register_options(py::module_& module) {
  py::class_<RotaryDesc>(module, "Rotary")
      .def(py::init([](const std::string& style, std::int64_t dims, double base, double position_scale,
                       bool has_frequencies, double magnitude) {
             return RotaryDesc{rotary_style(style),          dims, base, position_scale, has_frequencies,
                               static_cast<float>(magnitude)};
           }),
           py::arg("style"), py::arg("dims"), py::arg("base"), py::arg("position_scale"),
           py::arg("has_frequencies"), py::arg("magnitude"));
  py::class_<CacheOptions>(module, "CacheOptions")
      .def(py::init<>())
      .def_readwrite("batch", &CacheOptions::batch)
      .def_readwrite("kv_heads", &CacheOptions::kv_heads)
      .def_readwrite("capacity", &CacheOptions::capacity)
      .def_readwrite("head_dim", &CacheOptions::head_dim)
      .def_readwrite("value_dim", &CacheOptions::value_dim)
      .def("set_types",
           [](CacheOptions& options, const std::string& key, const std::string& value) {
             options.key_type = storage_type(key);
             options.value_type = storage_type(value);
           })
      .def("set_ring",
           [](CacheOptions& options) {
             options.layout.mapping = KeyMapping::kRing;
             options.layout.ring_length = options.capacity;
           })
      .def("set_pages",
           [](CacheOptions& options, std::int64_t size, std::int64_t count, std::int64_t entries) {
             options.layout = {KeyMapping::kPaged, 0, size, count, entries};
           })
      .def_readwrite("rotary", &CacheOptions::rotary);
}

}  // namespace

void register_cache(py::module_& module) {
  using OptionalArray = CacheLists::OptionalArray;
  register_options(module);
  py::class_<Cache, std::shared_ptr<Cache>>(module, "Cache")
      .def(py::init([](std::shared_ptr<Session> session, const CacheOptions& options,
                       const OptionalArray& page_table, const OptionalArray& key_scales,
                       const OptionalArray& value_scales, const OptionalArray& frequencies) {
        return make_of_process<Cache>(std::move(session), options,
                                      CacheLists{page_table, key_scales, value_scales, frequencies});
      }))
      .def("set_page_table", &Cache::set_page_table)
      .def("set_lengths", &Cache::set_lengths)
      .def("lengths", &Cache::lengths)
      .def("require_own_process", [](const Cache& cache) { cache.session().require_own_process(); })
      .def("append", &Cache::append)
      .def("attention",
           [](Cache& cache, const py::array& query, std::int64_t kv_length, const OptionalArray& counts,
              const py::array& positions, const ScoreOptions& options) {
             return cache.attention({query, kv_length, counts, positions}, options);
           });
}

}  // namespace vkattn::python
