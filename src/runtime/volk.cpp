// The one translation unit with volk's definitions.
#if defined(__GNUC__)
#pragma GCC system_header
#endif
#define VOLK_IMPLEMENTATION
#include <volk.h>
