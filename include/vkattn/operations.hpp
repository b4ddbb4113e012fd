/// @file
/// The plans of all operations, which each have a header of their own.
#pragma once

#include <vkattn/attention_plan.hpp>
#include <vkattn/backward.hpp>
#include <vkattn/cache.hpp>
#include <vkattn/matmul.hpp>
#include <vkattn/merge.hpp>
#include <vkattn/multi_head_attention.hpp>
