// Caches in `vkattn run`: keys and values in a ring or in pages, or of one batch entry for all.
#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "common/checked.hpp"
#include "error.hpp"
#include "npy_lengths.hpp"
#include "run_inputs.hpp"

namespace vkattn::cli {
namespace {

constexpr const char* kRingOption = "--ring-lengths";
constexpr const char* kPagesOption = "--page-table";

void require_batch_of_problem(const RunInputs& inputs, const InputFile& input) {
  const AttentionDesc& desc = inputs.problem.desc;
  if (input.batch == desc.batch || repeats(input, desc)) return;
  fail_usage(inputs.query.text() + " and " + input.text() +
             " differ in batch size: " + std::to_string(desc.batch) + " and " + std::to_string(input.batch) +
             "; give the latter as many entries, or one for all");
}

void set_ring(const std::string& path, RunInputs& inputs) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  Problem& problem = inputs.problem;
  AttentionDesc& desc = problem.desc;
  desc.cache = {.mapping = KeyMapping::kRing, .ring_length = inputs.key.length};
  desc.kv_lengths = Lengths::kPerEntry;
  problem.kv_lengths = take(npy::read_lengths(path, kRingOption, desc.batch, kMost, "the longest cache"));
  desc.kv_length = npy::longest(problem.kv_lengths);
}

void set_pages(const std::string& path, RunInputs& inputs) {
  const InputFile& key = inputs.key;
  const InputFile& value = inputs.value;
  if (key.rank() != 4) {
    fail_usage(
        key.text() + " has rank " + std::to_string(key.rank()) + ", but the pages of " + kPagesOption +
        " are (pages, heads, keys of a page, dim), with --layout bshd (pages, keys of a page, heads, dim)");
  }
  if (key.batch != value.batch) {
    fail_usage(key.text() + " has " + std::to_string(key.batch) + " pages and " + value.text() + " " +
               std::to_string(value.batch) + "; they need as many");
  }
  AttentionDesc& desc = inputs.problem.desc;
  const npy::Reader table = take(npy::Reader::open(path));
  const std::vector<std::int64_t>& shape = table.header().shape;
  if (shape.size() != 2 || shape[0] != desc.batch) {
    fail_usage(path + ": shape " + npy::shape_text(shape) + " does not fit " + kPagesOption +
               "; a row of pages for each batch entry is needed, so shape (" + std::to_string(desc.batch) +
               ", pages)");
  }
  desc.cache = {.mapping = KeyMapping::kPaged,
                .page_size = key.length,
                .page_count = key.batch,
                .page_table_stride = shape[1]};
  desc.kv_length = detail::saturating_multiply(shape[1], key.length);
}

}  // namespace

void set_cache(const RunOptions& options, RunInputs& inputs) {
  const AttentionDesc& desc = inputs.problem.desc;
  if (!options.page_table.empty()) return set_pages(options.page_table, inputs);
  if (desc.has_packed_keys()) return;
  for (const InputFile* const input : {&inputs.key, &inputs.value}) require_batch_of_problem(inputs, *input);
  if (!options.ring_lengths.empty()) set_ring(options.ring_lengths, inputs);
}

void open_page_table(const RunOptions& options, RunInputs& inputs) {
  if (options.page_table.empty()) return;
  const Problem& problem = inputs.problem;
  const CacheLayout& cache = problem.desc.cache;
  npy::Reader reader = take(npy::Reader::open(options.page_table));
  const npy::Header& header = reader.header();
  if (header.fortran_order && header.shape[0] > 1 && header.shape[1] > 1) {
    refuse_fortran_order(options.page_table, kPagesOption);
  }
  const std::vector<std::int64_t> pages = take(npy::read_integers(reader, header.elements));
  const reference::Inputs lengths = lengths_of(inputs);
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const auto entry = static_cast<std::int64_t>(i) / cache.page_table_stride;
    const auto place = static_cast<std::int64_t>(i) % cache.page_table_stride;
    const std::int64_t keys = reference::key_length(problem.desc, lengths, entry);
    const bool exists = pages[i] >= 0 && pages[i] < cache.page_count;
    if (!exists && place * cache.page_size < keys) {
      fail_usage(options.page_table + ": page " + std::to_string(pages[i]) + " at index (" +
                 std::to_string(entry) + ", " + std::to_string(place) + ") is not from 0 to " +
                 std::to_string(cache.page_count - 1) + ", the pages of " + inputs.key.text());
    }
    // No key in use lies on a page that does not exist, so any valid number can replace it.
    inputs.page_table.push_back(exists ? static_cast<std::int32_t>(pages[i]) : 0);
  }
}

}  // namespace vkattn::cli
