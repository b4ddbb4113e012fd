// See colors.hpp. The conversion from Oklab: B. Ottosson, "A perceptual color space for image
// processing", 2020.
#include "colors.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace vkattn::picture {
namespace {

/// A colour in Oklab, in which equal distances look equal.
struct Oklab {
  double lightness = 0, a = 0, b = 0;
};

/// A quadratic curve from the first colour to the last, bent towards the one between.
constexpr std::array kCurve = {Oklab{0.23, -0.01, -0.09}, Oklab{0.56, -0.13, 0.0},
                               Oklab{0.92, -0.035, 0.165}};

double encoded(double linear) {
  const double bounded = std::clamp(linear, 0.0, 1.0);
  return bounded <= 0.0031308 ? 12.92 * bounded : 1.055 * std::pow(bounded, 1 / 2.4) - 0.055;
}

double decoded(double part) {
  return part <= 0.04045 ? part / 12.92 : std::pow((part + 0.055) / 1.055, 2.4);
}

Color to_srgb(const Oklab& color) {
  const auto cone = [&](double a, double b) {
    return std::pow(color.lightness + a * color.a + b * color.b, 3);
  };
  const double l = cone(0.3963377774, 0.2158037573);
  const double m = cone(-0.1055613458, -0.0638541728);
  const double s = cone(-0.0894841775, -1.2914855480);
  return {encoded(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
          encoded(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
          encoded(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s)};
}

Oklab curve_at(double t) {
  const auto part = [&](double Oklab::*which) {
    const double first = std::lerp(kCurve[0].*which, kCurve[1].*which, t);
    return std::lerp(first, std::lerp(kCurve[1].*which, kCurve[2].*which, t), t);
  };
  return {part(&Oklab::lightness), part(&Oklab::a), part(&Oklab::b)};
}

constexpr std::size_t kPieces = 256;

/// The length of the curve up to each of its pieces.
std::array<double, kPieces + 1> curve_lengths() {
  std::array<double, kPieces + 1> lengths{};
  Oklab before = curve_at(0);
  for (std::size_t i = 1; i <= kPieces; ++i) {
    const Oklab now = curve_at(static_cast<double>(i) / kPieces);
    lengths.at(i) =
        lengths.at(i - 1) + std::hypot(now.lightness - before.lightness, now.a - before.a, now.b - before.b);
    before = now;
  }
  return lengths;
}

}  // namespace

const Color& series_color(std::size_t index) {
  return kSeriesColors.at(std::min(index, kSeriesColors.size() - 1));
}

Color scale_color(double share) {
  static const std::array<double, kPieces + 1> kLengths = curve_lengths();
  const double length = std::clamp(std::isfinite(share) ? share : 0.0, 0.0, 1.0) * kLengths.back();
  const auto next = std::upper_bound(kLengths.begin() + 1, kLengths.end() - 1, length);
  const double begin = *(next - 1);
  const auto pieces = static_cast<double>(next - 1 - kLengths.begin());
  return to_srgb(curve_at((pieces + (length - begin) / (*next - begin)) / kPieces));
}

double contrast(const Color& one, const Color& other) {
  const auto luminance = [](const Color& color) {
    return 0.2126 * decoded(color.red) + 0.7152 * decoded(color.green) + 0.0722 * decoded(color.blue);
  };
  const auto [dark, light] = std::minmax({luminance(one), luminance(other)});
  return (light + 0.05) / (dark + 0.05);
}

}  // namespace vkattn::picture
