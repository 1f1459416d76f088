#!/bin/sh
# Let the agent work on a prompt in a copy, and keep what it changed as a patch; the checkout stays as it is.
# usage: patch.sh FILE PROMPT...
set -eu
file=$1
shift
run() {
  agent -p ${MODEL:+--model "$MODEL"} --patch "$file" --max-turns 40 --permission-mode acceptEdits \
    --allowedTools 'Bash(python -m pytest:*)' --report junit:agent.xml -- "$*"
}
code=0
run "$@" || code=$?
if [ "$code" = 75 ]; then # the provider failed temporarily; the checkout is unchanged
  sleep "${WAIT:-60}"
  code=0
  run "$@" || code=$?
fi
[ "$code" = 0 ] || exit "$code"
if [ -s "$file" ]; then git apply --check "$file"; fi
