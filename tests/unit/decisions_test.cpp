// Which kernel a problem gets on a device, with which block sizes and in which form: decisions.txt says it,
// and this test decides anew.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backward/backward_kernel.hpp"
#include "common/message.hpp"
#include "forward/layout.hpp"
#include "kernels/select.hpp"
#include "matmul/matmul_program.hpp"
#include "problem/gradients.hpp"
#include "shared/attention_constants.h"
#include "support/must.hpp"
#include "unit/build.hpp"
#include "unit/families.hpp"
#include "unit/made_up_device.hpp"

namespace vkattn::tests {
namespace {

using namespace detail;

template <class Value>
using NamedValue = std::pair<std::string_view, Value>;
constexpr NamedValue<std::uint32_t Capabilities::*> kLimitNames[] = {
    {"shared", &Capabilities::max_shared_memory_bytes},
    {"invocations", &Capabilities::max_workgroup_invocations},
    {"subgroups", &Capabilities::max_workgroup_subgroups},
    {"flexible", &Capabilities::max_flexible_matrix_dimension},
    {"pushed", &Capabilities::max_push_constants_bytes},
    {"units", &Capabilities::compute_units}};
constexpr NamedValue<bool Capabilities::*> kFeatureNames[] = {
    {"shuffle", &Capabilities::subgroup_shuffle},
    {"vote", &Capabilities::subgroup_vote},
    {"any-size", &Capabilities::required_subgroup_size},
    {"full-subgroups", &Capabilities::compute_full_subgroups},
    {"16bit", &Capabilities::storage_buffer_16bit},
    {"int64", &Capabilities::shader_int64},
    {"addresses", &Capabilities::buffer_addresses},
    {"float16", &Capabilities::shader_float16},
    {"memory-model", &Capabilities::vulkan_memory_model},
    {"bfloat16-matrices", &Capabilities::bfloat16_matrix},
    {"workgroup-scope", &Capabilities::matrix2_workgroup_scope},
    {"tensor-addressing", &Capabilities::matrix2_tensor_addressing}};
constexpr NamedValue<std::uint32_t> kVendorNames[] = {{"amd", kVendorAmd},
                                                      {"nvidia", kVendorNvidia},
                                                      {"intel", kVendorIntel},
                                                      {"arm", kVendorArm},
                                                      {"qualcomm", kVendorQualcomm}};

template <class Rows>
[[nodiscard]] const auto* find_named(const Rows& rows, std::string_view name) {
  const auto* const row = std::ranges::find(rows, name, [](const auto& each) { return each.first; });
  return row == std::end(rows) ? nullptr : &row->second;
}

Capabilities device_in(const std::string& text);

Capabilities base_device(const std::string& name) {
  const std::pair<std::string_view, Capabilities (*)()> bases[] = {
      {"gpu", [] { return made_up_gpu(); }},
      {"matrix-gpu", [] { return matrix_gpu(); }},
      {"sized-gpu", [] { return gpu_of(0, 32, 32); }},
      {"matrix2-gpu", [] { return with_workgroup_scope(); }},
      {"matrix2-cpu", [] { return cpu_with_subgroup_scope(); }},
      {"both-gpu", [] { return device_in("matrix2-gpu shuffle vote shapes=16x16x16"); }},
      {"cpu", [] { return device_in("gpu cpu lanes=8 units=2 int64"); }}};
  if (const auto* base = find_named(bases, name)) return (*base)();
  const auto* const family = std::ranges::find(kFamilies, name, &Family::name);
  if (family != std::end(kFamilies)) return device_of(*family);
  ADD_FAILURE() << "there is no device '" << name << "'";
  return {};
}

/// Shapes such as 16x16x16+8x8x16:bf16.
std::vector<MatrixShape> shapes_of(std::string text) {
  std::vector<MatrixShape> shapes;
  std::ranges::replace(text, '+', ' ');
  for (std::string& word : words_of(text)) {
    std::ranges::replace(word, 'x', ' ');
    std::ranges::replace(word, ':', ' ');
    const std::vector<std::string> parts = words_of(word);
    const auto size = [&](std::size_t i) { return static_cast<std::uint32_t>(std::stoul(parts.at(i))); };
    MatrixShape& added = shapes.emplace_back(shape(size(0), size(1), size(2)));
    if (parts.size() > 3) added.a_type = added.b_type = parts[3];
  }
  return shapes;
}

void set_limit(Capabilities& c, const std::string& name, const std::string& value) {
  if (name == "shapes") {
    c.matrix_shapes = shapes_of(value);
    return;
  }
  const std::uint32_t number = static_cast<std::uint32_t>(std::stoul(value));
  if (const auto* limit = find_named(kLimitNames, name)) {
    c.*(*limit) = number;
  } else if (name == "range") {
    c.max_storage_buffer_range = number;
  } else if (name == "buffer") {
    c.max_buffer_size = number;
  } else if (name == "width") {
    c.max_workgroup_size[0] = number;
  } else if (name == "lanes") {
    const std::size_t dash = value.find('-') + 1;  // 0: one size
    set_subgroup_sizes(c, number, static_cast<std::uint32_t>(std::stoul(value.substr(dash))));
  } else {
    ADD_FAILURE() << "nothing of a device is '" << name << "'";
  }
}

/// A device and what is changed of it, such as "gpu cpu lanes=8 no-16bit".
Capabilities device_in(const std::string& text) {
  const std::vector<std::string> words = words_of(text);
  Capabilities c = base_device(words.at(0));
  for (std::size_t i = 1; i < words.size(); ++i) {
    const bool lacks = words[i].starts_with("no-");
    const std::string word = words[i].substr(lacks ? 3 : 0);
    const std::size_t equals = word.find('=');
    if (equals != word.npos) {
      set_limit(c, word.substr(0, equals), word.substr(equals + 1));
    } else if (const auto* feature = find_named(kFeatureNames, word)) {
      c.*(*feature) = !lacks;
    } else if (word == "cpu") {
      c.device_type = DeviceType::kCpu;
    } else if (const auto* vendor = find_named(kVendorNames, word)) {
      c.vendor_id = *vendor;
    } else {
      ADD_FAILURE() << "nothing of a device is '" << word << "'";
    }
  }
  return c;
}

/// The shader, and what the summary does not tell: a constant where it is not 0.
std::string form_of(std::string_view kernel, const KernelConfig& config) {
  const std::pair<std::string_view, NamedValue<std::uint32_t>> told[] = {
      {"decode", {"K by 16 bytes", VKATTN_SPEC_DECODE_KEY_LOADS8}},
      {"matrix", {"dims a slice", VKATTN_SPEC_MATRIX_SLICE_DIMS}},
      {"matrix", {"hidden tiles skipped", VKATTN_SPEC_MATRIX_SKIP_TILES}},
      {"matrix", {"V transposed", VKATTN_SPEC_MATRIX_VALUES_TRANSPOSED}},
      {"matrix2", {"rows of a matrix", VKATTN_SPEC_MATRIX2_ROWS}},
      {"matrix2", {"Q by tensor", VKATTN_SPEC_MATRIX2_QUERY_TENSOR}}};
  std::string text = config.shader.substr(std::string_view("attention_").size()) + ": " + config.summary;
  for (const auto& [of, row] : told) {
    for (const SpecializationValue& each : config.constants) {
      if (of != kernel || each.id != row.second || each.value == 0) continue;
      text += message(", ", each.value == 1 ? "" : message(each.value, " "), row.first);
    }
  }
  if (config.whole_heads) text += ", whole heads";
  if (config.required_subgroup_size != 0) text += ", subgroup size asked for";
  return text;
}

/// A decision, or why a kernel refuses.
struct Decision {
  std::string kernel, text;
  bool is_refusal = false;
};

template <class Config, class Words>
Decision decision_of(std::string_view kernel, const Result<Config>& config, const Words& words) {
  if (config.ok()) return {std::string(kernel), words(*config)};
  const bool is_limit = config.error().code == ErrorCode::kLimitExceeded;
  return {std::string(kernel), (is_limit ? "beyond a limit: " : "refuses: ") + config.error().message, true};
}

/// Whatever shaders the build has, of every kernel in order.
std::vector<Decision> of_forward(const AttentionDesc& given, const Capabilities& c) {
  const AttentionDesc desc = given.resolved();
  std::vector<Decision> decisions;
  for (const Kernel& kernel : ordered_kernels(desc, c)) {
    const auto config = kernel.configure(desc, c, table_tiles(kernel.name, desc, c));
    decisions.push_back(decision_of(kernel.name, config, [&](const KernelConfig& chosen) {
      EXPECT_LE(chosen.shared_bytes, c.max_shared_memory_bytes);
      EXPECT_LE(chosen.workgroup_size, c.max_workgroup_invocations);
      EXPECT_TRUE(!chosen.uses_matrix_units || chosen.probability_type == desc.query.type);
      const auto layout = lay_out({desc, c, chosen, {}});
      const std::int64_t parts = layout.ok() ? layout->split.splits : 1;
      return form_of(kernel.name, chosen) + (parts > 1 ? message(", ", parts, " parts") : "");
    }));
  }
  return decisions;
}

std::vector<Decision> of_backward(const BackwardDesc& given, const Capabilities& c) {
  const BackwardDesc desc = given.resolved();
  std::vector<Decision> decisions;
  for (const KernelSupport& support : kernel_support(given, c)) {
    const auto configured = [&]() -> Result<BackwardKernel> {
      if (support.kernel == "matrix") return configure_matrix_backward(desc, c);
      if (support.kernel == "matrix2") return configure_matrix2_backward(desc, c);
      if (!support.reason.empty()) return unsupported(support.reason);
      return must(select_backward_kernel(desc, c, {.kernel = std::string(support.kernel)})).config;
    };
    decisions.push_back(decision_of(support.kernel, configured(),
                                    [](const BackwardKernel& chosen) { return chosen.summary; }));
  }
  return decisions;
}

std::vector<Decision> of_product(const MatmulDesc& given, const Capabilities& c) {
  const MatmulDesc desc = given.resolved();
  std::vector<Decision> decisions;
  for (const KernelSupport& support : kernel_support(given, c)) {
    auto* const configure = support.kernel == "lane"          ? configure_matmul_lane
                            : support.kernel == "lane_decode" ? configure_matmul_lane_decode
                            : support.kernel == "tile"        ? configure_matmul_tile
                                                              : configure_matmul_matrix;
    const auto config = configure(desc, c, matmul_tiles(support.kernel, c), {});
    decisions.push_back(decision_of(support.kernel, config, [&](const MatmulConfig& chosen) {
      const std::int64_t parts = must(choose_inner_split(chosen, c, 0)).parts;
      std::string text = chosen.summary;
      if (chosen.view.bias_by_row) text += ", rows and columns exchanged";
      for (const MatmulOperand* operand : {&chosen.view.a, &chosen.view.b})
        if (operand->is_copied) text += operand->tensor == 0 ? ", a copied" : ", b copied";
      return text + (parts > 1 ? message(", ", parts, " parts") : "");
    }));
  }
  return decisions;
}

/// For a kernel by its name, "best" or "order".
std::string answer(const std::string& kernel, const std::string& device, const std::string& text) {
  const Problem problem = parsed(text);
  const Capabilities c = device_in(device);
  const std::vector<Decision> all = problem.operation == bench::Operation::kMatmul
                                        ? of_product(problem.matmul, c)
                                    : problem.operation == bench::Operation::kBackward
                                        ? of_backward(bench::with_all_gradients(problem.desc), c)
                                        : of_forward(problem.desc, c);
  std::string order;
  for (const Decision& each : all) {
    order += (order.empty() ? "" : " ") + each.kernel;
    if (kernel == each.kernel) return each.text;
    if (kernel == "best" && !each.is_refusal) return each.kernel + ", " + each.text;
  }
  return kernel == "order" ? order : "none";
}

/// The first three columns of a row, without the blanks that line them up.
std::vector<std::string> columns_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> columns(3);
  for (std::string& column : columns) {
    std::string text;
    std::getline(stream, text, '|');
    for (const std::string& word : words_of(text)) column += (column.empty() ? "" : " ") + word;
  }
  return columns;
}

/// Rows without a line between them: sorted, in columns as wide as they must be.
void finish(std::vector<std::vector<std::string>>& rows, std::string& text) {
  std::ranges::sort(rows);
  std::vector<std::size_t> widths(3);
  for (const auto& row : rows)
    for (std::size_t i = 0; i < 3; ++i) widths[i] = std::max(widths[i], row[i].size());
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < 3; ++i) text += row[i] + std::string(widths[i] - row[i].size(), ' ') + " | ";
    text += row[3] + "\n";
  }
  rows.clear();
}

