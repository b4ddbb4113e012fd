// Lengths: see npy_lengths.hpp.
#include "npy_lengths.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "npy.hpp"

namespace vkattn::npy {
namespace {

Error refusal(const std::filesystem::path& path, const std::string& what) {
  return Error{ErrorCode::kInvalidArgument, {}, path.string() + ": " + what};
}

/// Reads all integers of a file whose shape is known to fit.
Result<std::vector<std::int64_t>> read_whole_numbers(Reader& reader, const std::string& option) {
  const Header& header = reader.header();
  if (!is_integer(header.type)) {
    return refusal(reader.path(), "the elements are " + std::string(name(header.type)) + ", but " + option +
                                      " needs integers");
  }
  return read_integers(reader, header.elements);
}

std::string fall_text(const std::string& option, const std::vector<std::int32_t>& before, std::int64_t end) {
  return option + " falls from " + std::to_string(before.back()) + " to " + std::to_string(end) +
         " at index " + std::to_string(before.size()) + ", but no sequence ends before it begins";
}

}  // namespace

Result<std::vector<std::int32_t>> read_lengths(const std::filesystem::path& path, const std::string& option,
                                               std::int64_t batch, std::int64_t most,
                                               const std::string& of_what) {
  Result<Reader> reader = Reader::open(path);
  if (!reader.ok()) return reader.error();
  const std::vector<std::int64_t>& shape = reader->header().shape;
  if (shape.size() != 1 || shape[0] != batch) {
    return refusal(path, "shape " + shape_text(shape) + " does not fit " + option +
                             "; one length for each batch entry is needed, so shape (" +
                             std::to_string(batch) + ",)");
  }
  const Result<std::vector<std::int64_t>> numbers = read_whole_numbers(*reader, option);
  if (!numbers.ok()) return numbers.error();
  std::vector<std::int32_t> lengths;
  for (const std::int64_t length : *numbers) {
    if (length < 0 || length > most) {
      return refusal(path, "length " + std::to_string(length) + " at index " +
                               std::to_string(lengths.size()) + " is not from 0 to " + std::to_string(most) +
                               ", the length of " + of_what);
    }
    lengths.push_back(static_cast<std::int32_t>(length));
  }
  return lengths;
}

Result<std::vector<std::int32_t>> read_cumulative_lengths(const std::filesystem::path& path,
                                                          const std::string& option) {
  Result<Reader> reader = Reader::open(path);
  if (!reader.ok()) return reader.error();
  const std::vector<std::int64_t>& shape = reader->header().shape;
  if (shape.size() != 1 || shape[0] == 0) {
    return refusal(path, "shape " + shape_text(shape) + " does not fit " + option +
                             "; it needs one axis with one number more than there are sequences: 0, and the "
                             "end of each");
  }
  const Result<std::vector<std::int64_t>> numbers = read_whole_numbers(*reader, option);
  if (!numbers.ok()) return numbers.error();
  if (numbers->front() != 0) {
    return refusal(path, option + " begins with " + std::to_string(numbers->front()) +
                             ", but the first sequence begins at row 0");
  }
  std::vector<std::int32_t> cumulative;
  for (const std::int64_t end : *numbers) {
    if (!cumulative.empty() && end < cumulative.back()) {
      return refusal(path, fall_text(option, cumulative, end));
    }
    if (end > std::numeric_limits<std::int32_t>::max()) {
      return refusal(path, option + " has " + std::to_string(end) + " at index " +
                               std::to_string(cumulative.size()) + ", which does not fit int32");
    }
    cumulative.push_back(static_cast<std::int32_t>(end));
  }
  return cumulative;
}

std::vector<std::int32_t> lengths_of(const std::vector<std::int32_t>& cumulative) {
  std::vector<std::int32_t> lengths;
  for (std::size_t i = 1; i < cumulative.size(); ++i) lengths.push_back(cumulative[i] - cumulative[i - 1]);
  return lengths;
}

std::int64_t longest(const std::vector<std::int32_t>& lengths) {
  return lengths.empty() ? 0 : *std::ranges::max_element(lengths);
}

}  // namespace vkattn::npy
