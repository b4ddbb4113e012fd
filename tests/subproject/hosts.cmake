# Programs in C99 and C++17 that link the static core by vkattn::c, which was found or taken in.
set(hosts ${CMAKE_CURRENT_LIST_DIR})
add_executable(host_c99 ${hosts}/host_c99.c)
set_target_properties(host_c99 PROPERTIES C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
add_executable(host_cpp17 ${hosts}/host_cpp17.cpp)
set_target_properties(host_cpp17 PROPERTIES CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF)
foreach(host host_c99 host_cpp17)
  target_link_libraries(${host} PRIVATE vkattn::c)
endforeach()
