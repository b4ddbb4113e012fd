# shellcheck shell=bash
# What scripts/demo, scripts/test and .ci/run have in common. Sourced, never run by itself.

vkattn_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly vkattn_root

# require_test_part PART: k/n with k from 1 to n, as the tests read it. Another one would run nothing, or not what is meant.
require_test_part() {
  if [[ $1 =~ ^([0-9]{1,9})/([0-9]{1,9})$ ]]; then
    local -i index=10#${BASH_REMATCH[1]} count=10#${BASH_REMATCH[2]}
    if ((index >= 1 && index <= count)); then return; fi
  fi
  fail "VKATTN_TEST_PART is '$1' but must be k/n with k from 1 to n, such as 1/24"
}

# Where to build. Relative where that is the default, so that printed commands are short.
build_dir() {
  if [[ -n ${VKATTN_BUILD_DIR:-} ]]; then realpath -m "$VKATTN_BUILD_DIR"; else printf 'build/release\n'; fi
}

# Debian and Ubuntu packages. A command after '=' is as good as its package.
# shellcheck disable=SC2034  # used by the scripts that source this file
readonly vkattn_build_packages=(
  'g++=c++' cmake=cmake ninja-build=ninja glslang-tools=glslangValidator spirv-tools=spirv-val
  libvulkan-dev libvulkan-volk-dev libcli11-dev nlohmann-json3-dev
)
# The driver runs on any CPU, so that there always is a device.
# shellcheck disable=SC2034
readonly vkattn_run_packages=(libvulkan1 mesa-vulkan-drivers python3-numpy)
# shellcheck disable=SC2034
readonly vkattn_test_packages=(libgtest-dev vulkan-validationlayers)

# Without these a build lacks something: pictures, score functions, a test of pkg-config, the benchmark of the host's part,
# the Python package.
# shellcheck disable=SC2034
readonly vkattn_picture_packages=(libcairo2-dev pkg-config=pkg-config fonts-dejavu-core)
# shellcheck disable=SC2034
readonly vkattn_optional_packages=(
  "${vkattn_picture_packages[@]}" glslang-dev make=make libbenchmark-dev pybind11-dev python3-dev python3-pytest
)

# Not whatever python3 is first on the path: NumPy is installed for this one.
# shellcheck disable=SC2034
readonly vkattn_python=/usr/bin/python3

say() { printf '%s\n' "$@"; }

fail() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

# Prints a command as it could be typed, then runs it.
run() {
  printf '+'
  printf ' %q' "$@"
  printf '\n'
  "$@"
}

is_installed() {
  [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

# Prints those of the packages that are missing, one a line.
missing_packages() {
  local entry package
  for entry in "$@"; do
    package=${entry%%=*}
    if [[ $entry == *=* ]] && command -v "${entry#*=}" >/dev/null; then continue; fi
    is_installed "$package" || printf '%s\n' "$package"
  done
}

# Installs what is missing, or says how to and ends the script.
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

# Installs what is missing and can be had; goes on without it where that fails.
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

# configure BUILD_DIR [CMAKE OPTIONS...], in the project's root. The log stays in BUILD_DIR/configure.log. Warnings are
# errors where VKATTN_WARNINGS_AS_ERRORS says ON. Words of VKATTN_CMAKE_OPTIONS are further options.
configure() {
  local build=$1
  shift
  mkdir -p "$build"
  # Precompiled headers are cached only where ccache may take them for unchanged by their content.
  export CCACHE_SLOPPINESS=pch_defines,time_macros
  local further
  read -ra further <<<"${VKATTN_CMAKE_OPTIONS:-}"
  set -- "$@" "${further[@]}"
  if command -v ccache >/dev/null; then set -- -DCMAKE_CXX_COMPILER_LAUNCHER=ccache "$@"; fi
  run cmake -S . -B "$build" -G Ninja -DVKATTN_BUILD_SCORE_FUNCTIONS=AUTO \
    -DVKATTN_WARNINGS_AS_ERRORS="${VKATTN_WARNINGS_AS_ERRORS:-OFF}" "$@" 2>&1 | tee "$build/configure.log"
}

# Nothing is edited in between: a folder's sources compiled as one take half of the time.
configure_and_build() {
  configure "$@" -DCMAKE_UNITY_BUILD=ON
  run cmake --build "$1"
}

# run_tests BUILD_DIR [CTEST OPTIONS...]: runs the tests and ends with the line 'N passed, N failed, N skipped'.
# Leaves out what takes hours (label full) where no option speaks of it. Fails where a test does.
run_tests() {
  local build=$1 status=0
  shift
  if [[ "$*" != *full* ]]; then set -- -LE full "$@"; fi
  # Each test program writes its cases to test-results.
  local report=$build/test-report.xml
  rm -rf "$report" "$build/test-results"
  mkdir -p "$build/test-results"
  run ctest --test-dir "$build" --output-on-failure --no-tests=error --parallel "$(nproc)" \
    --output-junit "$(realpath -m "$report")" "$@" || status=$?
  "$vkattn_root/scripts/count-tests" "$report" "$build/test-results" || status=1
  return "$status"
}
