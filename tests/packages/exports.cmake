# The shared library has the functions of the committed list and no other name, and the component of score functions those that
# are said to be of a component, and no other of C: NM, LIBRARY, LIST, COMPONENT where it is built.
include(${CMAKE_CURRENT_LIST_DIR}/steps.cmake)

# has(LIBRARY NAMES_PATTERN LIST_PATTERN NM_OPTIONS...): its names of that pattern are what the list has.
function(has LIBRARY NAMES_PATTERN LIST_PATTERN)
  step(${NM} --defined-only --format=posix ${ARGN} ${LIBRARY})
  string(REGEX MATCHALL "[^\n]+" lines "${step_output}")
  list(TRANSFORM lines REPLACE " .*" "")
  list(FILTER lines INCLUDE REGEX "${NAMES_PATTERN}")
  list(SORT lines)
  file(STRINGS ${LIST} expected REGEX "${LIST_PATTERN}")
  list(TRANSFORM expected REPLACE "\\(\\).*" "")
  list(SORT expected)
  if(NOT lines STREQUAL expected)
    set(missing ${expected})
    list(REMOVE_ITEM missing ${lines})
    list(REMOVE_ITEM lines ${expected})
    message(FATAL_ERROR "${LIBRARY} lacks '${missing}' and has '${lines}' beside what ${LIST} names")
  endif()
endfunction()

has(${LIBRARY} "." "\\(\\)$" -D)
if(COMPONENT)
  has(${COMPONENT} "^vkattn_[a-z_]+$" "\\(\\) of a component$" --extern-only)
endif()
