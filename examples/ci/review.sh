#!/bin/sh
# Review what this branch has since it left its base, in any CI system or before a push.
# BASE: the branch to compare with; by default the one that the CI system names, else main.
# MODEL: the model to use. FAIL_ON: the severity that fails the job.
set -eu
base=${BASE:-${CI_MERGE_REQUEST_TARGET_BRANCH_NAME:-${GITHUB_BASE_REF:-main}}}
code=0
agent review --base "$base" ${MODEL:+--model "$MODEL"} \
  --fail-on "${FAIL_ON:-high}" --max-turns 40 --comments review-comments.json \
  --report summary:review.md --report codequality:review.json --report junit:review.xml || code=$?
case $code in
  0) echo "No finding of severity ${FAIL_ON:-high} or worse." ;;
  7) echo "The review found something of severity ${FAIL_ON:-high} or worse." >&2 ;;
  75) echo "The provider is busy; run this again later." >&2 ;;
  *) echo "The review failed." >&2 ;;
esac
exit "$code"
