// A cache of keys and values on the device.
#pragma once

#include <pybind11/numpy.h>

#include <vkattn/cache.hpp>
#include <vkattn/multi_head_attention.hpp>
#include <vkattn/runtime.hpp>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "device_arrays.hpp"
#include "score_inputs.hpp"
#include "session.hpp"

namespace vkattn::python {

/// The options that make a cache.
struct CacheOptions {
  std::int64_t batch = 1;
  std::int64_t kv_heads = 1;
  std::int64_t capacity = 0;  ///< positions of a batch entry, or rows of a ring
  std::int64_t head_dim = 0;
  std::int64_t value_dim = 0;
  DataType key_type = DataType::kFloat32;
  DataType value_type = DataType::kFloat32;
  CacheLayout layout;
  RotaryDesc rotary;
};

/// Lists of int32 and float32 that a cache always keeps on the device.
struct CacheLists {
  using OptionalArray = std::optional<pybind11::array>;
  OptionalArray page_table;    ///< (batch, page_table_stride)
  OptionalArray key_scales;    ///< kFloat8E4m3: one for each KV head
  OptionalArray value_scales;  ///< kFloat8E4m3: one for each KV head
  OptionalArray frequencies;   ///< rotary.dims / 2
};

/// The queries of one call, and their positions among the keys.
struct CacheQueries {
  pybind11::array query;                  ///< (batch, query_heads, query_length, head_dim)
  std::int64_t kv_length = 0;             ///< most keys of a batch entry
  std::optional<pybind11::array> counts;  ///< int32, queries of each batch entry; not given: all
  pybind11::array positions;              ///< int32, of each entry's first query, for rotation
};

/// Keys and values on the device, and the number of keys of each batch entry.
class Cache {
 public:
  Cache(std::shared_ptr<Session> session, const CacheOptions& options, const CacheLists& lists);

  /// Sets the page of each run of positions, int32 (batch, page_table_stride).
  void set_page_table(const pybind11::array& table);
  /// Sets the number of keys of each batch entry, int32.
  void set_lengths(const pybind11::array& lengths);
  /// The numbers of keys that the last execution has left on the device. Fails in a forked process, as every
  /// use of the device does.
  [[nodiscard]] std::vector<std::int64_t> lengths() const;
  /// Adds new rows to each batch entry: all of them, or the first ones that counts, int32, says. Python's
  /// side has checked that there is room.
  void append(const pybind11::array& key, const pybind11::array& value,
              const std::optional<pybind11::array>& counts);
  /// Attends over the keys that the cache holds. Returns (output, lse or None, weights or None).
  [[nodiscard]] pybind11::tuple attention(const CacheQueries& queries, const ScoreOptions& options);

  /// For a layer that appends and attends by itself.
  /// @{
  [[nodiscard]] const Session& session() const { return *session_; }
  /// Sets the storage of keys and values in a descriptor.
  void describe_keys(AttentionDesc& desc, std::int64_t kv_length) const;
  /// Sets the tensors of the cache that the layer reads and writes.
  void add_to(MultiHeadAttentionTensors& tensors) const;
  /// Adds the appended rows to lengths(): new_length for each batch entry, or its count, int32.
  void grow(std::int64_t new_length, std::span<const std::byte> counts);
  /// @}

 private:
  /// Sets the tensors of the cache that attention reads.
  void add_to(AttentionTensors& tensors) const;
  [[nodiscard]] AttentionDesc attention_desc(const CacheQueries& queries, const InputArray& query) const;
  [[nodiscard]] AppendDesc append_desc(std::int64_t new_length) const;
  /// Brings the queries to the device, and rotates them if keys are rotated.
  [[nodiscard]] BufferRange prepare_queries(const Runtime& runtime, const AttentionDesc& desc,
                                            const InputArray& query, std::span<const std::byte> positions,
                                            RunMemory& memory);
  void execute_append(const Runtime& runtime, const AppendDesc& desc, const AppendTensors& tensors);

  std::shared_ptr<Session> session_;  // outlives the rest
  CacheOptions options_;
  Buffer key_;
  Buffer value_;
  Buffer lengths_;
  // The contents of lengths_. They are written after the device has executed, within the same lock, so that
  // no interrupt and no other thread of Python comes between the two.
  mutable std::mutex host_lengths_mutex_;
  std::vector<std::int64_t> host_lengths_;
  Buffer page_table_;
  Buffer key_scales_;
  Buffer value_scales_;
  Buffer frequencies_;
};

}  // namespace vkattn::python
