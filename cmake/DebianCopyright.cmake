# CPack runs this before it packs. Copies the license to where Debian's policy (12.5) wants it in each Debian package.
if(CPACK_GENERATOR STREQUAL "DEB")
  foreach(component IN LISTS CPACK_COMPONENTS_ALL)
    string(TOUPPER ${component} upper)
    configure_file(${CPACK_RESOURCE_FILE_LICENSE}
                   ${CPACK_TEMPORARY_DIRECTORY}/${component}${CPACK_PACKAGING_INSTALL_PREFIX}/share/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME}/copyright
                   COPYONLY NO_SOURCE_PERMISSIONS)
  endforeach()
endif()
