# Script mode: what the source archive holds, from SOURCE and the packed shaders in PREBUILT to STAGING. Builds and the like
# that lie in SOURCE are no part of it.
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE ${STAGING})
file(COPY ${SOURCE}/bench ${SOURCE}/cli ${SOURCE}/cmake ${SOURCE}/docs ${SOURCE}/examples ${SOURCE}/include ${SOURCE}/packaging
     ${SOURCE}/python ${SOURCE}/scripts ${SOURCE}/shaders ${SOURCE}/src ${SOURCE}/tests ${SOURCE}/CHANGELOG.md ${SOURCE}/CMakeLists.txt
     ${SOURCE}/CMakePresets.json ${SOURCE}/CONTRIBUTING.md ${SOURCE}/LICENSE ${SOURCE}/README.md ${SOURCE}/SECURITY.md
     ${SOURCE}/pyproject.toml DESTINATION ${STAGING}
     PATTERN __pycache__ EXCLUDE)
file(COPY ${PREBUILT}/ DESTINATION ${STAGING}/shaders/prebuilt)
