# Script mode: copies the source archive's files from SOURCE, and the packed shaders from PREBUILT, to STAGING. Other files in
# SOURCE, such as builds, are not copied.
cmake_minimum_required(VERSION 3.22...3.25)
file(REMOVE_RECURSE ${STAGING})
file(COPY ${SOURCE}/bench ${SOURCE}/cli ${SOURCE}/cmake ${SOURCE}/docs ${SOURCE}/examples ${SOURCE}/include ${SOURCE}/packaging
     ${SOURCE}/python ${SOURCE}/integrations ${SOURCE}/scripts ${SOURCE}/shaders ${SOURCE}/src ${SOURCE}/tests ${SOURCE}/CHANGELOG.md ${SOURCE}/CMakeLists.txt
     ${SOURCE}/CMakePresets.json ${SOURCE}/CONTRIBUTING.md ${SOURCE}/LICENSE ${SOURCE}/README.md ${SOURCE}/SECURITY.md
     ${SOURCE}/pyproject.toml DESTINATION ${STAGING}
     PATTERN __pycache__ EXCLUDE)
file(COPY ${PREBUILT}/ DESTINATION ${STAGING}/shaders/prebuilt)
