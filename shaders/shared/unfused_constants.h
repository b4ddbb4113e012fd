// Constants that the shader of the unfused baseline and the host share. GLSL and C++ read these plain macros.
#ifndef VKATTN_SHARED_UNFUSED_CONSTANTS_H
#define VKATTN_SHARED_UNFUSED_CONSTANTS_H

// Specialization constants of the baseline, beside those of every attention kernel.
#define VKATTN_SPEC_UNFUSED_PASS 48
#define VKATTN_SPEC_UNFUSED_ROWS 49
#define VKATTN_SPEC_UNFUSED_KEYS 50

// Passes of the baseline.
#define VKATTN_UNFUSED_SCORES 0
#define VKATTN_UNFUSED_SOFTMAX 1
#define VKATTN_UNFUSED_WEIGHTED_SUM 2

#endif
