/// @file
/// Block sizes of the kernels, and which of them were measured to be fastest on a device. `vkattn tune`
/// measures and writes a file; the runtime reads it (RuntimeOptions::tuning_file, or the environment variable
/// VKATTN_TUNING) and hands it to every plan. Programs without the runtime fill a Tuning by themselves.
#pragma once

#include <vkattn/attention.hpp>
#include <vkattn/capabilities.hpp>
#include <vkattn/matmul_desc.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vkattn {

/// Sizes of a kernel's block of work. 0: not used by the kernel, or left to it.
struct TileSizes {
  std::uint32_t threads = 0;    ///< invocations of a workgroup
  std::uint32_t subgroups = 0;  ///< of a workgroup, for kernels that count in subgroups
  std::uint32_t columns = 0;    ///< threads along the keys of a block; of matrix2, lanes that share a row
  std::uint32_t rows = 0;  ///< query rows of an invocation; of matrix kernels, blocks of rows of a subgroup
  std::uint32_t keys = 0;  ///< keys of a step or block; of the tile kernel, keys of an invocation
  /// Head dims staged at a time. Of matrix2, with `columns`: heads of up to so many dims have their scores
  /// computed a tile ahead; of decode, their keys read a step ahead.
  std::uint32_t dims = 0;
  [[nodiscard]] bool operator==(const TileSizes&) const = default;  ///< equal in every member
};

/// "threads 256, columns 16, rows 4": what is not 0.
[[nodiscard]] std::string to_string(const TileSizes& tile);

/// Reads what to_string() writes; '=' may stand for a blank, and a comma's blank may be left out:
/// "threads=256,columns=16". Errors: an unknown or repeated name, no whole number.
[[nodiscard]] Result<TileSizes> parse_tile_sizes(std::string_view text);

/// A kernel and its block sizes.
struct KernelTile {
  std::string kernel;                                                ///< its name, see KernelRefusal::kernel
  TileSizes tile;                                                    ///< as the tile table has them
  [[nodiscard]] bool operator==(const KernelTile&) const = default;  ///< equal in every member
};

/// A kernel of matrix multiplications and its block sizes.
struct MatmulKernelTile {
  std::string kernel;                                                      ///< its name: lane, tile or matrix
  MatmulTile tile;                                                         ///< as the tile table has them
  [[nodiscard]] bool operator==(const MatmulKernelTile&) const = default;  ///< equal in every member
};

/// Every kernel and block size of the tile table that the device accepts for the problem in this arithmetic
/// (PlanOptions::arithmetic_type), the default first.
[[nodiscard]] std::vector<KernelTile> tuning_candidates(const AttentionDesc& desc,
                                                        const Capabilities& capabilities,
                                                        DataType arithmetic_type = DataType::kFloat32);
/// The same of a matrix multiplication.
[[nodiscard]] std::vector<MatmulKernelTile> tuning_candidates(const MatmulDesc& desc,
                                                              const Capabilities& capabilities);

/// A feature of a measured problem: a mask, a cache, softcap and so on.
struct TunedFeature {
  std::string name;        ///< as refusals name it, such as "softcap"
  std::uint32_t kind = 0;  ///< of masks and of ALiBi's slopes: which; else 0
};

/// What was measured to be best for one problem.
struct TunedProblem {
  std::string problem;                            ///< a label, for reports
  AttentionDesc desc;                             ///< of a file's entry sizes, types, causality and window
  KernelTile best;                                ///< what took the least time
  std::uint32_t kv_splits = 0;                    ///< 0: by the rule
  std::vector<TunedFeature> features;             ///< of a file's entry: those that `desc` does not tell of
  DataType arithmetic_type = DataType::kFloat32;  ///< PlanOptions::arithmetic_type, as it was measured
};

/// The same of the gradients of a problem.
struct TunedBackward {
  std::string problem;                 ///< a label, for reports
  AttentionDesc desc;                  ///< of the forward pass, as TunedProblem::desc
  std::string kernel;                  ///< what took the least time
  std::uint32_t chunk_keys = 0;        ///< PlanOptions::chunk_keys; 0: by the rule
  std::vector<TunedFeature> features;  ///< as TunedProblem::features
  std::optional<TileSizes> tile{};     ///< PlanOptions::tile; not given: the kernel's own
};

/// The same of a matrix multiplication.
struct TunedMatmul {
  std::string problem;             ///< a label, for reports
  MatmulDesc desc;                 ///< of a file's entry sizes, types and which operands are transposed
  MatmulKernelTile best;           ///< what took the least time
  std::uint32_t inner_splits = 0;  ///< PlanOptions::inner_splits; 0: by the rule
};

/// What was measured on one device.
struct Tuning {
  std::string source;                    ///< the file's name, for reports
  std::string warning;                   ///< why nothing of the file is used; empty where it is
  std::vector<TunedProblem> problems;    ///< of attention; all three are empty where there is a warning
  std::vector<TunedBackward> gradients;  ///< of gradients
  std::vector<TunedMatmul> products;     ///< of matrix multiplications

  /// The measured problem that is nearest to `desc`: the same types, arithmetic, dims, causality and heads of
  /// a group, with rows and keys within a factor of 4; null where there is none. Each feature (a mask, a
  /// window, softcap, pages, ...) that only one of the two has counts as much as a factor of 2 in length, and
  /// another kind of the same feature half of that.
  [[nodiscard]] const TunedProblem* nearest(const AttentionDesc& desc,
                                            DataType arithmetic_type = DataType::kFloat32) const;
  /// The same of the gradients of a forward pass.
  [[nodiscard]] const TunedBackward* nearest_backward(const AttentionDesc& desc) const;
  /// The measured matrix multiplication that is nearest to `desc`: the same types and transposed operands,
  /// with rows, columns and inner dimension within a factor of 4; null where there is none.
  [[nodiscard]] const TunedMatmul* nearest_matmul(const MatmulDesc& desc) const;
};

}  // namespace vkattn
