# The one list of shader binaries: vkattn_shader(name set file ...).
# Forms: _words reads and writes 16-bit tensors through 32-bit words, for devices without 16-bit storage; _wide
# reads with 64-bit loads, for CPU implementations; _subgroup needs subgroup shuffles in compute shaders.

set(storage_16bit GLSL_EXTENSIONS GL_EXT_shader_16bit_storage DEVICE_FEATURES storageBuffer16BitAccess)

# Each kernel twice: _features adds the bindings of masks, caches, lengths and the like (lib/features.glsl), which
# problems without need not have.
foreach(features 0 1)
  set(form "")
  if(features)
    set(form "_features")
  endif()

  vkattn_shader(attention_lane${form} core attention_lane.comp
                DEFINES VKATTN_FEATURES=${features} VKATTN_STORAGE_16BIT=1 VKATTN_WIDE_LOADS=0 ${storage_16bit})
  vkattn_shader(attention_lane_words${form} core attention_lane.comp
                DEFINES VKATTN_FEATURES=${features} VKATTN_STORAGE_16BIT=0 VKATTN_WIDE_LOADS=0)
  vkattn_shader(attention_lane_wide${form} core attention_lane.comp
                DEFINES VKATTN_FEATURES=${features} VKATTN_STORAGE_16BIT=1 VKATTN_WIDE_LOADS=1
                GLSL_EXTENSIONS GL_EXT_shader_16bit_storage GL_EXT_shader_explicit_arithmetic_types_int64
                DEVICE_FEATURES storageBuffer16BitAccess shaderInt64)
  vkattn_shader(attention_tile${form} core attention_tile.comp
                DEFINES VKATTN_FEATURES=${features} VKATTN_STORAGE_16BIT=1 VKATTN_WIDE_LOADS=0 VKATTN_SUBGROUPS=0 ${storage_16bit})
  vkattn_shader(attention_tile_words${form} core attention_tile.comp
                DEFINES VKATTN_FEATURES=${features} VKATTN_STORAGE_16BIT=0 VKATTN_WIDE_LOADS=0 VKATTN_SUBGROUPS=0)
  vkattn_shader(attention_tile_subgroup${form} core attention_tile.comp
                DEFINES VKATTN_FEATURES=${features} VKATTN_STORAGE_16BIT=1 VKATTN_WIDE_LOADS=0 VKATTN_SUBGROUPS=1
                GLSL_EXTENSIONS GL_EXT_shader_16bit_storage GL_KHR_shader_subgroup_shuffle
                DEVICE_FEATURES storageBuffer16BitAccess)
  vkattn_shader(attention_tile_subgroup_words${form} core attention_tile.comp
                DEFINES VKATTN_FEATURES=${features} VKATTN_STORAGE_16BIT=0 VKATTN_WIDE_LOADS=0 VKATTN_SUBGROUPS=1
                GLSL_EXTENSIONS GL_KHR_shader_subgroup_shuffle)

  # _shared sums through shared memory, for devices whose subgroups cannot shuffle or have no known size.
  set(subgroup_shuffles GL_KHR_shader_subgroup_basic GL_KHR_shader_subgroup_shuffle)
  vkattn_shader(attention_decode${form} core attention_decode.comp
                DEFINES VKATTN_FEATURES=${features} VKATTN_STORAGE_16BIT=1 VKATTN_WIDE_LOADS=0 VKATTN_SUBGROUP_SHUFFLES=1
                GLSL_EXTENSIONS GL_EXT_shader_16bit_storage ${subgroup_shuffles}
                DEVICE_FEATURES storageBuffer16BitAccess)
  vkattn_shader(attention_decode_words${form} core attention_decode.comp
                DEFINES VKATTN_FEATURES=${features} VKATTN_STORAGE_16BIT=0 VKATTN_WIDE_LOADS=0 VKATTN_SUBGROUP_SHUFFLES=1
                GLSL_EXTENSIONS ${subgroup_shuffles})
  vkattn_shader(attention_decode_shared${form} core attention_decode.comp
                DEFINES VKATTN_FEATURES=${features} VKATTN_STORAGE_16BIT=1 VKATTN_WIDE_LOADS=0 VKATTN_SUBGROUP_SHUFFLES=0 ${storage_16bit})
  vkattn_shader(attention_decode_shared_words${form} core attention_decode.comp
                DEFINES VKATTN_FEATURES=${features} VKATTN_STORAGE_16BIT=0 VKATTN_WIDE_LOADS=0 VKATTN_SUBGROUP_SHUFFLES=0)

  vkattn_shader(attention_combine${form} core attention_combine.comp
                DEFINES VKATTN_FEATURES=${features} VKATTN_STORAGE_16BIT=1 VKATTN_WIDE_LOADS=0 ${storage_16bit})
  vkattn_shader(attention_combine_words${form} core attention_combine.comp
                DEFINES VKATTN_FEATURES=${features} VKATTN_STORAGE_16BIT=0 VKATTN_WIDE_LOADS=0)

  # Operands of the matrix kernel: 16-bit storage types of Q, K and V. _loops is for CPU implementations.
  set(matrix_kernel GL_KHR_cooperative_matrix GL_KHR_memory_scope_semantics
      GL_EXT_shader_explicit_arithmetic_types_float16 GL_EXT_shader_16bit_storage)
  set(matrix_features cooperativeMatrix vulkanMemoryModel shaderFloat16 storageBuffer16BitAccess)
  vkattn_shader(attention_matrix${form} core attention_matrix.comp
                DEFINES VKATTN_FEATURES=${features} VKATTN_STORAGE_16BIT=1 VKATTN_WIDE_LOADS=0 VKATTN_MATRIX_BFLOAT16=0
                        VKATTN_MATRIX_ELEMENT=float16_t VKATTN_MATRIX_LOOPS=0
                GLSL_EXTENSIONS ${matrix_kernel} DEVICE_FEATURES ${matrix_features})
  vkattn_shader(attention_matrix_loops${form} core attention_matrix.comp
                DEFINES VKATTN_FEATURES=${features} VKATTN_STORAGE_16BIT=1 VKATTN_WIDE_LOADS=0 VKATTN_MATRIX_BFLOAT16=0
                        VKATTN_MATRIX_ELEMENT=float16_t VKATTN_MATRIX_LOOPS=1
                GLSL_EXTENSIONS ${matrix_kernel} DEVICE_FEATURES ${matrix_features})
  vkattn_shader(attention_matrix_bfloat16${form} core attention_matrix.comp
                DEFINES VKATTN_FEATURES=${features} VKATTN_STORAGE_16BIT=1 VKATTN_WIDE_LOADS=0 VKATTN_MATRIX_BFLOAT16=1
                        VKATTN_MATRIX_ELEMENT=bfloat16_t VKATTN_MATRIX_LOOPS=0
                GLSL_EXTENSIONS ${matrix_kernel} GL_EXT_bfloat16
                DEVICE_FEATURES ${matrix_features} shaderBFloat16CooperativeMatrix)

  # The same with VK_NV_cooperative_matrix2, which asks for SPIR-V 1.6. _subgroup is for devices without matrices of
  # workgroup scope, _elements for CPU implementations, which have no tensor addressing.
  set(matrix2_kernel ${matrix_kernel} GL_NV_cooperative_matrix2)
  set(matrix2_features ${matrix_features} maintenance4 cooperativeMatrixFlexibleDimensions cooperativeMatrixReductions
      cooperativeMatrixConversions cooperativeMatrixPerElementOperations)
  vkattn_shader(attention_matrix2${form} core attention_matrix2.comp TARGET_ENV vulkan1.3
                DEFINES VKATTN_FEATURES=${features} VKATTN_STORAGE_16BIT=1 VKATTN_WIDE_LOADS=0 VKATTN_MATRIX_BFLOAT16=0
                        VKATTN_MATRIX_ELEMENT=float16_t VKATTN_MATRIX_LOOPS=0 VKATTN_MATRIX2_TENSORS=1
                        VKATTN_MATRIX2_SCOPE=gl_ScopeWorkgroup
                GLSL_EXTENSIONS ${matrix2_kernel}
                DEVICE_FEATURES ${matrix2_features} cooperativeMatrixTensorAddressing cooperativeMatrixWorkgroupScope)
  vkattn_shader(attention_matrix2_subgroup${form} core attention_matrix2.comp TARGET_ENV vulkan1.3
                DEFINES VKATTN_FEATURES=${features} VKATTN_STORAGE_16BIT=1 VKATTN_WIDE_LOADS=0 VKATTN_MATRIX_BFLOAT16=0
                        VKATTN_MATRIX_ELEMENT=float16_t VKATTN_MATRIX_LOOPS=0 VKATTN_MATRIX2_TENSORS=1
                        VKATTN_MATRIX2_SCOPE=gl_ScopeSubgroup
                GLSL_EXTENSIONS ${matrix2_kernel}
                DEVICE_FEATURES ${matrix2_features} cooperativeMatrixTensorAddressing)
  vkattn_shader(attention_matrix2_elements${form} core attention_matrix2.comp TARGET_ENV vulkan1.3
                DEFINES VKATTN_FEATURES=${features} VKATTN_STORAGE_16BIT=1 VKATTN_WIDE_LOADS=0 VKATTN_MATRIX_BFLOAT16=0
                        VKATTN_MATRIX_ELEMENT=float16_t VKATTN_MATRIX_LOOPS=1 VKATTN_MATRIX2_TENSORS=0
                        VKATTN_MATRIX2_SCOPE=gl_ScopeSubgroup
                GLSL_EXTENSIONS ${matrix2_kernel} DEVICE_FEATURES ${matrix2_features})
  vkattn_shader(attention_matrix2_bfloat16${form} core attention_matrix2.comp TARGET_ENV vulkan1.3
                DEFINES VKATTN_FEATURES=${features} VKATTN_STORAGE_16BIT=1 VKATTN_WIDE_LOADS=0 VKATTN_MATRIX_BFLOAT16=1
                        VKATTN_MATRIX_ELEMENT=bfloat16_t VKATTN_MATRIX_LOOPS=0 VKATTN_MATRIX2_TENSORS=1
                        VKATTN_MATRIX2_SCOPE=gl_ScopeWorkgroup
                GLSL_EXTENSIONS ${matrix2_kernel} GL_EXT_bfloat16
                DEVICE_FEATURES ${matrix2_features} cooperativeMatrixTensorAddressing cooperativeMatrixWorkgroupScope
                                shaderBFloat16CooperativeMatrix)
