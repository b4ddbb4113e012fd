// Constants of the unfused baseline that its shader and the host share. Plain macros: read by GLSL and by C++.
#ifndef VKATTN_SHARED_UNFUSED_CONSTANTS_H
#define VKATTN_SHARED_UNFUSED_CONSTANTS_H

// Its specialization constants, beside those of every attention kernel.
#define VKATTN_SPEC_UNFUSED_PASS 48
#define VKATTN_SPEC_UNFUSED_ROWS 49
#define VKATTN_SPEC_UNFUSED_KEYS 50

// Its passes.
#define VKATTN_UNFUSED_SCORES 0
#define VKATTN_UNFUSED_SOFTMAX 1
#define VKATTN_UNFUSED_WEIGHTED_SUM 2

#endif
