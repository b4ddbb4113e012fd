// A cache of keys and values on the device, for a decode loop.
#include <pybind11/stl.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "device_arrays.hpp"
#include "module.hpp"
#include "problem.hpp"
#include "session.hpp"

namespace py = pybind11;

namespace vkattn::python {
namespace {

DataType storage_type(const std::string& type_name) {
  for (const DataType type :
       {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16, DataType::kQ8_0, DataType::kQ4_0}) {
    if (type_name == name(type)) return type;
  }
  fail("a cache stores f32, f16, bf16, q8_0 or q4_0, not '" + type_name + "'");
}

struct CacheSizes {
  std::int64_t batch;
  std::int64_t kv_heads;
  std::int64_t capacity;
  std::int64_t head_dim;
  std::int64_t value_dim;
};

/// Keys and values in one piece, (batch, kv_heads, capacity, dim), and how many each batch entry has, which
/// stays on the device.
class Cache {
 public:
  Cache(std::shared_ptr<Session> session, const CacheSizes& sizes, const std::string& type)
      : session_(std::move(session)), sizes_(sizes), type_(storage_type(type)) {
    const AttentionDesc desc = attention_desc(1, DataType::kFloat32).resolved();
    take(validate(desc));
    const auto bytes = [&](const TensorDesc& tensor, std::int64_t dims) {
      const TensorExtents e = key_extents(desc, dims);
      return static_cast<std::size_t>(take(tensor_bytes(tensor, e.batch, e.heads, e.rows, e.dims)));
    };
    const std::size_t key_bytes = bytes(desc.key, sizes.head_dim);
    const std::size_t value_bytes = bytes(desc.value, sizes.value_dim);
    session_->use([&](const Runtime& runtime) {
      key_ = device_buffer(runtime, key_bytes);
      value_ = device_buffer(runtime, value_bytes);
      lengths_ = device_buffer(runtime, static_cast<std::size_t>(sizes.batch) * sizeof(std::int32_t));
      empty(runtime);
    });
  }

  void clear() {
    session_->use([&](const Runtime& runtime) { empty(runtime); });
  }

  /// New rows of each batch entry. Python's side has seen to it that there is room for them.
  void append(const py::array& key, const py::array& value) {
    const InputArray keys(key, "key");
    const InputArray values(value, "value");
    AppendDesc desc;
    desc.batch = sizes_.batch;
    desc.kv_heads = sizes_.kv_heads;
    desc.new_length = keys.extents()[2];
    desc.head_dim = sizes_.head_dim;
    desc.value_dim = sizes_.value_dim;
    desc.key = {element_type(key, "key"), keys.strides()};
    desc.value = {element_type(value, "value"), values.strides()};
    desc.cache_key.type = desc.cache_value.type = type_;
    desc.cache_length = sizes_.capacity;
    desc.has_positions = desc.writes_kv_lengths = true;
    session_->use([&](const Runtime& runtime) {
      const AppendDesc whole = desc.resolved();
      const AppendPlan& plan =
          append_plans_.get(whole, {}, [&] { return take(runtime.make_append_plan(whole)); });
      if (whole.is_empty()) return;
      const Buffer new_keys = upload(runtime, keys.bytes());
      const Buffer new_values = upload(runtime, values.bytes());
      AppendTensors tensors;
      tensors.key = new_keys.range();
      tensors.value = new_values.range();
      tensors.cache_key = key_.range();
      tensors.cache_value = value_.range();
      tensors.positions = tensors.kv_lengths = lengths_.range();
      const Bindings bindings = take(plan.make_bindings(tensors));
      take(runtime.execute([&](VkCommandBuffer commands) { plan.record(commands, bindings); }));
    });
  }

  /// (output, lse or None) of queries over all keys that the cache holds.
  py::tuple attention(const py::array& query, const Options& options) {
    const InputArray queries(query, "query");
    const Extents& extents = queries.extents();
    AttentionDesc desc = attention_desc(extents[2], element_type(query, "query"));
    desc.query_heads = extents[1];
    desc.query.strides = queries.strides();
    set_options(desc, options);
    take(validate(desc));
    py::array output = new_array(desc.output.type, {sizes_.batch, extents[1], extents[2], sizes_.value_dim});
    py::array lse = new_array(DataType::kFloat32, {sizes_.batch, extents[1], extents[2]});
    const std::span output_bytes = writable_bytes_of(output);
    const std::span lse_bytes = writable_bytes_of(lse);
    session_->use([&](const Runtime& runtime) {
      if (!desc.is_empty()) attend(runtime, desc, queries.bytes(), output_bytes, lse_bytes);
    });
    return py::make_tuple(std::move(output), options.has_lse ? py::object(std::move(lse)) : py::none());
  }

 private:
  [[nodiscard]] AttentionDesc attention_desc(std::int64_t query_length, DataType query_type) const {
    AttentionDesc desc;
    desc.batch = sizes_.batch;
    desc.query_heads = desc.kv_heads = sizes_.kv_heads;
    desc.query_length = query_length;
    desc.kv_length = sizes_.capacity;
    desc.kv_lengths = Lengths::kPerEntry;
    desc.head_dim = sizes_.head_dim;
    desc.value_dim = sizes_.value_dim;
    desc.query.type = desc.output.type = query_type;
    desc.key.type = desc.value.type = type_;
    return desc;
  }

  void empty(const Runtime& runtime) {
    const std::vector<std::int32_t> none(static_cast<std::size_t>(sizes_.batch), 0);
    take(runtime.write(lengths_, 0, std::as_bytes(std::span(none))));
  }

  void attend(const Runtime& runtime, const AttentionDesc& desc, std::span<const std::byte> query,
              std::span<std::byte> output_bytes, std::span<std::byte> lse_bytes) {
    const AttentionPlan& plan = session_->attention_plan(desc, {});
    const Buffer queries = upload(runtime, query);
    const Buffer output = device_buffer(runtime, output_bytes.size());
    const Buffer lse = desc.has_lse ? device_buffer(runtime, lse_bytes.size()) : Buffer();
    AttentionTensors tensors;
    tensors.query = queries.range();
    tensors.key = key_.range();
    tensors.value = value_.range();
    tensors.output = output.range();
    tensors.lse = lse.range();
    tensors.kv_lengths = lengths_.range();
    const Buffer workspace = take(runtime.create_workspace(plan));
    const Bindings bindings = take(plan.make_bindings(tensors, workspace.range()));
    take(runtime.execute(plan, bindings));
    take(runtime.read(output, 0, output_bytes));
    if (desc.has_lse) take(runtime.read(lse, 0, lse_bytes));
  }

  std::shared_ptr<Session> session_;  // outlives the rest
  CacheSizes sizes_;
  DataType type_;
  Buffer key_;
  Buffer value_;
  Buffer lengths_;
  KeptPlans<AppendDesc, AppendPlan> append_plans_;
};

}  // namespace

void register_cache(py::module_& module) {
  py::class_<Cache>(module, "Cache")
      .def(py::init([](std::shared_ptr<Session> session, std::int64_t batch, std::int64_t kv_heads,
                       std::int64_t capacity, std::int64_t head_dim, std::int64_t value_dim,
                       const std::string& type) {
        return std::make_unique<Cache>(std::move(session),
                                       CacheSizes{batch, kv_heads, capacity, head_dim, value_dim}, type);
      }))
      .def("append", &Cache::append)
      .def("attention", &Cache::attention)
      .def("clear", &Cache::clear);
}

}  // namespace vkattn::python
