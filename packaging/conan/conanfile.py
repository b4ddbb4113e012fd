"""Conan 2 recipe of the source archive, whose shaders are compiled already. Lies in the unpacked archive's packaging/conan:
`conan create packaging/conan`. Written by Conan's documentation and never run, as there is no Conan where the library is
developed."""
import os

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy


class Vkattn(ConanFile):
    name = "vkattn"
    version = "1.0.0"
    license = "Apache-2.0"
    description = "Scaled dot-product attention on any Vulkan device"
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False]}
    default_options = {"shared": False}
    requires = "vulkan-headers/[>=1.3.239]"

    def export_sources(self):
        root = os.path.join(self.recipe_folder, "..", "..")
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "shaders/*", "src/*"):
            copy(self, pattern, root, self.export_sources_folder)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["VKATTN_SHARED"] = bool(self.options.shared)
        for part in ("RUNTIME", "TOOL", "TESTS"):
            toolchain.cache_variables[f"VKATTN_BUILD_{part}"] = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()

    def package_info(self):
        # The package brings its own CMake files, which name its targets.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = [os.path.join("lib", "cmake", "vkattn")]
