// The workgroups of a dispatch as a list, folded over x and y of the grid.
#ifndef VKATTN_LIB_WORKGROUPS
#define VKATTN_LIB_WORKGROUPS

// This workgroup's number in the list. The last workgroups of a folded grid lie beyond the list's end.
uint workgroup_number() { return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; }

#endif
