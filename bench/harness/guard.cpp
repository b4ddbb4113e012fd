// Guards: see guard.hpp.
#include "harness/guard.hpp"

#include <cstring>
#include <string>

namespace vkattn::harness {
namespace {

/// Counts the bytes that no longer hold the pattern.
class Gaps {
 public:
  Gaps(std::span<const std::byte> bytes, Pattern pattern) : bytes_(bytes), pattern_(pattern) {}

  void check(std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      if (bytes_[i] == pattern_[i % pattern_.size()]) continue;
      if (overwritten_ == 0) first_ = i;
      ++overwritten_;
    }
  }

  [[nodiscard]] std::size_t overwritten() const { return overwritten_; }
  [[nodiscard]] std::size_t first() const { return first_; }

 private:
  std::span<const std::byte> bytes_;
  Pattern pattern_;
  std::size_t overwritten_ = 0;
  std::size_t first_ = 0;
};

}  // namespace

WrittenRows::WrittenRows(const AttentionDesc& desc, const reference::Inputs& inputs)
    : all_(desc.query_lengths == Lengths::kUniform) {
  if (all_) return;
  const TensorExtents extents = query_extents(desc, 1);
  stored_rows_ = extents.rows;
  stored_.assign(static_cast<std::size_t>(extents.batch * extents.rows), false);
  for (std::int64_t b = 0; b < desc.batch; ++b) {
    lengths_.push_back(reference::query_length(desc, inputs, b));
    for (std::int64_t i = 0; i < lengths_.back(); ++i) {
      const reference::RowIndex row = reference::stored_row(desc, inputs, {b, 0, i});
      stored_[static_cast<std::size_t>(row.batch * stored_rows_ + row.query)] = true;
    }
  }
}

void check_guards(std::string_view name, const TensorShape& shape, const ProblemRun::Tensor& tensor,
                  std::span<const std::byte> bytes, const std::function<bool(const Position&)>& is_written,
                  CheckReport& report) {
  if (tensor.bytes == 0) return;
  const Pattern pattern = output_poison(shape.desc.type);
  const std::size_t size = element_bytes(shape.desc.type);
  Gaps gaps(bytes, pattern);
  std::size_t at = 0;
  AddressOrder(shape).for_each([&](std::int64_t offset, const Position& position) {
    if (!is_written(position)) return;  // then the element is part of the gap
    const std::size_t element =
        static_cast<std::size_t>(tensor.offset) + static_cast<std::size_t>(offset) * size;
    gaps.check(at, element);
    if (std::memcmp(bytes.data() + element, pattern.data(), size) == 0) ++report.elements_unwritten;
    at = element + size;
  });
  gaps.check(at, bytes.size());
  if (gaps.overwritten() == 0) return;
  report.guard_intact = false;
  if (!report.guard_message.empty()) report.guard_message += "; ";
  const std::string what(name);
  report.guard_message += std::to_string(gaps.overwritten()) + " bytes outside of " + what +
                          " were written, the first at byte " + std::to_string(gaps.first()) + " of " +
                          std::to_string(bytes.size()) + ", where " + what + " takes bytes " +
                          std::to_string(tensor.offset) + " to " +
                          std::to_string(tensor.offset + tensor.bytes - 1);
  const bool inside = gaps.first() >= tensor.offset && gaps.first() < tensor.offset + tensor.bytes;
  if (inside) report.guard_message += " (with padding and rows that are not to be written)";
}

}  // namespace vkattn::harness
