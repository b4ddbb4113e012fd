# The one list of shader binaries: vkattn_shader(name set file ...).
# Forms: _words reads and writes 16-bit tensors through 32-bit words, for devices without 16-bit storage; _wide
# reads with 64-bit loads, for CPU implementations.

set(storage_16bit GLSL_EXTENSIONS GL_EXT_shader_16bit_storage DEVICE_FEATURES storageBuffer16BitAccess)

vkattn_shader(attention_lane core attention_lane.comp DEFINES VKATTN_STORAGE_16BIT=1 VKATTN_WIDE_LOADS=0
              ${storage_16bit})
vkattn_shader(attention_lane_words core attention_lane.comp DEFINES VKATTN_STORAGE_16BIT=0 VKATTN_WIDE_LOADS=0)
vkattn_shader(attention_lane_wide core attention_lane.comp DEFINES VKATTN_STORAGE_16BIT=1 VKATTN_WIDE_LOADS=1
              GLSL_EXTENSIONS GL_EXT_shader_16bit_storage GL_EXT_shader_explicit_arithmetic_types_int64
              DEVICE_FEATURES storageBuffer16BitAccess shaderInt64)
vkattn_shader(attention_tile core attention_tile.comp DEFINES VKATTN_STORAGE_16BIT=1 VKATTN_WIDE_LOADS=0
              ${storage_16bit})
vkattn_shader(attention_tile_words core attention_tile.comp DEFINES VKATTN_STORAGE_16BIT=0 VKATTN_WIDE_LOADS=0)

vkattn_shader(attention_combine core attention_combine.comp DEFINES VKATTN_STORAGE_16BIT=1 VKATTN_WIDE_LOADS=0
              ${storage_16bit})
vkattn_shader(attention_combine_words core attention_combine.comp
              DEFINES VKATTN_STORAGE_16BIT=0 VKATTN_WIDE_LOADS=0)

# Measured peaks of the benchmark.
set(matrix_extensions GL_KHR_cooperative_matrix GL_KHR_memory_scope_semantics
    GL_EXT_shader_explicit_arithmetic_types_float16)
vkattn_shader(peak_multiply_add bench bench/peak_multiply_add.comp)
vkattn_shader(peak_copy         bench bench/peak_copy.comp)
