// Folders of attention cases with known results. cases.json describes each case, and a binary file beside it
// holds the tensors.
//
//   {"cases": [{"name": "...", "attributes": {"scale": {"type": "float", "value": 0.5}},
//               "inputs":  [{"role": "Q", "dtype": "float32", "shape": [1, 2, 4, 8], "file": "tensors.bin",
//                            "offset": 0, "nbytes": 256}],
//               "outputs": [...]}]}
//
// Tensors are row-major and little-endian; a bool is a byte.
#pragma once

#include <vkattn/data_type.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vkattn::tests {

enum class ElementType { kFloat16, kBfloat16, kFloat32, kFloat64, kBool, kInt64 };

[[nodiscard]] std::size_t element_bytes(ElementType type);
/// The storage type of kernels for that type. Nothing if no kernel stores it.
[[nodiscard]] std::optional<DataType> storage_type(ElementType type);
[[nodiscard]] ElementType element_type(DataType type);

struct CaseTensor {
  std::string role;  ///< the operator's name for it, such as Q, K, V, attn_mask, Y
  ElementType type = ElementType::kFloat32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;

  [[nodiscard]] std::size_t elements() const { return bytes.size() / element_bytes(type); }
  /// An element as float64. A bool is 0 or 1.
  [[nodiscard]] double number(std::size_t element) const;
};

/// Null if no tensor has that role.
[[nodiscard]] const CaseTensor* find(const std::vector<CaseTensor>& tensors, std::string_view role);

struct Case {
  std::string name;
  std::map<std::string, double> attributes;
  std::vector<CaseTensor> inputs;
  std::vector<CaseTensor> outputs;

  /// The attribute's value, or `otherwise` if the case does not have it.
  [[nodiscard]] double attribute(const std::string& attribute, double otherwise) const;
  [[nodiscard]] const CaseTensor* input(std::string_view role) const { return find(inputs, role); }
  [[nodiscard]] const CaseTensor* output(std::string_view role) const { return find(outputs, role); }
};

/// All cases of a folder. Throws std::runtime_error, which names the file and its fault.
[[nodiscard]] std::vector<Case> read_cases(const std::filesystem::path& folder);

}  // namespace vkattn::tests
