# Packages by CPack, if vkattn is the top-level project. The target vkattn_source_archive makes an archive of the sources with
# packed shaders. `cpack -G DEB` makes Debian packages of what is installed.
set(prebuilt ${PROJECT_BINARY_DIR}/prebuilt)
set(staging ${PROJECT_BINARY_DIR}/source_archive)

set(CPACK_PACKAGE_NAME vkattn)
set(CPACK_PACKAGE_CONTACT "The maintainers of vkattn")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_VERBATIM_VARIABLES ON)

set(CPACK_SOURCE_GENERATOR TGZ)
set(CPACK_SOURCE_PACKAGE_FILE_NAME vkattn-${PROJECT_VERSION})
set(CPACK_SOURCE_INSTALLED_DIRECTORIES ${staging} /)

# Debian packages: the shared library, the files to build programs with, and the tool.
set(CPACK_GENERATOR DEB)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/DebianFiles.cmake)
set(CPACK_COMPONENTS_ALL vkattn_lib vkattn_dev vkattn_tool)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
# These two settings need programs; without them CPack fails.
find_program(dpkg_shlibdeps dpkg-shlibdeps NO_CACHE)
find_program(file_command file NO_CACHE)
find_program(readelf readelf NO_CACHE)
if(dpkg_shlibdeps AND file_command)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
endif()
set(CPACK_DEBIAN_VKATTN_LIB_PACKAGE_NAME libvkattn${PROJECT_VERSION_MAJOR})
set(CPACK_DEBIAN_VKATTN_LIB_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/packaging/debian/triggers)
set(CPACK_COMPONENT_VKATTN_LIB_DESCRIPTION "The shared library of the C interface. It works on a device of the program's and links no Vulkan loader.")
if(file_command AND readelf)
  set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
  set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
endif()
set(CPACK_DEBIAN_VKATTN_DEV_PACKAGE_NAME libvkattn-dev)
set(CPACK_DEBIAN_VKATTN_DEV_PACKAGE_SECTION libdevel)
set(needed "")
if(TARGET vkattn_shared)
  list(APPEND needed "${CPACK_DEBIAN_VKATTN_LIB_PACKAGE_NAME} (= ${PROJECT_VERSION})")
endif()
if(TARGET vkattn_score_functions)
  list(APPEND needed glslang-dev)  # find_package(vkattn) needs it
endif()
list(JOIN needed ", " CPACK_DEBIAN_VKATTN_DEV_PACKAGE_DEPENDS)
set(CPACK_COMPONENT_VKATTN_DEV_DESCRIPTION "Headers of C and C++, static libraries, and files for CMake and pkg-config.")
set(CPACK_DEBIAN_VKATTN_TOOL_PACKAGE_NAME vkattn)
set(CPACK_DEBIAN_VKATTN_TOOL_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_VKATTN_TOOL_PACKAGE_RECOMMENDS "libvulkan1")  # the tool loads it at run time
set(CPACK_COMPONENT_VKATTN_TOOL_DESCRIPTION "The command line tool: runs, explains, measures and tunes attention on this machine's devices.")
if(NOT TARGET vkattn)
  list(REMOVE_ITEM CPACK_COMPONENTS_ALL vkattn_tool)
endif()
if(NOT TARGET vkattn_shared)
  list(REMOVE_ITEM CPACK_COMPONENTS_ALL vkattn_lib)
endif()
include(CPack)

if(VKATTN_PREBUILT_SHADERS)
  return()
endif()
set(shader_libraries vkattn_core_shaders)
if(TARGET vkattn_bench_shaders)
  list(APPEND shader_libraries vkattn_bench_shaders)
endif()
vkattn_add_prebuilt_shaders(${prebuilt} ${shader_libraries})
# Warn of binaries that this compiler cannot make: whoever builds the archive cannot add them.
set(note "")
get_property(names GLOBAL PROPERTY VKATTN_SHADERS)
foreach(name IN LISTS names)
  get_property(reason GLOBAL PROPERTY VKATTN_SHADER_${name}_REASON)
  if(reason)
    list(APPEND left_out ${name})
  endif()
endforeach()
if(left_out)
  list(LENGTH left_out count)
  list(JOIN left_out ", " left_out)
  set(note COMMAND ${CMAKE_COMMAND} -E echo "warning: the archive lacks ${count} shader binaries, which ${VKATTN_GLSLANG} does \
not compile or an option leaves out: ${left_out}. glslang 16 compiles all, named by VKATTN_GLSLANG.")
endif()
add_custom_target(vkattn_source_archive
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DPREBUILT=${prebuilt} -DSTAGING=${staging}
          -P ${PROJECT_SOURCE_DIR}/cmake/StageSources.cmake
  COMMAND ${CMAKE_CPACK_COMMAND} --config ${PROJECT_BINARY_DIR}/CPackSourceConfig.cmake
  ${note}
  WORKING_DIRECTORY ${PROJECT_BINARY_DIR}
  COMMENT "Packing the source archive"
  VERBATIM)
add_dependencies(vkattn_source_archive vkattn_prebuilt_shaders)
