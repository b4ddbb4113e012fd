/** @file
   Score functions of the user's own. Part of vkattn/vkattn.h. */
#ifndef VKATTN_C_SCORE_FUNCTION_H
#define VKATTN_C_SCORE_FUNCTION_H

#include <vkattn/c/problem.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Elements of a score function's buffer, 4 bytes each. */
typedef uint32_t vkattn_score_buffer_type;
enum {
  VKATTN_SCORE_BUFFER_FLOAT = 0, /**< GLSL's float */
  VKATTN_SCORE_BUFFER_INT = 1,   /**< GLSL's int */
  VKATTN_SCORE_BUFFER_UINT = 2   /**< GLSL's uint */
};

/** A table that the function reads as name(i). */
typedef struct vkattn_score_buffer {
  const char* name;              /**< how GLSL reads it */
  vkattn_score_buffer_type type; /**< of its elements */
} vkattn_score_buffer;

/** GLSL of a score function, and the tables that it reads. */
typedef struct vkattn_score_function_desc {
  uint32_t struct_size;               /**< set by the init function */
  const void* next;                   /**< null */
  const char* source;                 /**< GLSL: docs/score_functions.md */
  const char* name;                   /**< in messages; null: "score function" */
  const vkattn_score_buffer* buffers; /**< tables, in the order of vkattn_execution.score_buffers */
  uint32_t buffer_count;              /**< at most 4 */
  uint32_t reserved; /**< 0 */
} vkattn_score_function_desc;
VKATTN_INIT_FUNCTIONS(vkattn_score_function_desc)

/** Compiles GLSL: in the component score_functions, which brings a compiler, and not in the shared library. */
VKATTN_COMPONENT_API vkattn_result vkattn_score_function_compile(const vkattn_score_function_desc* desc,
                                                                 vkattn_score_function** function,
                                                                 vkattn_error* error);
/** The function with its kernels compiled, as bytes for vkattn_score_function_load: for programs that bring no compiler.
    `shaders` names binaries, as vkattn_plan_get_pipelines tells them for a plan; none: all. Writes the bytes if *bytes is
    enough, and sets *bytes to the number that they take; `blob` may be null. */
VKATTN_API vkattn_result vkattn_score_function_save(const vkattn_score_function* function, const char* const* shaders,
                                                    uint32_t shader_count, void* blob, size_t* bytes,
                                                    vkattn_error* error);
/** Makes a score function from bytes that vkattn_score_function_save gave. They are code and must be trusted like code.
    Bytes that are torn, or of a library with other shaders, are refused. */
VKATTN_API vkattn_result vkattn_score_function_load(const void* blob, size_t bytes, vkattn_score_function** function,
                                                    vkattn_error* error);
/** One reference more. A handle that is not alive is refused. */
VKATTN_API vkattn_result vkattn_score_function_retain(vkattn_score_function* function);
/** Destroys it with the last reference; plans keep one of their own. Null is nothing. */
VKATTN_API vkattn_result vkattn_score_function_release(vkattn_score_function* function);

#ifdef __cplusplus
}
#endif

#endif /* VKATTN_C_SCORE_FUNCTION_H */
