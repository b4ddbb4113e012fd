// Reading case folders: see case_file.hpp.
#include "conformance/case_file.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "common/message.hpp"

namespace vkattn::tests {
namespace {

using Json = nlohmann::json;
using detail::message;

static_assert(std::endian::native == std::endian::little, "tensors are read as they lie in the file");

template <class T>
T element_at(const CaseTensor& tensor, std::size_t element) {
  T value;
  std::memcpy(&value, tensor.bytes.data() + element * sizeof(T), sizeof(T));
  return value;
}

struct TypeRow {
  ElementType type;
  std::string_view name;
  std::size_t bytes;
  std::optional<DataType> storage;
};

constexpr TypeRow kTypes[] = {{ElementType::kFloat16, "float16", 2, DataType::kFloat16},
                              {ElementType::kBfloat16, "bfloat16", 2, DataType::kBfloat16},
                              {ElementType::kFloat32, "float32", 4, DataType::kFloat32},
                              {ElementType::kFloat64, "float64", 8, {}},
                              {ElementType::kBool, "bool", 1, {}},
                              {ElementType::kInt64, "int64", 8, {}}};

template <class T>
const TypeRow& type_row(T TypeRow::*member, const T& value) {
  for (const TypeRow& row : kTypes) {
    if (row.*member == value) return row;
  }
  throw std::runtime_error("a type that these tests do not know");
}

std::vector<std::byte> read_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw std::runtime_error(message(path.string(), " cannot be read"));
  const std::vector<char> text{std::istreambuf_iterator<char>(stream), {}};
  std::vector<std::byte> bytes(text.size());
  if (!text.empty()) std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

/// The files of one folder that hold tensors. Each is read once.
class TensorFiles {
 public:
  explicit TensorFiles(std::filesystem::path folder) : folder_(std::move(folder)) {}

  CaseTensor tensor(const Json& json) {
    CaseTensor tensor;
    tensor.role = json.at("role").get<std::string>();
    const auto type = json.at("dtype").get<std::string>();
    tensor.type = type_row(&TypeRow::name, std::string_view(type)).type;
    tensor.shape = json.at("shape").get<std::vector<std::int64_t>>();
    const auto offset = json.at("offset").get<std::size_t>();
    const auto bytes = json.at("nbytes").get<std::size_t>();
    std::size_t needed = element_bytes(tensor.type);
    for (const std::int64_t extent : tensor.shape) needed *= static_cast<std::size_t>(extent);
    if (bytes != needed) {
      throw std::runtime_error(
          message(tensor.role, " has ", bytes, " bytes but its shape and dtype make ", needed));
    }
    const std::vector<std::byte>& content = file(json.at("file").get<std::string>());
    if (offset > content.size() || bytes > content.size() - offset) {
      throw std::runtime_error(
          message(tensor.role, " ends at byte ", offset + bytes, " of a file of ", content.size(), " bytes"));
    }
    const auto first = content.begin() + static_cast<std::ptrdiff_t>(offset);
    tensor.bytes.assign(first, first + static_cast<std::ptrdiff_t>(bytes));
    return tensor;
  }

 private:
  const std::vector<std::byte>& file(const std::string& name) {
    const auto found = files_.find(name);
    if (found != files_.end()) return found->second;
    return files_.emplace(name, read_file(folder_ / name)).first->second;
  }

  std::filesystem::path folder_;
  std::map<std::string, std::vector<std::byte>> files_;
};

Case case_of(const Json& json, TensorFiles& files) {
  Case result;
  result.name = json.at("name").get<std::string>();
  try {
    for (const auto& [name, attribute] : json.at("attributes").items()) {
      result.attributes[name] = attribute.at("value").get<double>();
    }
    for (const Json& tensor : json.at("inputs")) result.inputs.push_back(files.tensor(tensor));
    for (const Json& tensor : json.at("outputs")) result.outputs.push_back(files.tensor(tensor));
  } catch (const std::exception& error) {
    throw std::runtime_error(message("the case ", result.name, ": ", error.what()));
  }
  return result;
}

}  // namespace

std::size_t element_bytes(ElementType type) {
  return type_row(&TypeRow::type, type).bytes;
}

std::optional<DataType> storage_type(ElementType type) {
  return type_row(&TypeRow::type, type).storage;
}

ElementType element_type(DataType type) {
  return type_row(&TypeRow::storage, std::optional(type)).type;
}

const CaseTensor* find(const std::vector<CaseTensor>& tensors, std::string_view role) {
  const auto found =
      std::find_if(tensors.begin(), tensors.end(), [&](const CaseTensor& t) { return t.role == role; });
  return found != tensors.end() ? &*found : nullptr;
}

double CaseTensor::number(std::size_t element) const {
  switch (type) {
    case ElementType::kFloat16:
      return static_cast<double>(half_to_float(element_at<std::uint16_t>(*this, element)));
    case ElementType::kBfloat16:
      return static_cast<double>(bfloat16_to_float(element_at<std::uint16_t>(*this, element)));
    case ElementType::kFloat32:
      return static_cast<double>(element_at<float>(*this, element));
    case ElementType::kFloat64:
      return element_at<double>(*this, element);
    case ElementType::kBool:
      return bytes[element] != std::byte{0} ? 1 : 0;
    case ElementType::kInt64:
      break;
  }
  return static_cast<double>(element_at<std::int64_t>(*this, element));
}

double Case::attribute(const std::string& attribute, double otherwise) const {
  const auto found = attributes.find(attribute);
  return found != attributes.end() ? found->second : otherwise;
}

std::vector<Case> read_cases(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "cases.json";
  try {
    const std::vector<std::byte> text = read_file(path);
    const auto* const first = reinterpret_cast<const char*>(text.data());
    const Json json = Json::parse(first, first + text.size());
    TensorFiles files(folder);
    std::vector<Case> cases;
    for (const Json& entry : json.at("cases")) cases.push_back(case_of(entry, files));
    if (cases.empty()) throw std::runtime_error("it has no cases");
    return cases;
  } catch (const std::exception& error) {
    throw std::runtime_error(message("the case file ", path.string(), " cannot be used: ", error.what()));
  }
}

}  // namespace vkattn::tests
