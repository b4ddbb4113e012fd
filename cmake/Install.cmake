# Installs headers, libraries, the CMake package `vkattn` with one component for each library, and files for pkg-config. In a
# project that includes vkattn without VKATTN_INSTALL, each rule is EXCLUDE_FROM_ALL: it installs only a component that is asked
# for. The rules must be there, so that the project can export targets that link ours.
include(CMakePackageConfigHelpers)
if(VKATTN_INSTALL)
  include(GNUInstallDirs)
else()
  set(vkattn_not_by_default EXCLUDE_FROM_ALL)
  # GNUInstallDirs would set these in the project's cache.
  foreach(entry "LIBDIR lib" "BINDIR bin" "INCLUDEDIR include" "DATADIR share" "MANDIR share/man")
    separate_arguments(entry)
    list(POP_FRONT entry variable)
    if(NOT CMAKE_INSTALL_${variable})
      set(CMAKE_INSTALL_${variable} ${entry})
    endif()
  endforeach()
endif()
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/vkattn)
set(pkg_config_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# vkattn_install(COMPONENT TARGET): installs TARGET as vkattn::COMPONENT.
function(vkattn_install COMPONENT TARGET)
  set_target_properties(${TARGET} PROPERTIES EXPORT_NAME ${COMPONENT})
  install(TARGETS ${TARGET} EXPORT vkattn-${COMPONENT}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT vkattn_dev ${vkattn_not_by_default}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT vkattn_lib NAMELINK_COMPONENT vkattn_dev ${vkattn_not_by_default}
    RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT vkattn_lib ${vkattn_not_by_default}
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT vkattn-${COMPONENT} NAMESPACE vkattn:: DESTINATION ${package_dir} COMPONENT vkattn_dev ${vkattn_not_by_default})
endfunction()

# vkattn_install_pkg_config(NAME DESCRIPTION LIBRARIES CFLAGS [REQUIRES]): paths start at the file, so it can be moved.
function(vkattn_install_pkg_config NAME DESCRIPTION LIBRARIES CFLAGS)
  set(REQUIRES "${ARGN}")
  cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_LIBDIR BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX} OUTPUT_VARIABLE libdir)
  cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_INCLUDEDIR BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX} OUTPUT_VARIABLE includedir)
  file(RELATIVE_PATH up /prefix/${libdir}/pkgconfig /prefix)
  string(REGEX REPLACE "/$" "" up "${up}")
  configure_file(${PROJECT_SOURCE_DIR}/cmake/vkattn.pc.in ${PROJECT_BINARY_DIR}/${NAME}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${NAME}.pc DESTINATION ${pkg_config_dir} COMPONENT vkattn_dev)
endfunction()

# vkattn_imported_libraries(RESULT TARGETS...): linker flags for imported libraries and those that they link, each before
# what it needs. Folders in which the compiler looks anyway are not named.
function(vkattn_imported_libraries RESULT)
  set(flags "")
  foreach(target IN LISTS ARGN)
    get_target_property(type ${target} TYPE)
    if(NOT type STREQUAL "INTERFACE_LIBRARY")
      get_target_property(configurations ${target} IMPORTED_CONFIGURATIONS)
      list(GET configurations 0 configuration)
      get_target_property(file ${target} IMPORTED_LOCATION_${configuration})
      cmake_path(GET file PARENT_PATH folder)
      cmake_path(GET file STEM LAST_ONLY name)
      string(REGEX REPLACE "^lib" "" name "${name}")
      if(NOT folder IN_LIST CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES)
        list(APPEND flags -L${folder})
      endif()
      list(APPEND flags -l${name})
    endif()
    get_target_property(needed ${target} INTERFACE_LINK_LIBRARIES)
    if(NOT needed)
      set(needed "")
    endif()
    foreach(library IN LISTS needed)
      string(REGEX REPLACE "^[$]<LINK_ONLY:(.*)>$" "\\1" library "${library}")
      if(TARGET "${library}")
        vkattn_imported_libraries(own ${library})
        list(APPEND flags ${own})
      elseif(library MATCHES "^[-/]")
        list(APPEND flags ${library})
      elseif(library MATCHES "^[A-Za-z]")
        list(APPEND flags -l${library})
      endif()
    endforeach()
  endforeach()
  # A library that several others need must follow the last of them: keep the last copy.
  list(REVERSE flags)
  list(REMOVE_DUPLICATES flags)
  list(REVERSE flags)
  set(${RESULT} ${flags} PARENT_SCOPE)
