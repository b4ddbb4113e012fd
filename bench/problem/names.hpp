// The names of choices in problem strings and in the options of `vkattn run`. Each list serves both reading
// and writing.
#pragma once

#include <vkattn/cache.hpp>

#include <span>
#include <string_view>

#include "problem/problem.hpp"

namespace vkattn::bench {

template <class T>
struct Name {
  std::string_view text;
  T value;
};

inline constexpr Name<DataType> kTypeNames[] = {
    {name(DataType::kFloat32), DataType::kFloat32},   {name(DataType::kFloat16), DataType::kFloat16},
    {name(DataType::kBfloat16), DataType::kBfloat16}, {name(DataType::kQ8_0), DataType::kQ8_0},
    {name(DataType::kQ4_0), DataType::kQ4_0},         {name(DataType::kFloat8E4m3), DataType::kFloat8E4m3}};
/// The types of the second operand of a matrix multiplication.
inline constexpr std::span<const Name<DataType>> kWeightNames(kTypeNames, 5);
/// The types that every tensor may have.
inline constexpr std::span<const Name<DataType>> kFloatNames(kTypeNames, 3);

/// The types of PlanOptions::arithmetic_type.
inline constexpr std::span<const Name<DataType>> kArithmeticNames(kTypeNames, 2);

inline constexpr Name<Layout> kLayoutNames[] = {
    {"bhsd", Layout::kBhsd}, {"bshd", Layout::kBshd}, {"packed", Layout::kPackedQkv}};
/// The layouts of separate arrays for Q, K, V and O.
inline constexpr std::span<const Name<Layout>> kArrayLayoutNames(kLayoutNames, 2);

/// Align::kOffset has no name: it is written as its number.
inline constexpr Name<Align> kAlignNames[] = {{"top-left", Align::kTopLeft},
                                              {"bottom-right", Align::kBottomRight}};

inline constexpr Name<Alibi> kAlibiNames[] = {
    {"standard", Alibi::kStandard}, {"given", Alibi::kGiven}, {"times-mask", Alibi::kTimesMask}};

inline constexpr Name<MaskType> kMaskNames[] = {{"f32", MaskType::kFloat32},
                                                {"f16", MaskType::kFloat16},
                                                {"bytes", MaskType::kBytes},
                                                {"bits", MaskType::kBits}};

inline constexpr Name<WeightsStage> kWeightsNames[] = {{"scores", WeightsStage::kScores},
                                                       {"softcap", WeightsStage::kSoftcap},
                                                       {"masked", WeightsStage::kMasked},
                                                       {"probabilities", WeightsStage::kProbabilities}};

inline constexpr Name<ScoreKind> kScoreNames[] = {{"alibi", ScoreKind::kAlibi},
                                                  {"prefix", ScoreKind::kPrefix},
                                                  {"documents", ScoreKind::kDocuments},
                                                  {"bias", ScoreKind::kBias}};

inline constexpr Name<RotaryStyle> kRotaryNames[] = {{"interleaved", RotaryStyle::kInterleaved},
                                                     {"half-split", RotaryStyle::kHalfSplit}};

inline constexpr Name<Transposed> kTransposedNames[] = {
    {"a", Transposed::kA}, {"b", Transposed::kB}, {"ab", Transposed::kBoth}};

inline constexpr Name<DataKind> kDataNames[] = {{"normal", DataKind::kNormal},
                                                {"uniform", DataKind::kUniform},
                                                {"dominant", DataKind::kDominant},
                                                {"equal", DataKind::kEqual}};

}  // namespace vkattn::bench
