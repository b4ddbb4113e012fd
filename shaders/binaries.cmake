# The list of all shader binaries: vkattn_shader(name set file FORM words ...). Each word of a form names what a binary has
# beyond the plain one, and what compiler and device need for it. The defaults of the defines are in lib/forms.glsl,
# lib/matrix_forms.glsl and a few kernels.

vkattn_form(features DEFINES VKATTN_FEATURES=1)
# Without this form (_words), shaders read and write 16-bit tensors through 32-bit words, for devices without 16-bit storage.
vkattn_form(16bit DEFINES VKATTN_STORAGE_16BIT=1 GLSL_EXTENSIONS GL_EXT_shader_16bit_storage
            DEVICE_FEATURES storageBuffer16BitAccess)
# 64-bit loads, for CPU implementations.
vkattn_form(wide DEFINES VKATTN_WIDE_LOADS=1 GLSL_EXTENSIONS GL_EXT_shader_explicit_arithmetic_types_int64
            DEVICE_FEATURES shaderInt64)
# Tensors are read by their buffers' addresses, for CPU implementations.
vkattn_form(addresses DEFINES VKATTN_BUFFER_ADDRESSES=1
            GLSL_EXTENSIONS GL_EXT_buffer_reference GL_EXT_shader_explicit_arithmetic_types_float16
            DEVICE_FEATURES bufferDeviceAddress shaderFloat16)
# Subgroups reduce rows.
vkattn_form(subgroup DEFINES VKATTN_SUBGROUPS=1
            GLSL_EXTENSIONS GL_KHR_shader_subgroup_basic GL_KHR_shader_subgroup_shuffle)
# Products and short sums are in float16.
vkattn_form(float16 DEFINES VKATTN_FLOAT16_ARITHMETIC=1
            GLSL_EXTENSIONS GL_EXT_shader_explicit_arithmetic_types_float16 DEVICE_FEATURES shaderFloat16)
vkattn_form(shuffles GLSL_EXTENSIONS GL_KHR_shader_subgroup_basic GL_KHR_shader_subgroup_shuffle)
# Barriers whose memory is the device's. Their use depends on a specialization constant.
vkattn_form(device_barriers GLSL_EXTENSIONS GL_KHR_memory_scope_semantics)
vkattn_form(matrix
            GLSL_EXTENSIONS GL_KHR_cooperative_matrix GL_KHR_memory_scope_semantics
                            GL_EXT_shader_explicit_arithmetic_types_float16
            DEVICE_FEATURES cooperativeMatrix vulkanMemoryModel shaderFloat16)
vkattn_form(bfloat16 DEFINES VKATTN_MATRIX_BFLOAT16=1 GLSL_EXTENSIONS GL_EXT_bfloat16
            DEVICE_FEATURES shaderBFloat16CooperativeMatrix)
# Loops with barriers are written out for NVIDIA's compiler.
vkattn_form(steps DEFINES VKATTN_MATRIX_WRITES_OUT=1)
# VK_NV_cooperative_matrix2 needs SPIR-V 1.6.
vkattn_form(matrix2 TARGET_ENV vulkan1.3 GLSL_EXTENSIONS GL_NV_cooperative_matrix2
            DEVICE_FEATURES maintenance4 cooperativeMatrixFlexibleDimensions cooperativeMatrixReductions
                            cooperativeMatrixConversions cooperativeMatrixPerElementOperations)
# A pass that serves such binaries and is useless without them.
vkattn_form(for_matrix2 GLSL_EXTENSIONS GL_NV_cooperative_matrix2)
vkattn_form(workgroup DEVICE_FEATURES cooperativeMatrixTensorAddressing cooperativeMatrixWorkgroupScope)
# Matrices of subgroup scope, from shared memory.
vkattn_form(staged DEFINES VKATTN_STAGED=1)
vkattn_form(votes GLSL_EXTENSIONS GL_KHR_shader_subgroup_vote)

# Numbers of rows are kept in lanes, in registers of their own.
vkattn_form(lanes DEFINES VKATTN_MATRIX2_ROWS_IN_LANES=1
            GLSL_EXTENSIONS GL_KHR_shader_subgroup_shuffle GL_KHR_shader_subgroup_vote)

# Each kernel has two binaries. _features adds the bindings of masks, caches, lengths and the like, which simple problems
# do without.
function(attention NAME FILE)
  cmake_parse_arguments(ARG "" "" "FORM" ${ARGN})
  vkattn_shader(attention_${NAME} core ${FILE} FORM ${ARG_FORM})
  vkattn_shader(attention_${NAME}_features core ${FILE} FORM features ${ARG_FORM})
endfunction()