endfunction()

vkattn_install(core vkattn_core)
vkattn_install(c vkattn_c)
if(TARGET vkattn_runtime)
  vkattn_install(runtime vkattn_runtime)
endif()
if(TARGET vkattn_score_functions)
  vkattn_install(score_functions vkattn_score_functions)
endif()
if(TARGET vkattn_shared)
  vkattn_install(shared vkattn_shared)
endif()

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/vkattn DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT vkattn_dev
        ${vkattn_not_by_default})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/vkattn-config.cmake.in ${PROJECT_BINARY_DIR}/vkattn-config.cmake
  INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/vkattn-config-version.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/vkattn-config.cmake ${PROJECT_BINARY_DIR}/vkattn-config-version.cmake
        DESTINATION ${package_dir} COMPONENT vkattn_dev ${vkattn_not_by_default})

if(NOT VKATTN_INSTALL)
  return()
endif()
# C programs that link the static library must name C++'s libraries.
set(libraries -lvkattn_core)
foreach(library IN LISTS CMAKE_CXX_IMPLICIT_LINK_LIBRARIES)
  if(library MATCHES "^(stdc\\+\\+|c\\+\\+|c\\+\\+abi|m|pthread)$")
    list(APPEND libraries -l${library})
  endif()
endforeach()
list(JOIN libraries " " libraries)
vkattn_install_pkg_config(vkattn "attention on any Vulkan device, static, in C++ and C" "${libraries}" "-I\${includedir}")
if(TARGET vkattn_shared)
  vkattn_install_pkg_config(vkattn-shared "attention on any Vulkan device, shared, in C" "-lvkattn"
                            "-I\${includedir} -DVKATTN_SHARED")
endif()
if(TARGET vkattn_runtime)
  list(TRANSFORM CMAKE_DL_LIBS PREPEND -l OUTPUT_VARIABLE libraries)
  list(PREPEND libraries -lvkattn_runtime)
  list(JOIN libraries " " libraries)
  vkattn_install_pkg_config(vkattn-runtime "attention with a Vulkan device of its own, static, in C++" "${libraries}"
                            "-I\${includedir}" "vkattn = ${PROJECT_VERSION}")
endif()
if(TARGET vkattn_score_functions)
  vkattn_imported_libraries(libraries glslang::SPIRV glslang::glslang glslang::glslang-default-resource-limits)
  list(PREPEND libraries -lvkattn_score_functions)
  list(JOIN libraries " " libraries)
  vkattn_install_pkg_config(vkattn-score-functions "attention with score functions in GLSL, static, in C++ and C" "${libraries}"
                            "-I\${includedir}" "vkattn = ${PROJECT_VERSION}")
endif()
if(TARGET vkattn)
  install(TARGETS vkattn RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT vkattn_tool)
  get_property(shell_files GLOBAL PROPERTY VKATTN_SHELL_FILES)
  while(shell_files)
    list(POP_FRONT shell_files file folder)
    string(REGEX MATCH "^([A-Z]+)/(.*)$" folder ${folder})
    install(FILES ${file} DESTINATION ${CMAKE_INSTALL_${CMAKE_MATCH_1}}/${CMAKE_MATCH_2} COMPONENT vkattn_tool OPTIONAL)  # of a whole build
  endwhile()
endif()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/vkattn COMPONENT vkattn_dev)