endforeach()

# Passes before and after the kernels.
vkattn_shader(attention_block_mask_features core attention_block_mask.comp
              DEFINES VKATTN_FEATURES=1 VKATTN_STORAGE_16BIT=0 VKATTN_WIDE_LOADS=0)
vkattn_shader(attention_weights_features core attention_weights.comp
              DEFINES VKATTN_FEATURES=1 VKATTN_STORAGE_16BIT=1 VKATTN_WIDE_LOADS=0 ${storage_16bit})
vkattn_shader(attention_weights_words_features core attention_weights.comp
              DEFINES VKATTN_FEATURES=1 VKATTN_STORAGE_16BIT=0 VKATTN_WIDE_LOADS=0)

vkattn_shader(cache_append core cache_append.comp DEFINES VKATTN_STORAGE_16BIT=1 ${storage_16bit})
vkattn_shader(cache_append_words core cache_append.comp DEFINES VKATTN_STORAGE_16BIT=0)

# The baseline of the benchmark.
vkattn_shader(attention_unfused core attention_unfused.comp
              DEFINES VKATTN_FEATURES=0 VKATTN_STORAGE_16BIT=1 VKATTN_WIDE_LOADS=0
              ${storage_16bit})
vkattn_shader(attention_unfused_words core attention_unfused.comp
              DEFINES VKATTN_FEATURES=0 VKATTN_STORAGE_16BIT=0 VKATTN_WIDE_LOADS=0)

