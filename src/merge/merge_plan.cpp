// Merging as an operation.
#include "common/checked.hpp"
#include "common/message.hpp"
#include "merge/merge_program.hpp"
#include "operation/plan_of.hpp"

namespace vkattn {

namespace detail {

namespace {

class MergeOperation final : public OperationOfTable<MergeOperation, MergeDesc, MergeTensors> {
 public:
  using OperationOfTable::OperationOfTable;

  [[nodiscard]] std::string_view name() const override { return "a merge"; }
  [[nodiscard]] Result<ProgramDesc> build(const PlanOptions& /*options*/, const Capabilities& capabilities,
                                          std::string_view& /*kernel*/) override {
    return merge_program(desc(), capabilities);
  }
  [[nodiscard]] std::string problem_lines() const override {
    const MergeDesc& d = desc();
    return message("merge: ", d.parts, " parts of ", d.rows, " rows, value_dim ", d.value_dim, ", ",
                   vkattn::name(d.part_type), " to ", vkattn::name(d.output_type),
                   d.has_lse ? " with lse" : "", "\n");
  }
};

bool is_float(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kFloat16 || type == DataType::kBfloat16;
}

}  // namespace

template <>
struct OperationFor<MergeDesc> {
  using Type = MergeOperation;
};

}  // namespace detail

template class PlanOf<MergePlan, MergeDesc, MergeTensors>;

Result<void> validate(const MergeDesc& desc) {
  using detail::invalid;
  return detail::without_exceptions([&]() -> Result<void> {
    if (desc.rows < 0 || desc.value_dim < 0) {
      return invalid("MergeDesc::rows is ", desc.rows, " and value_dim is ", desc.value_dim,
                     "; neither can be negative");
    }
    if (desc.parts < 1) {
      return invalid("MergeDesc::parts is ", desc.parts, "; there must be one at least");
    }
    if (!detail::is_float(desc.part_type) || !detail::is_float(desc.output_type)) {
      return invalid("MergeDesc::part_type is ", name(desc.part_type), " and output_type is ",
                     name(desc.output_type), "; parts are merged as float32, float16 or bfloat16");
    }
    const std::int64_t elements = detail::saturating_multiply(desc.rows, desc.value_dim);
    if (element_bytes(desc.output_type) == 2 && elements % 2 != 0) {
      return invalid("the merged output has ", elements,
                     " elements of 16 bits, which are written in pairs: take float32 or an even value_dim");
    }
    constexpr std::int64_t kMost = std::int64_t{1} << 40;
    if (elements > kMost || detail::saturating_multiply(elements, desc.parts) > kMost ||
        detail::saturating_multiply(desc.rows, desc.parts) > kMost) {
      return invalid("MergeDesc has ", desc.parts, " parts of ", desc.rows, " rows of ", desc.value_dim,
                     " elements, more than any buffer has");
    }
    return {};
  });
}

}  // namespace vkattn
