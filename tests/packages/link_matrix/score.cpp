// Uses an installed score_functions with the glslang that it needs.
#include <vkattn/score_function.hpp>

#include <cstdio>

int main() {
  vkattn::ScoreFunctionDesc desc;
  desc.source = "float score(float score, Position p) { return score + float(p.key); }";
  const auto function = vkattn::ScoreFunction::create(desc);
  if (function) return 0;
  std::fprintf(stderr, "%s\n", function.error().message.c_str());
  return 1;
}
