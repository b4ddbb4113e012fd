// Which query or key of the problem lies at a row of a tensor's memory.
#pragma once

#include <optional>
#include <vector>

#include "harness/data.hpp"
#include "harness/small_inputs.hpp"
#include "problem/problem.hpp"

namespace vkattn::harness {

/// The keys of a batch entry that is not packed.
[[nodiscard]] std::int64_t key_length(const Problem& problem, std::int64_t batch);

/// The keys of a batch entry that come by the problem's append, but for those at positions below 0:
/// problem.appended, or of packed queries at most as many as there are.
[[nodiscard]] std::int64_t new_rows(const Problem& problem, std::int64_t batch);

/// That a key comes by the problem's append.
[[nodiscard]] bool is_appended(const Problem& problem, std::int64_t batch, std::int64_t key);

/// From rows of memory to rows of the problem, for Q, K and V in every form that a cache and packed sequences
/// give them.
class RowMap {
 public:
  RowMap(const Problem& problem, const SmallInputs& inputs, TensorRole role);

  struct Place {
    std::int64_t batch = 0;
    std::int64_t row = 0;
  };
  /// Nothing where no row of the problem lies: spare pages, the unused part of a ring, rows beyond the last
  /// sequence.
  [[nodiscard]] std::optional<Place> at(std::int64_t batch, std::int64_t row) const;

 private:
  void add_sequences(const AttentionDesc& desc, const std::vector<std::int32_t>& cumulative,
                     std::int64_t longest);
  void add_ring(const Problem& problem);
  void add_pages(const AttentionDesc& desc, const std::vector<std::int32_t>& page_table);
  void put(std::int64_t batch, std::int64_t row, Place place);

  bool is_identity_ = true;
  std::int64_t rows_ = 0;  ///< of each batch entry of the memory
  std::vector<Place> places_;
};

}  // namespace vkattn::harness
