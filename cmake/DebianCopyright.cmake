# Run by CPack on what it is about to pack: each Debian package has the license where Debian's policy (12.5) looks for it.
if(CPACK_GENERATOR STREQUAL "DEB")
  foreach(component IN LISTS CPACK_COMPONENTS_ALL)
    string(TOUPPER ${component} upper)
    configure_file(${CPACK_RESOURCE_FILE_LICENSE}
                   ${CPACK_TEMPORARY_DIRECTORY}/${component}${CPACK_PACKAGING_INSTALL_PREFIX}/share/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME}/copyright
                   COPYONLY NO_SOURCE_PERMISSIONS)
  endforeach()
endif()
