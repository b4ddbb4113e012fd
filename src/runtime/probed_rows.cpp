// Runs the probe of row layouts: see probed_rows.hpp.
#include "runtime/probed_rows.hpp"

#include <numeric>
#include <utility>
#include <vector>

#include "kernels/kernel.hpp"
#include "kernels/row_layout.hpp"
#include "kernels/tile_table.hpp"
#include "runtime/runtime_state.hpp"
#include "self_test/row_probe.hpp"

namespace vkattn {

namespace detail {

Result<RowLayout> run_row_probe(const Runtime& runtime, const Device& device, const RowLayout& sizes) {
  auto program = row_probe(device, sizes, runtime.pipeline_cache());
  if (!program) return program.error();
  std::vector<float> numbers(probe_numbers(sizes));
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  std::vector<std::uint32_t> words(probe_words(sizes), ~0U);  // no component's number
  auto given = runtime.create_buffer(std::as_bytes(std::span(numbers)).size());
  if (!given) return given.error();
  auto found = runtime.create_buffer(std::as_bytes(std::span(words)).size());
  if (!found) return found.error();
  if (Result<void> s = runtime.write(*given, 0, std::as_bytes(std::span(numbers))); !s) return s.error();
  if (Result<void> s = runtime.write(*found, 0, std::as_bytes(std::span(words))); !s) return s.error();
  const BufferRange ranges[] = {given->range(), found->range()};
  auto state = (*program)->bind({ranges, {}, {}, {}});
  if (!state) return state.error();
  const Bindings bindings(*std::move(state));
  const auto times = runtime.execute(
      [&](VkCommandBuffer commands) { (void)(*program)->record(commands, bindings.state()); });
  if (!times) return times.error();
  if (Result<void> s = runtime.read(*found, 0, std::as_writable_bytes(std::span(words))); !s)
    return s.error();
  return decode_row_layout(sizes, words);
}

namespace {

// The layout, or nothing if the probe cannot run.
Result<std::optional<RowLayout>> probed(const Runtime& runtime, SelfTests& tests, const RowLayout& sizes) {
  const std::string test = message("rows of accumulators of ", sizes.rows, "x", sizes.score_columns, " and ",
                                   sizes.rows, "x", sizes.sum_columns, " in ", sizes.lanes, " lanes");
  std::optional<RowLayout> layout;
  const auto run = [&]() -> Result<TestOutcome> {
    auto found = run_row_probe(runtime, runtime.device(), sizes);
    if (!found) return found.error();
    layout = *found;
    return TestOutcome();
  };
  // An outcome that is kept says whether the probe came to its end, and not what it found.
  const std::optional<TestOutcome> known = tests.find(test);
  const Result<TestOutcome> outcome = !known                   ? tests.run(test, run)
                                      : known->failure.empty() ? run()
                                                               : Result<TestOutcome>(*known);
  if (!outcome && outcome.error().code == ErrorCode::kDeviceLost) return outcome.error();
  if (!layout && outcome && outcome->failure.empty()) {  // another program has run it meanwhile
    if (const auto again = run(); !again && again.error().code == ErrorCode::kDeviceLost)
      return again.error();
  }
  return layout;
}

}  // namespace

Result<void> probe_rows(const Runtime& runtime, const AttentionDesc& desc, std::string_view kernel,
                        const TileSizes& tile) {
  RuntimeState& state = RuntimeState::of(runtime);
  const Capabilities& known = state.device->capabilities();
  const auto sizes = needed_row_layout(desc, known, kernel, tile);
  if (!sizes || !state.run_self_tests || find_row_layout(known, *sizes) != nullptr) return {};
  const auto layout = probed(runtime, state.self_tests, *sizes);
  if (!layout) return layout.error();
  if (!*layout) return {};
  Capabilities more = known;
  more.row_layouts.push_back(**layout);
  state.former_devices.push_back(*state.device);
  state.device = state.device->state().seen_through(std::move(more));
  return {};
}

}  // namespace detail

Result<void> Runtime::probe_row_layouts(const AttentionDesc& given) const {
  return detail::without_exceptions([&]() -> Result<void> {
    if (Result<void> s = detail::check_not_lost(*state_); !s) return s;
    const AttentionDesc desc = given.resolved();
    if (Result<void> s = validate(desc); !s) return s;
    for (const detail::Kernel& kernel : detail::ordered_kernels(desc, device().capabilities())) {
      for (const TileSizes& tile : detail::all_tiles(kernel.name)) {
        if (Result<void> s = detail::probe_rows(*this, desc, kernel.name, tile); !s) return s;
      }
    }
    return {};
  });
}

}  // namespace vkattn
