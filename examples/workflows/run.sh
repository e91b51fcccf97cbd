#!/bin/bash
# Runs the job of job.yaml, and kills it when the scheduler ends this script. Exits with the result of the job.
stop() {
  stopped=1
  # A scheduler on YARN soon kills all processes of this session, so the command runs in a session of its own.
  [ -z "$id" ] || setsid --fork tony-ts kill --yes "$id"
}
trap stop TERM INT
id=$(tony-ts submit --conf job.yaml --detach --quiet)
[ -n "$id" ] || exit 1
echo "submitted $id"
[ -z "$stopped" ] || stop # the scheduler ended the script during the submission
tony-ts attach "$id" &
wait $!
