# Toolchain file: builds programs for Windows with mingw-w64, on another system. VKATTN_MINGW names the target, such as
# x86_64-w64-mingw32. VKATTN_MINGW_PREFIX is a folder with the headers of Vulkan and of the other libraries;
# scripts/windows-build makes one.
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES VKATTN_MINGW VKATTN_MINGW_PREFIX)
string(REGEX REPLACE "-.*" "" CMAKE_SYSTEM_PROCESSOR "${VKATTN_MINGW}")
# The -posix compilers have std::thread and std::mutex.
set(CMAKE_C_COMPILER ${VKATTN_MINGW}-gcc-posix)
set(CMAKE_CXX_COMPILER ${VKATTN_MINGW}-g++-posix)
set(CMAKE_RC_COMPILER ${VKATTN_MINGW}-windres)
# Link the compiler's libraries statically, so that programs need no DLLs of it.
set(CMAKE_EXE_LINKER_FLAGS_INIT -static)
set(CMAKE_SHARED_LINKER_FLAGS_INIT -static)
# Programs such as glslang, spirv-opt and spirv-val come from this machine; headers and libraries never do.
set(CMAKE_FIND_ROOT_PATH ${VKATTN_MINGW_PREFIX} /usr/${VKATTN_MINGW})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_DISABLE_FIND_PACKAGE_PkgConfig ON)  # it would find this machine's libraries
