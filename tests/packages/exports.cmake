# The shared library exports the functions of the committed list and no other name. The component of score functions exports the
# functions that the list gives to a component, and no other function of C. Variables: NM, LIBRARY, LIST, and COMPONENT if it is built.
include(${CMAKE_CURRENT_LIST_DIR}/steps.cmake)

# has(LIBRARY NAMES_PATTERN LIST_PATTERN NM_OPTIONS...): its names that match the pattern must be those of the list.
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
