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
/// The colours of a roofline: the bounds, and the area beneath them.
inline constexpr Color kRoofInk = {0.20, 0.27, 0.38}, kUnderRoof = {0.955, 0.97, 0.99};

/// Colour-blind readers can distinguish these colours too (the palette of Okabe and Ito).
inline constexpr std::array kSeriesColors = {Color{0.00, 0.45, 0.70}, Color{0.84, 0.37, 0.00},
                                             Color{0.00, 0.62, 0.45}, Color{0.80, 0.47, 0.65},
                                             Color{0.90, 0.62, 0.00}, Color{0.35, 0.35, 0.35}};
/// The last colour stands for every index beyond it.
[[nodiscard]] const Color& series_color(std::size_t index);

/// A colour of pictures, and the colour that takes its place on a dark page.
struct ColorPair {
  Color light, dark;
};
/// All colours of charts and rooflines.
inline constexpr std::array kColorPairs = {
    ColorPair{kWhite, {0.08, 0.09, 0.11}},           ColorPair{kInk, {0.90, 0.91, 0.93}},
    ColorPair{kSoftInk, {0.64, 0.67, 0.71}},         ColorPair{kGrid, {0.22, 0.24, 0.27}},
    ColorPair{kFaintGrid, {0.14, 0.15, 0.18}},       ColorPair{kRoofInk, {0.70, 0.77, 0.88}},
    ColorPair{kUnderRoof, {0.10, 0.12, 0.15}},       ColorPair{kSeriesColors[0], {0.35, 0.71, 0.96}},
    ColorPair{kSeriesColors[1], {0.98, 0.56, 0.27}}, ColorPair{kSeriesColors[2], {0.20, 0.80, 0.60}},
    ColorPair{kSeriesColors[3], {0.90, 0.62, 0.78}}, ColorPair{kSeriesColors[4], {0.94, 0.75, 0.25}},
    ColorPair{kSeriesColors[5], {0.72, 0.72, 0.72}},
};

/// The colour of cells that show no number.
inline constexpr Color kNoNumber = {0.90, 0.905, 0.915};

/// How well text in one colour can be read on the other, from 1 to 21: the contrast ratio of WCAG 2.
[[nodiscard]] double contrast(const Color& one, const Color& other);

/// The colour of a share from 0 to 1, from dark blue over green to yellow. It is perceptually uniform: a
/// curve in Oklab with equal steps. Lightness rises all the way, so the colours differ for readers who do not
/// see the hues, and in prints without colours.
[[nodiscard]] Color scale_color(double share);

}  // namespace vkattn::picture
