// Specialization constants and push constants of matrix multiplication.
#ifndef VKATTN_MATMUL_SPECIALIZATION
#define VKATTN_MATMUL_SPECIALIZATION

#include "lib/forms.glsl"
#include "lib/workgroups.glsl"
#include "shared/attention_constants.h"
#include "shared/matmul_constants.h"
#include "shared/matmul_params.h"

layout(local_size_x_id = VKATTN_MATMUL_SPEC_WORKGROUP_SIZE) in;
layout(constant_id = VKATTN_MATMUL_SPEC_WORKGROUP_SIZE) const uint kWorkgroupSize = 8;
layout(constant_id = VKATTN_MATMUL_SPEC_A_TYPE) const uint kAType = VKATTN_TYPE_FLOAT32;
layout(constant_id = VKATTN_MATMUL_SPEC_B_TYPE) const uint kBType = VKATTN_TYPE_FLOAT32;
layout(constant_id = VKATTN_MATMUL_SPEC_BIAS_TYPE) const uint kBiasType = VKATTN_TYPE_FLOAT32;
layout(constant_id = VKATTN_MATMUL_SPEC_OUTPUT_TYPE) const uint kOutputType = VKATTN_TYPE_FLOAT32;
layout(constant_id = VKATTN_MATMUL_SPEC_A_LOADS) const uint kALoads = VKATTN_MATMUL_LOADS_SINGLE;
layout(constant_id = VKATTN_MATMUL_SPEC_B_LOADS) const uint kBLoads = VKATTN_MATMUL_LOADS_SINGLE;
layout(constant_id = VKATTN_MATMUL_SPEC_HAS_BIAS) const bool kHasBias = false;
layout(constant_id = VKATTN_MATMUL_SPEC_ACCUMULATES) const bool kAccumulates = false;
layout(constant_id = VKATTN_MATMUL_SPEC_SPLIT) const bool kSplit = false;
layout(constant_id = VKATTN_MATMUL_SPEC_ROWS) const uint kRows = 8;
layout(constant_id = VKATTN_MATMUL_SPEC_COLUMNS) const uint kColumns = 8;
layout(constant_id = VKATTN_MATMUL_SPEC_INNER) const uint kInner = 8;

// A shader that reaches buffers by addresses of its own defines their names before it includes this.
#ifndef VKATTN_ADDRESS_PARAMS
#define VKATTN_ADDRESS_PARAMS
#endif
layout(push_constant, std430) uniform PushConstants { MatmulParams params; VKATTN_ADDRESS_PARAMS };

// The number of this workgroup's unit among all, and whether it has one.
uint first_unit_of_group(uint units_per_group) {
  return params.first_unit + workgroup_number() * units_per_group;
}
bool has_unit(uint unit) { return unit - params.first_unit < params.unit_count; }

#endif