# For comparing kernels that have a score function of the user's own with the reference.
vkattn_shader(score_rows core score_rows.comp)

# Measured peaks of the benchmark.
set(peak_matrix_extensions GL_KHR_cooperative_matrix GL_KHR_memory_scope_semantics GL_EXT_shader_explicit_arithmetic_types)
set(peak_matrix_features cooperativeMatrix vulkanMemoryModel)

vkattn_shader(peak_multiply_add bench bench/peak_multiply_add.comp)
vkattn_shader(peak_copy bench bench/peak_copy.comp)
vkattn_shader(peak_matrix_f16_f32 bench bench/peak_matrix.comp TARGET_ENV vulkan1.2
              DEFINES VKATTN_PEAK_OPERAND=float16_t VKATTN_PEAK_ACCUMULATOR=float
              GLSL_EXTENSIONS ${peak_matrix_extensions} DEVICE_FEATURES ${peak_matrix_features} shaderFloat16)
vkattn_shader(peak_matrix_f16_f16 bench bench/peak_matrix.comp TARGET_ENV vulkan1.2
              DEFINES VKATTN_PEAK_OPERAND=float16_t VKATTN_PEAK_ACCUMULATOR=float16_t
              GLSL_EXTENSIONS ${peak_matrix_extensions} DEVICE_FEATURES ${peak_matrix_features} shaderFloat16)
vkattn_shader(peak_matrix_bf16_f32 bench bench/peak_matrix.comp TARGET_ENV vulkan1.2
              DEFINES VKATTN_PEAK_OPERAND=bfloat16_t VKATTN_PEAK_ACCUMULATOR=float VKATTN_PEAK_BFLOAT16=1
              GLSL_EXTENSIONS ${peak_matrix_extensions} GL_EXT_bfloat16
              DEVICE_FEATURES ${peak_matrix_features} shaderBFloat16CooperativeMatrix)
vkattn_shader(peak_matrix_s8_s32 bench bench/peak_matrix.comp TARGET_ENV vulkan1.2
              DEFINES VKATTN_PEAK_OPERAND=int8_t VKATTN_PEAK_ACCUMULATOR=int32_t
              GLSL_EXTENSIONS ${peak_matrix_extensions} DEVICE_FEATURES ${peak_matrix_features} shaderInt8)