attention(lane                  lane/attention_lane.comp       FORM 16bit)
attention(lane_words            lane/attention_lane.comp)
attention(lane_wide             lane/attention_lane.comp       FORM 16bit wide)
attention(lane_decode_words     lane/attention_lane_decode.comp FORM shuffles)
attention(lane_decode_wide      lane/attention_lane_decode.comp FORM 16bit wide shuffles)
attention(lane_decode_addresses lane/attention_lane_decode.comp FORM 16bit wide shuffles addresses)
attention(tile                  tile/attention_tile.comp       FORM 16bit)
attention(tile_words            tile/attention_tile.comp)
attention(tile_subgroup         tile/attention_tile.comp       FORM 16bit subgroup)
attention(tile_subgroup_words   tile/attention_tile.comp       FORM subgroup)
attention(tile_float16          tile/attention_tile.comp       FORM 16bit float16)
attention(decode                decode/attention_decode.comp   FORM 16bit shuffles device_barriers)
attention(decode_words          decode/attention_decode.comp   FORM shuffles device_barriers)
attention(matrix                matrix/attention_matrix.comp   FORM 16bit matrix)
attention(matrix_bfloat16       matrix/attention_matrix.comp   FORM 16bit matrix bfloat16)
attention(matrix2               matrix2/attention_matrix2.comp FORM 16bit matrix matrix2 workgroup)
attention(matrix2_bfloat16      matrix2/attention_matrix2.comp FORM 16bit matrix matrix2 workgroup bfloat16)
attention(matrix2_staged        matrix2/attention_matrix2_staged.comp FORM 16bit matrix matrix2 staged)
attention(matrix2_staged_steps  matrix2/attention_matrix2_staged.comp FORM 16bit matrix matrix2 staged steps)
attention(matrix2_staged_lanes  matrix2/attention_matrix2_staged.comp FORM 16bit matrix matrix2 staged steps lanes)

# Passes before and after the kernels.
attention(combine               passes/attention_combine.comp  FORM 16bit)
attention(combine_words         passes/attention_combine.comp)
vkattn_shader(attention_block_mask_features    core passes/attention_block_mask.comp FORM features)
vkattn_shader(attention_weights_features       core passes/attention_weights.comp    FORM features 16bit)
vkattn_shader(attention_weights_words_features core passes/attention_weights.comp    FORM features)

vkattn_shader(attention_gather                 core passes/attention_gather.comp)
# Finds which rows of matrices a lane has, for the form `lanes`.
vkattn_shader(matrix_row_probe                 core passes/matrix_row_probe.comp FORM matrix matrix2)
vkattn_shader(attention_merge                  core passes/attention_merge.comp)

# The backward pass only has forms with features.
function(backward NAME FILE)
  cmake_parse_arguments(ARG "" "" "FORM" ${ARGN})
  vkattn_shader(backward_${NAME} core backward/${FILE} FORM features ${ARG_FORM})
endfunction()

backward(lane_rows              lane_rows.comp    FORM 16bit)
backward(lane_rows_words        lane_rows.comp)
backward(lane_rows_wide         lane_rows.comp    FORM 16bit wide)
backward(lane_keys              lane_keys.comp    FORM 16bit)
backward(lane_keys_words        lane_keys.comp)
backward(lane_keys_wide         lane_keys.comp    FORM 16bit wide)
backward(tile_rows              tile_rows.comp    FORM 16bit)
backward(tile_rows_words        tile_rows.comp)
backward(tile_keys              tile_keys.comp    FORM 16bit)
backward(tile_keys_words        tile_keys.comp)
backward(matrix_rows            matrix_rows.comp  FORM 16bit matrix)
backward(matrix_rows_bfloat16   matrix_rows.comp  FORM 16bit matrix bfloat16)
backward(matrix_keys            matrix_keys.comp  FORM 16bit matrix)
backward(matrix_keys_bfloat16   matrix_keys.comp  FORM 16bit matrix bfloat16)
backward(row_numbers            row_numbers.comp  FORM 16bit for_matrix2)
backward(matrix2_rows           matrix2_rows.comp FORM 16bit matrix matrix2 workgroup)
backward(matrix2_rows_bfloat16  matrix2_rows.comp FORM 16bit matrix matrix2 workgroup bfloat16)
backward(matrix2_rows_staged    matrix2_rows.comp FORM 16bit matrix matrix2 staged votes)
backward(matrix2_keys           matrix2_keys.comp FORM 16bit matrix matrix2 workgroup)
backward(matrix2_keys_bfloat16  matrix2_keys.comp FORM 16bit matrix matrix2 workgroup bfloat16)
backward(matrix2_keys_staged    matrix2_keys.comp FORM 16bit matrix matrix2 staged votes)
backward(mask                   mask_sums.comp    FORM 16bit)
backward(mask_words             mask_sums.comp)
backward(heads                  head_sums.comp)

