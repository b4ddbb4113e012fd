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

/// What a cache is made with.
struct CacheOptions {
  std::int64_t batch = 1;
  std::int64_t kv_heads = 1;
  std::int64_t capacity = 0;  ///< positions of a batch entry; of a ring, rows
  std::int64_t head_dim = 0;
  std::int64_t value_dim = 0;
  DataType key_type = DataType::kFloat32;
  DataType value_type = DataType::kFloat32;
  CacheLayout layout;
  RotaryDesc rotary;
};

/// Lists of numbers that a cache has on the device all the time: int32 and float32.
struct CacheLists {
  using OptionalArray = std::optional<pybind11::array>;
  OptionalArray page_table;    ///< (batch, page_table_stride)
  OptionalArray key_scales;    ///< one for each KV head, of kFloat8E4m3
  OptionalArray value_scales;  ///< likewise
  OptionalArray frequencies;   ///< rotary.dims / 2
};

/// The queries of one call, and where they are among the keys.
struct CacheQueries {
  pybind11::array query;                  ///< (batch, query_heads, query_length, head_dim)
  std::int64_t kv_length = 0;             ///< most keys of a batch entry
  std::optional<pybind11::array> counts;  ///< int32, of each batch entry's queries; not given: all
  pybind11::array positions;              ///< int32, of each batch entry's first query, for rotation
};

/// Keys and values, and how many each batch entry has, which stays on the device.
class Cache {
 public:
  Cache(std::shared_ptr<Session> session, const CacheOptions& options, const CacheLists& lists);

  /// Which page holds which positions, int32 (batch, page_table_stride).
  void set_page_table(const pybind11::array& table);
  /// How many keys each batch entry has, int32.
  void set_lengths(const pybind11::array& lengths);
  /// The same, as the last execution that changed them has left them on the device. Like all that is done on
  /// it, not in a forked process.
  [[nodiscard]] std::vector<std::int64_t> lengths() const;
  /// New rows of each batch entry, of the first so many where counts, int32, are given. Python's side has
  /// seen to it that there is room for them.
  void append(const pybind11::array& key, const pybind11::array& value,
              const std::optional<pybind11::array>& counts);
  /// (output, lse or None, weights or None) of queries over the keys that the cache holds.
  [[nodiscard]] pybind11::tuple attention(const CacheQueries& queries, const ScoreOptions& options);

  /// For calls of a layer that appends and attends by itself.
  /// @{
  [[nodiscard]] const Session& session() const { return *session_; }
  /// Sets the storage of keys and values in a descriptor.
  void describe_keys(AttentionDesc& desc, std::int64_t kv_length) const;
  /// Sets what the layer reads and writes of the cache.
  void add_to(MultiHeadAttentionTensors& tensors) const;
  /// Adds to lengths() what was appended: new_length for each batch entry, or its count, int32.
  void grow(std::int64_t new_length, std::span<const std::byte> counts);
  /// @}

 private:
  /// Sets what attention reads of the cache.
  void add_to(AttentionTensors& tensors) const;
  [[nodiscard]] AttentionDesc attention_desc(const CacheQueries& queries, const InputArray& query) const;
  [[nodiscard]] AppendDesc append_desc(std::int64_t new_length) const;
  /// The queries on the device, rotated where keys are.
  [[nodiscard]] BufferRange prepare_queries(const Runtime& runtime, const AttentionDesc& desc,
                                            const InputArray& query, std::span<const std::byte> positions,
                                            RunMemory& memory);
  void execute_append(const Runtime& runtime, const AppendDesc& desc, const AppendTensors& tensors);

  std::shared_ptr<Session> session_;  // outlives the rest
  CacheOptions options_;
  Buffer key_;
  Buffer value_;
  Buffer lengths_;
  // What lengths_ holds. Written where the device has executed, so that no interrupt and no other thread of
  // Python's comes between the two.
  mutable std::mutex host_lengths_mutex_;
  std::vector<std::int64_t> host_lengths_;
  Buffer page_table_;
  Buffer key_scales_;
  Buffer value_scales_;
  Buffer frequencies_;
};

}  // namespace vkattn::python
