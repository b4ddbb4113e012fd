// The place of a user's score function. With VKATTN_USER_SCORE, the name user_score.glsl is resolved at run time to
// generated text, which defines all of the names below for the user's functions.
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

// Both take batch entry, head and query of the window. The score is in log2 units.
float user_score(float score, uint batch, uint head, uint query, uint key) { return score; }
bool user_visible(uint batch, uint head, uint query, uint key) { return true; }
#endif

#endif
