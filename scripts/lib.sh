# shellcheck shell=bash
# Functions and lists that scripts/demo, scripts/test and .ci/run share. Sourced, never run by itself.

vkattn_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly vkattn_root

# require_test_part PART: fails unless PART is k/n with k from 1 to n. Another PART would run no tests or the wrong ones.
require_test_part() {
  if [[ $1 =~ ^([0-9]{1,9})/([0-9]{1,9})$ ]]; then
    local -i index=10#${BASH_REMATCH[1]} count=10#${BASH_REMATCH[2]}
    if ((index >= 1 && index <= count)); then return; fi
  fi
  fail "VKATTN_TEST_PART is '$1' but must be k/n with k from 1 to n, such as 1/24"
}

# The build folder. The default is relative, so that printed commands are short.
build_dir() {
  if [[ -n ${VKATTN_BUILD_DIR:-} ]]; then realpath -m "$VKATTN_BUILD_DIR"; else printf 'build/release\n'; fi
}

# Debian and Ubuntu packages. If the command after '=' is there, its package is not needed.
# shellcheck disable=SC2034  # used by the scripts that source this file
readonly vkattn_build_packages=(
  'g++=c++' cmake=cmake ninja-build=ninja glslang-tools=glslangValidator spirv-tools=spirv-val
  libvulkan-dev libvulkan-volk-dev libcli11-dev nlohmann-json3-dev
)
# mesa-vulkan-drivers has a driver that runs on any CPU, so there always is a device.
# shellcheck disable=SC2034
readonly vkattn_run_packages=(libvulkan1 mesa-vulkan-drivers python3-numpy)
# shellcheck disable=SC2034
readonly vkattn_test_packages=(libgtest-dev vulkan-validationlayers)

# Without these packages a build lacks pictures, score functions, a test of pkg-config, the benchmark of host time, or the
# Python package.
# shellcheck disable=SC2034
readonly vkattn_picture_packages=(libcairo2-dev pkg-config=pkg-config fonts-dejavu-core)
# shellcheck disable=SC2034
readonly vkattn_optional_packages=(
  "${vkattn_picture_packages[@]}" glslang-dev make=make libbenchmark-dev pybind11-dev python3-dev python3-pytest
)

# NumPy is installed for this Python, which need not be the first python3 on the path.
# shellcheck disable=SC2034
readonly vkattn_python=/usr/bin/python3

say() { printf '%s\n' "$@"; }

fail() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

# Prints a command so that it can be copied, then runs it.
run() {
  printf '+'
  printf ' %q' "$@"
  printf '\n'
  "$@"
}

is_installed() {
  [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

# Prints the packages that are missing, one a line.
missing_packages() {
  local entry package
  for entry in "$@"; do
    package=${entry%%=*}
    if [[ $entry == *=* ]] && command -v "${entry#*=}" >/dev/null; then continue; fi
    is_installed "$package" || printf '%s\n' "$package"
  done
}

# Installs missing packages. If that needs root, prints the command for it and ends the script.
require_packages() {
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    say "No apt here. What Debian calls the needed packages: ${*%%=*}"
    return
  fi
  local missing
  mapfile -t missing < <(missing_packages "$@")
  if ((${#missing[@]} == 0)); then return; fi
  say "Missing packages: ${missing[*]}"
  if ((EUID != 0)); then
    say "Installing them needs root. Run this once, then start again:"
    say "  sudo sh -c 'apt-get update && apt-get install -y --no-install-recommends ${missing[*]}'"
    exit 1
  fi
  run apt-get update -q
  run env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
}

# Installs missing packages if it can, and goes on without them if it cannot.
want_packages() {
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then return; fi
  local missing
  mapfile -t missing < <(missing_packages "$@")
  if ((${#missing[@]} == 0)); then return; fi
  if ((EUID == 0)) && run apt-get update -q &&
    run env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"; then
    return
  fi
  say "Optional packages that are missing: ${missing[*]}"
}

# configure BUILD_DIR [CMAKE OPTIONS...], in the project's root. Writes BUILD_DIR/configure.log. Compiler warnings are
# errors if VKATTN_WARNINGS_AS_ERRORS is ON. VKATTN_CMAKE_OPTIONS has further options, separated by spaces.
configure() {
  local build=$1
  shift
  mkdir -p "$build"
  # Without these settings ccache does not cache sources with precompiled headers.
  export CCACHE_SLOPPINESS=pch_defines,time_macros
  local further
  read -ra further <<<"${VKATTN_CMAKE_OPTIONS:-}"
  set -- "$@" "${further[@]}"
  if command -v ccache >/dev/null; then set -- -DCMAKE_CXX_COMPILER_LAUNCHER=ccache "$@"; fi
  run cmake -S . -B "$build" -G Ninja -DVKATTN_BUILD_SCORE_FUNCTIONS=AUTO \
    -DVKATTN_WARNINGS_AS_ERRORS="${VKATTN_WARNINGS_AS_ERRORS:-OFF}" "$@" 2>&1 | tee "$build/configure.log"
}

# Compiles each folder's sources as one, in half of the time. Only for builds between which nobody edits sources.
configure_and_build() {
  configure "$@" -DCMAKE_UNITY_BUILD=ON
  run cmake --build "$1"
}

# run_tests BUILD_DIR [CTEST OPTIONS...]: runs the tests and prints 'N passed, N failed, N skipped' last. Leaves out tests
# that take hours (label full) unless an option names the label. Fails if a test fails.
run_tests() {
  local build=$1 status=0
  shift
  if [[ "$*" != *full* ]]; then set -- -LE full "$@"; fi
  # Each test program writes a report of its cases to test-results.
  local report=$build/test-report.xml
  rm -rf "$report" "$build/test-results"
  mkdir -p "$build/test-results"
  run ctest --test-dir "$build" --output-on-failure --no-tests=error --parallel "$(nproc)" \
    --output-junit "$(realpath -m "$report")" "$@" || status=$?
  "$vkattn_root/scripts/count-tests" "$report" "$build/test-results" || status=1
  return "$status"
}