TEST(Decisions, AreThoseOfTheTable) {
  const std::string path = build::kDecisions;
  std::ifstream file(path);
  ASSERT_TRUE(file.is_open()) << path;
  std::vector<std::string> before;
  for (std::string line; std::getline(file, line);) before.push_back(line);
  std::string text;
  std::vector<std::vector<std::string>> rows;
  for (const std::string& line : before) {
    if (!line.empty() && line[0] != '#') {
      std::vector<std::string> row = columns_of(line);
      row.resize(4);
      SCOPED_TRACE(line);
      row[3] = answer(row[0], row[1], row[2]);
      rows.push_back(std::move(row));
      continue;
    }
    finish(rows, text);
    text += line + "\n";
  }
  finish(rows, text);
  const std::vector<std::string> now = lines_of(text);
  std::string difference;
  for (std::size_t i = 0; i < now.size(); ++i)
    if (now[i] != before[i]) difference += message("- ", before[i], "\n+ ", now[i], "\n");
  if (difference.empty()) return;
  if (std::getenv("VKATTN_WRITE_DECISIONS") != nullptr) std::ofstream(path) << text;
  ADD_FAILURE() << path << " says otherwise:\n"
                << difference << "If that is right, write the table anew with\n"
                << "  VKATTN_WRITE_DECISIONS=1 vkattn_unit_tests --gtest_filter=Decisions.*";
}

}  // namespace
}  // namespace vkattn::tests
