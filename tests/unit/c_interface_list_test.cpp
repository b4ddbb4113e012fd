// The C interface beside the list of what was released: what may never change.
#include <vkattn/vkattn.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "c/handles.hpp"
#include "unit/build.hpp"

extern "C" int vkattn_test_abi(char* text, size_t capacity);

namespace vkattn {
namespace {

std::string file_text(const char* path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

// The text of vkattn.h with the text of its own headers in place of their #include lines.
std::string interface_text(const std::string& folder) {
  const std::string all = file_text((folder + "/vkattn/vkattn.h").c_str());
  std::string text;
  const std::regex part(R"(#include <(vkattn/c/\w+\.h)>)");
  for (std::sregex_iterator i(all.begin(), all.end(), part), end; i != end; ++i) {
    text += file_text((folder + "/" + (*i)[1].str()).c_str());
  }
  const std::regex init(R"(VKATTN_INIT_FUNCTIONS\((vkattn_\w+)\))");
  return std::regex_replace(text, init, "VKATTN_API void $1_init_sized();");
}

// Each enumerator with its number, each member of a structure in its order, and the functions, from whichever
// header.
std::string declarations(const std::string& header) {
  const std::string code = std::regex_replace(header, std::regex(R"(/\*[^*]*\*+(?:[^/*][^*]*\*+)*/)"), "");
  std::string all;
  const std::regex enumerator(R"((VKATTN_\w+) = (-?\d+))");
  for (std::sregex_iterator i(code.begin(), code.end(), enumerator), end; i != end; ++i) {
    all += (*i)[1].str() + " = " + (*i)[2].str() + "\n";
  }
  const std::regex structure(R"(typedef struct (\w+) \{([^}]*)\})");
  const std::regex member(R"(\s*([^;]+);)");
  std::set<std::string> structures, functions;
  for (std::sregex_iterator i(code.begin(), code.end(), structure), end; i != end; ++i) {
    const std::string body = (*i)[2].str();
    std::string lines;
    for (std::sregex_iterator m(body.begin(), body.end(), member); m != end; ++m) {
      lines += (*i)[1].str() + ": " + std::regex_replace((*m)[1].str(), std::regex(R"(\s+)"), " ") + "\n";
    }
    structures.insert(lines);
  }
  const std::regex function(R"(VKATTN_(COMPONENT_)?API[^;(]*\b(vkattn_\w+)\()");
  for (std::sregex_iterator i(code.begin(), code.end(), function), end; i != end; ++i) {
    functions.insert((*i)[2].str() + ((*i)[1].matched ? "() of a component\n" : "()\n"));
  }
  for (const std::string& lines : structures) all += lines;
  for (const std::string& line : functions) all += line;
  return all;
}

// The heading of the list's end: lines NAME SIZE, the sizes of structures that programs may have been
// compiled with.
constexpr const char* kEarlierSizes = "earlier sizes\n";

// Every line of the list was in a release, or will be in the next. Lines are added, and never changed.
TEST(CInterface, StructuresAndNamesAreThoseOfTheList) {
  if (sizeof(void*) != 8) GTEST_SKIP() << "the list is that of 64 bits";
  std::string now(16384, ' ');
  ASSERT_NE(vkattn_test_abi(now.data(), now.size()), 0);
  now.resize(now.find('\0'));
  const std::string header = interface_text(tests::build::kHeaders);
  now += declarations(header);
  const std::string list = file_text(tests::build::kFunctionList);
  EXPECT_EQ(list.substr(0, list.find(kEarlierSizes)), now)
      << "a program that was compiled with an earlier header would break: add to the ends of structures";
}

/// The lines of members of each structure, "vkattn_x: type member", in their order.
std::map<std::string, std::vector<std::string>> members_of(const std::string& list) {
  std::map<std::string, std::vector<std::string>> all;
  std::istringstream lines(list);
  for (std::string line; std::getline(lines, line);) {
    if (const std::size_t end = line.find(": "); end != std::string::npos)
      all[line.substr(0, end)].push_back(line.substr(end + 2));
  }
  return all;
}

// The lines of 1.0.0 stand in a file of their own, so that no change of the list takes one away unnoticed.
TEST(CInterface, HasAllOfTheFirstVersion) {
  const std::string list = file_text(tests::build::kFunctionList),
                    first = file_text(tests::build::kFirstInterface);
  std::istringstream list_lines(list), first_lines(first);
  std::set<std::string> lines;
  for (std::string line; std::getline(list_lines, line);) lines.insert(line);
  std::size_t count = 0;
  for (std::string line; std::getline(first_lines, line); ++count) EXPECT_TRUE(lines.contains(line)) << line;
  EXPECT_GT(count, 600U);
}

// A member that is added stands behind those of 1.0.0.
TEST(CInterface, StructuresBeginAsInTheFirstVersion) {
  const auto now = members_of(file_text(tests::build::kFunctionList));
  const auto first = members_of(file_text(tests::build::kFirstInterface));
  EXPECT_GT(first.size(), 35U);
  for (const auto& [structure, members] : first) {
    SCOPED_TRACE(structure);
    const auto found = now.find(structure);
    ASSERT_NE(found, now.end());
    ASSERT_GE(found->second.size(), members.size());
    EXPECT_TRUE(std::equal(members.begin(), members.end(), found->second.begin()));
  }
}

// Clears the bytes between members, which may have any value.
template <class Struct>
void clear_padding(Struct& /*structure*/) {}
void clear_padding(vkattn_multi_head_attention_backward_desc& desc) {
  constexpr std::size_t kBegin =
      offsetof(vkattn_multi_head_attention_backward_desc, has_grad_sinks) + sizeof(desc.has_grad_sinks);
  constexpr std::size_t kEnd = offsetof(vkattn_multi_head_attention_backward_desc, grad_mask);
  std::memset(reinterpret_cast<std::byte*>(&desc) + kBegin, 0, kEnd - kBegin);
}

// Checks a structure of which only the first `bytes` are known, as every function reads it.
template <class Struct>
void expect_size_works(std::size_t bytes, void (*init_sized)(Struct*, std::size_t), void (*init)(Struct*)) {
  std::array<std::byte, sizeof(Struct)> memory;
  memory.fill(std::byte{0xa5});
  auto* const given = reinterpret_cast<Struct*>(memory.data());
  init_sized(given, bytes);
  EXPECT_TRUE(std::all_of(memory.begin() + static_cast<std::ptrdiff_t>(bytes), memory.end(),
                          [](std::byte each) { return each == std::byte{0xa5}; }))
      << "beyond what the caller has";
  EXPECT_EQ(given->struct_size, bytes);
  auto read = c::read(given, init, "it");
  ASSERT_TRUE(read.ok()) << read.error().message;
  Struct expected;
  init(&expected);
  clear_padding(*read);
  clear_padding(expected);
  const auto behind = [bytes](const Struct& it) { return reinterpret_cast<const std::byte*>(&it) + bytes; };
  EXPECT_EQ(std::memcmp(behind(*read), behind(expected), sizeof(Struct) - bytes), 0) << "at its default";
}

struct SizedStructure {
  const char* name;
  std::size_t size;
  void (*expect)(std::size_t bytes);
};
#define VKATTN_SIZED(NAME)                                                                                   \
  {                                                                                                          \
#NAME, sizeof(NAME), [](std::size_t bytes) { expect_size_works(bytes, NAME##_init_sized, NAME##_init); } \
  }
#define VKATTN_VALUE(STRUCTURE, DESC)
#define VKATTN_DESC(STRUCTURE, DESC) VKATTN_SIZED(vkattn_##STRUCTURE),
#define VKATTN_FIELD_AS(MEMBER, PATH)
#define VKATTN_END
constexpr SizedStructure kSizedStructures[] = {
    VKATTN_SIZED(vkattn_physical_device),
    VKATTN_SIZED(vkattn_device_desc),
    VKATTN_SIZED(vkattn_plan_options),
    VKATTN_SIZED(vkattn_requirements),
    VKATTN_SIZED(vkattn_execution),
    VKATTN_SIZED(vkattn_record_options),
    VKATTN_SIZED(vkattn_score_function_desc),
    VKATTN_SIZED(vkattn_support),
    VKATTN_SIZED(vkattn_memory),
#include "common/fields.def"
};
#undef VKATTN_SIZED

// When a structure grows, its old size is added to the end of the list, and keeps working.
TEST(CInterface, EarlierSizesGoOnWorking) {
  const std::string list = file_text(tests::build::kFunctionList);
  const std::size_t begin = list.find(kEarlierSizes);
  ASSERT_NE(begin, std::string::npos);
  std::istringstream lines(list.substr(begin + std::strlen(kEarlierSizes)));
  std::size_t count = 0;
  for (std::string name; lines >> name; ++count) {
    std::size_t bytes = 0;
    lines >> bytes;
    const auto* const structure =
        std::ranges::find_if(kSizedStructures, [&](const SizedStructure& each) { return each.name == name; });
    ASSERT_NE(structure, std::end(kSizedStructures)) << name;
    SCOPED_TRACE(name + " " + std::to_string(bytes));
    EXPECT_LT(bytes, structure->size) << "it is that of today";
    structure->expect(bytes);
  }
  EXPECT_GE(count, 7U);
  for (const SizedStructure& structure : kSizedStructures) {
    SCOPED_TRACE(structure.name);
    structure.expect(structure.size);
  }
}

}  // namespace
}  // namespace vkattn