vkattn_shader(cache_append            core cache/cache_append.comp        FORM 16bit)
vkattn_shader(cache_append_words      core cache/cache_append.comp)

# Matrix multiplication.
vkattn_shader(matmul_lane             core matmul/matmul_lane.comp    FORM 16bit)
vkattn_shader(matmul_lane_words       core matmul/matmul_lane.comp)
vkattn_shader(matmul_lane_wide        core matmul/matmul_lane.comp    FORM 16bit wide)
vkattn_shader(matmul_lane_decode_wide core matmul/matmul_lane_decode.comp FORM 16bit wide shuffles)
vkattn_shader(matmul_lane_decode_addresses core matmul/matmul_lane_decode_vectors.comp FORM 16bit wide shuffles addresses)
vkattn_shader(matmul_lane_decode_across_wide core matmul/matmul_lane_decode_across.comp FORM 16bit wide)
vkattn_shader(matmul_tile             core matmul/matmul_tile.comp    FORM 16bit)
vkattn_shader(matmul_tile_words       core matmul/matmul_tile.comp)
vkattn_shader(matmul_matrix           core matmul/matmul_matrix.comp  FORM 16bit matrix)
vkattn_shader(matmul_matrix_steps     core matmul/matmul_matrix.comp  FORM 16bit matrix steps)
vkattn_shader(matmul_matrix_bfloat16  core matmul/matmul_matrix.comp  FORM 16bit matrix bfloat16)
vkattn_shader(matmul_matrix_steps_bfloat16 core matmul/matmul_matrix.comp FORM 16bit matrix steps bfloat16)
vkattn_shader(matmul_combine          core matmul/matmul_combine.comp FORM 16bit)
vkattn_shader(matmul_combine_words    core matmul/matmul_combine.comp)
vkattn_shader(matmul_copy             core matmul/matmul_copy.comp    FORM 16bit wide)

# Compares kernels that run a user's score function with the reference. The score function component embeds its text.
vkattn_shader(score_rows           bench bench/score_rows.comp)

# The benchmark's unfused baseline.
vkattn_shader(unfused              bench bench/unfused.comp FORM 16bit)
vkattn_shader(unfused_words        bench bench/unfused.comp)

# The benchmark's measured peaks.
vkattn_form(peak_matrix TARGET_ENV vulkan1.2
            GLSL_EXTENSIONS GL_KHR_cooperative_matrix GL_KHR_memory_scope_semantics
                            GL_EXT_shader_explicit_arithmetic_types
            DEVICE_FEATURES cooperativeMatrix vulkanMemoryModel)
vkattn_form(peak_f16_f32 DEFINES VKATTN_PEAK_OPERAND=float16_t VKATTN_PEAK_ACCUMULATOR=float DEVICE_FEATURES shaderFloat16)
vkattn_form(peak_f16_f16 DEFINES VKATTN_PEAK_OPERAND=float16_t VKATTN_PEAK_ACCUMULATOR=float16_t
            DEVICE_FEATURES shaderFloat16)
vkattn_form(peak_bf16_f32 DEFINES VKATTN_PEAK_OPERAND=bfloat16_t VKATTN_PEAK_ACCUMULATOR=float VKATTN_PEAK_BFLOAT16=1
            GLSL_EXTENSIONS GL_EXT_bfloat16 DEVICE_FEATURES shaderBFloat16CooperativeMatrix)
vkattn_form(peak_s8_s32 DEFINES VKATTN_PEAK_OPERAND=int8_t VKATTN_PEAK_ACCUMULATOR=int32_t DEVICE_FEATURES shaderInt8)

vkattn_shader(peak_multiply_add    bench bench/peak_multiply_add.comp)
vkattn_shader(peak_copy            bench bench/peak_copy.comp)
vkattn_shader(peak_read_vectors    bench bench/peak_read_vectors.comp FORM wide shuffles addresses)
vkattn_shader(peak_matrix_f16_f32  bench bench/peak_matrix.comp FORM peak_matrix peak_f16_f32)
vkattn_shader(peak_matrix_f16_f16  bench bench/peak_matrix.comp FORM peak_matrix peak_f16_f16)
vkattn_shader(peak_matrix_bf16_f32 bench bench/peak_matrix.comp FORM peak_matrix peak_bf16_f32)
vkattn_shader(peak_matrix_s8_s32   bench bench/peak_matrix.comp FORM peak_matrix peak_s8_s32)
