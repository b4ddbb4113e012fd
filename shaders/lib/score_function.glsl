// Where a user's score function comes in: with VKATTN_USER_SCORE the name user_score.glsl is resolved at run time to
// generated text, which defines all of this for the user's own functions.
#ifndef VKATTN_LIB_SCORE_FUNCTION
#define VKATTN_LIB_SCORE_FUNCTION

#ifndef VKATTN_USER_SCORE
#define VKATTN_USER_SCORE 0
#endif

#if VKATTN_USER_SCORE
#include "user_score.glsl"
#else
const bool kHasUserScore = false;
const bool kUserHides = false;

// A score in log2 units; batch entry, head and query are those of the window.
float user_score(float score, uint batch, uint head, uint query, uint key) { return score; }
bool user_visible(uint batch, uint head, uint query, uint key) { return true; }
#endif

#endif
