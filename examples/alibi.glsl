// ALiBi for 8 heads with slopes 1/2 to 1/256, equal to `alibi` in a problem string:
//   vkattn bench "b1 h8 2048x2048 d64 f32" --score examples/alibi.glsl
float score(float s, Position p) { return s - exp2(-float(p.head + 1)) * abs(float(p.query) - float(p.key)); }
