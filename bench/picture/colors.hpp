// The colours of pictures.
#pragma once

#include <array>
#include <cstddef>

namespace vkattn::picture {

/// A colour in sRGB, each part from 0 to 1.
struct Color {
  double red = 0, green = 0, blue = 0;
  bool operator==(const Color&) const = default;
};

inline constexpr Color kInk = {0.13, 0.15, 0.18};
inline constexpr Color kSoftInk = {0.42, 0.45, 0.50};
inline constexpr Color kGrid = {0.89, 0.90, 0.92};
inline constexpr Color kFaintGrid = {0.955, 0.96, 0.965};
inline constexpr Color kWhite = {1, 1, 1};

/// Colour-blind readers can distinguish these colours too (the palette of Okabe and Ito).
inline constexpr std::array kSeriesColors = {Color{0.00, 0.45, 0.70}, Color{0.84, 0.37, 0.00},
                                             Color{0.00, 0.62, 0.45}, Color{0.80, 0.47, 0.65},
                                             Color{0.90, 0.62, 0.00}, Color{0.35, 0.35, 0.35}};
/// The last colour stands for every index beyond it.
[[nodiscard]] const Color& series_color(std::size_t index);

/// The colour of cells that show no number.
inline constexpr Color kNoNumber = {0.90, 0.905, 0.915};

/// How well text in one colour can be read on the other, from 1 to 21: the contrast ratio of WCAG 2.
[[nodiscard]] double contrast(const Color& one, const Color& other);

/// The colour of a share from 0 to 1, from dark blue over green to yellow. It is perceptually uniform: a
/// curve in Oklab with equal steps. Lightness rises all the way, so the colours differ for readers who do not
/// see the hues, and in prints without colours.
[[nodiscard]] Color scale_color(double share);

}  // namespace vkattn::picture
