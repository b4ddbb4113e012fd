// GLFW with its functions for Vulkan.
#pragma once

#define GLFW_INCLUDE_VULKAN
#include <GLFW/glfw3.h>
