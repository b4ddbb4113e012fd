/* A program in C99 with the static core: prints the library's version. */
#include <stdio.h>
#include <vkattn/vkattn.h>

#if __STDC_VERSION__ != 199901L
#error "vkattn::c has changed the program's language"
#endif

int main(void) {
  printf("%u\n", (unsigned)vkattn_version());
  return vkattn_version() == 0;
}
