#!/bin/sh
# Runs examples/dependencies.yaml from nothing to its result: starts a scheduler with embedded SQLite in a directory of
# its own and a runner beside it, applies and runs the job, prints the report, and takes everything away again.
#
# usage: examples/run-demo.sh [DIRECTORY OF THE PROGRAMS]     (target/debug unless given)
#
# Leaves nothing running and no file but the report, however it ends.
set -eu
cd "$(dirname "$0")/.."
bin=${1:-target/debug}
job_file=examples/dependencies.yaml
data=$(mktemp -d)
scheduler=
runner=

# Ends a process in order, and after three seconds without mercy.
stop() {
  [ -n "$1" ] || return 0
  tries=0
  while kill -TERM "$1" 2> /dev/null && [ "$tries" -lt 30 ]; do
    tries=$((tries + 1))
    sleep 0.1
  done
  kill -KILL "$1" 2> /dev/null || true
  wait "$1" 2> /dev/null || true
}

finish() {
  code=$?
  trap - EXIT INT TERM HUP
  stop "$runner"
  stop "$scheduler"
  if [ "$code" -ne 0 ] && [ "$code" -lt 128 ]; then
    for part in scheduler runner; do
      [ -s "$data/$part.log" ] || continue
      echo "--- the last lines of the $part" >&2
      tail -n 20 "$data/$part.log" >&2
    done
  fi
  rm -rf "$data"
  exit "$code"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

# Waits until a log tells where its program listens, or the program is gone.
address() {
  tries=0
  while [ "$tries" -lt 300 ]; do
    found=$(sed -n 's/.*\(127\.0\.0\.1:[0-9][0-9]*\).*/\1/p' "$data/scheduler.log" | head -n 1)
    [ -z "$found" ] || { echo "$found"; return 0; }
    kill -0 "$scheduler" 2> /dev/null || break
    tries=$((tries + 1))
    sleep 0.1
  done
  echo "the scheduler did not start" >&2
  return 1
}

echo "starting a scheduler and a runner (data in $data)"
"$bin/baton-scheduler" --listen 127.0.0.1:0 --database-url "sqlite://$data/baton.db" > "$data/scheduler.log" 2>&1 &
scheduler=$!
BATON_ADDRESS=http://$(address)
export BATON_ADDRESS
"$bin/baton-runner" --scheduler "$BATON_ADDRESS" --id demo --slots 4 --state-dir "$data/runner" --work-dir . \
  > "$data/runner.log" 2>&1 &
runner=$!

"$bin/baton" apply -f "$job_file"
"$bin/baton" run dependencies --follow
job=$("$bin/baton" get jobs -o name | head -n 1)
echo
"$bin/baton" logs "$job/report"
