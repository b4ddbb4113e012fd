# shellcheck shell=bash
# Runs the steps of .ci/run, each in its own shell, in two lanes, and makes the table of results. Sourced, never run by itself.
#
# The script that sources this file has functions step_NAME, and sets: work, a folder; table, 'STAGE NAME' of every step in
# order; steps, the names of the steps to run; lanes, each with the names of its steps in order.
# shellcheck disable=SC2154

readonly skip_status=77

skip() {
  say "skipped: $*"
  exit "$skip_status"
}

# Whether the step is to run.
runs() { [[ " ${steps[*]} " == *" $1 "* ]]; }

# Sets processor_time to the seconds that ended child processes took. The last line of 'times' is like 1m2.345s 0m6.789s.
processor_seconds() {
  local minutes seconds total=0
  times >"$work/$1.times"
  while IFS=m read -r minutes seconds; do
    total=$((total + 60 * minutes + ${seconds%%.*}))
  done < <(tail -n 1 "$work/$1.times" | tr ' ' '\n')
  processor_time=$total
}

# Runs a step in its own shell. Its output goes to $work/NAME.log. $work/NAME.result gets seconds, processor seconds, passed,
# failed, skipped, and a word for the outcome.
run_step() {
  local name=$1 log=$work/$1.log start=$SECONDS status line result processor_time before
  processor_seconds "$name"
  before=$processor_time
  say "" "== $name"
  (
    set -e
    "step_$name"
  ) 2>&1 | tee "$log"
  status=${PIPESTATUS[0]}
  # Only the last line counts: test programs print such lines before it.
  line=$(tail -n 1 "$log" | grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$')
  local counts=(0 0 0)
  if [[ -n $line ]]; then read -ra counts <<<"${line//[!0-9 ]/}"; fi
  if ((status == skip_status)); then
    counts[2]=$((counts[2] + 1))
    result=$(grep '^skipped: ' "$log" | tail -n 1)
  elif ((status != 0)); then
    # A step that fails without a failed test, such as a build, counts as a failure.
    if ((counts[1] == 0)); then counts[1]=1; fi
    result="FAILED (exit $status)"
  else
    result=ok
  fi
  processor_seconds "$name"
  say "$((SECONDS - start)) $((processor_time - before)) ${counts[*]} $result" >"$work/$name.result"
}

# A lane's steps run one after another, because later ones use what earlier ones built. The lanes run at once. The second lane
# has lower priority: it gets the processors that the first leaves free, at the ends of builds and tests. Each line of output
# begins with its step's name.
run_lanes() {
  local lane name
  for lane in "${lanes[@]}"; do
    (
      if [[ $lane != "${lanes[0]}" ]]; then renice -n 5 "$BASHPID" >/dev/null; fi
      for name in $lane; do
        if runs "$name"; then run_step "$name" | sed -u "s/^/$(printf '%-11s' "$name") | /"; fi
      done
    ) &
  done
  wait
}

# Prints a row for each step, and sums passed, failed and skipped.
count_steps() {
  local row stage name seconds processor step_passed step_failed step_skipped result
  passed=0 failed=0 skipped=0
  for row in "${table[@]}"; do
    read -r stage name <<<"$row"
    if ! runs "$name"; then continue; fi
    # If a lane was killed, its running step wrote no result.
    if [[ ! -f $work/$name.result ]]; then say "0 0 0 1 0 FAILED (did not end)" >"$work/$name.result"; fi
    read -r seconds processor step_passed step_failed step_skipped result <"$work/$name.result"
    passed=$((passed + step_passed)) failed=$((failed + step_failed)) skipped=$((skipped + step_skipped))
    printf '%-12s %-12s %4d s %5d s of processors %5d passed %3d failed %4d skipped  %s\n' "$stage" "$name" "$seconds" \
      "$processor" "$step_passed" "$step_failed" "$step_skipped" "$result"
  done
}
