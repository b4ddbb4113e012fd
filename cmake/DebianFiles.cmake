# CPack runs this before it packs. Adds to each Debian package what Debian's policy wants in it: the copyright (12.5) and a changelog
# (12.7), and compresses manuals (12.1). The tool gets the licenses of the libraries that it contains, as this machine has them.
if(NOT CPACK_GENERATOR STREQUAL "DEB")
  return()
endif()
find_program(GZIP gzip REQUIRED)
string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)

# Compresses a file, without its time.
function(compress FILE)
  execute_process(COMMAND ${GZIP} -9 --no-name --force ${FILE} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  string(TOUPPER ${component} upper)
  set(name ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  set(share ${CPACK_TEMPORARY_DIRECTORY}/${component}${CPACK_PACKAGING_INSTALL_PREFIX}/share)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/../packaging/debian/copyright ${share}/doc/${name}/copyright COPYONLY NO_SOURCE_PERMISSIONS)
  file(WRITE ${share}/doc/${name}/changelog
       "vkattn (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium\n\n  * Release ${CPACK_PACKAGE_VERSION}.\n\n"
       " -- ${CPACK_PACKAGE_CONTACT}  ${now}\n")
  compress(${share}/doc/${name}/changelog)
  if(component STREQUAL "vkattn_tool")
    file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/../packaging/parts.txt parts REGEX "^[^#].* (tool|all)( |$)")
    foreach(part IN LISTS parts)
      string(REGEX REPLACE "^[^ ]+ +([^ ]+).*" "\\1" library "${part}")
      if(EXISTS /usr/share/doc/${library}/copyright)
        configure_file(/usr/share/doc/${library}/copyright ${share}/doc/${name}/third-party/${library}.txt COPYONLY NO_SOURCE_PERMISSIONS)
      endif()
    endforeach()
  endif()
  file(GLOB manuals ${share}/man/man1/*.1)
  foreach(manual IN LISTS manuals)
    compress(${manual})
  endforeach()
endforeach()
