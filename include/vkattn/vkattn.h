/** @file
   vkattn in C: attention, its gradients, cache appends, projections and whole layers on a Vulkan device of the caller's,
   for every language that calls C. C99.

   docs/semantics.md defines every result, docs/embedding.md says who does what. vkattn/attention.hpp and the C++ headers of
   other problems explain the fields of a problem, which have the same names there.

   The rules of the interface:
   - Structures with an init function begin with struct_size and next. The init function sets struct_size, null for next (no
     structure can follow yet) and the defaults. Call it before you write anything else, for a vkattn_error too: an error whose
     struct_size is 0 gets no message. A library takes structures of every earlier version, and refuses by name structures of
     a later version whose size it does not know. Languages without this header call the functions that end in _init_sized,
     with the size of their structure. Plain values have neither.
   - Functions that can fail return a vkattn_result and write one sentence to `error`, which may be null. After a failure the
     handles that they would have made are null, and nothing else has changed.
   - Members that are called reserved are 0, as the init functions leave them. A handle that was released or destroyed is
     refused as long as nothing new is at its address; calls without a result then give nothing (0, or an empty text).
   - Nothing here submits, waits for the device, prints, throws or aborts. Handles to devices and plans may be used from
     several threads; bindings from one at a time.
   - Pointers in structures are read during the call only. */
#ifndef VKATTN_VKATTN_H
#define VKATTN_VKATTN_H

#include <vkattn/c/result.h>
#include <vkattn/c/device.h>
#include <vkattn/c/problem.h>
#include <vkattn/c/plan.h>
#include <vkattn/c/supports.h>
#include <vkattn/c/recording.h>
#include <vkattn/c/pipeline_cache.h>
#include <vkattn/c/self_test.h>
#include <vkattn/c/score_function.h>
#include <vkattn/c/cache.h>
#include <vkattn/c/merge.h>
#include <vkattn/c/backward.h>
#include <vkattn/c/matmul.h>
#include <vkattn/c/multi_head_attention.h>

#endif /* VKATTN_VKATTN_H */
