# A port of the source archive, whose shaders are compiled already: VKATTN_ARCHIVE in the environment names the file. Written by
# vcpkg's documentation and never run, as there is no vcpkg where the library is developed.
vcpkg_extract_source_archive(SOURCE_PATH ARCHIVE "$ENV{VKATTN_ARCHIVE}")

string(COMPARE EQUAL "${VCPKG_LIBRARY_LINKAGE}" "dynamic" shared)
vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS -DVKATTN_SHARED=${shared} -DVKATTN_BUILD_RUNTIME=OFF -DVKATTN_BUILD_TOOL=OFF -DVKATTN_BUILD_TESTS=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/vkattn)
vcpkg_fixup_pkgconfig()
vcpkg_copy_pdbs()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
