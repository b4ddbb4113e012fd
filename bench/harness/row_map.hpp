// Which query or key of the problem lies in a row of a tensor's memory.
#pragma once

#include <optional>
#include <vector>

#include "harness/data.hpp"
#include "harness/small_inputs.hpp"
#include "problem/problem.hpp"

namespace vkattn::harness {

/// The number of keys of a batch entry that is not packed.
[[nodiscard]] std::int64_t key_length(const Problem& problem, std::int64_t batch);

/// The number of keys of a batch entry that the problem appends: problem.appended, or with packed queries at
/// most the number of queries. Keys at positions below 0 do not count.
[[nodiscard]] std::int64_t new_rows(const Problem& problem, std::int64_t batch);

/// Whether the problem appends this key.
[[nodiscard]] bool is_appended(const Problem& problem, std::int64_t batch, std::int64_t key);

/// Maps rows of memory to rows of the problem, for Q, K and V in every form of cache and packed sequences.
class RowMap {
 public:
  RowMap(const Problem& problem, const SmallInputs& inputs, TensorRole role);

  struct Place {
    std::int64_t batch = 0;
    std::int64_t row = 0;
  };
  /// Nothing if the row holds no row of the problem: in spare pages, in the unused part of a ring, beyond the
  /// last sequence.
  [[nodiscard]] std::optional<Place> at(std::int64_t batch, std::int64_t row) const;

 private:
  void add_sequences(const AttentionDesc& desc, const std::vector<std::int32_t>& cumulative,
                     std::int64_t longest);
  void add_ring(const Problem& problem);
  void add_pages(const AttentionDesc& desc, const std::vector<std::int32_t>& page_table);
  void put(std::int64_t batch, std::int64_t row, Place place);

  bool is_identity_ = true;
  std::int64_t rows_ = 0;  ///< rows of each batch entry in memory
  std::vector<Place> places_;
};

}  // namespace vkattn::harness
