#!/bin/bash
# Runs the job of job.yaml, and kills it when the scheduler ends this script. Exits with the result of the job.
id=$(tony-ts submit --conf job.yaml --detach --output json | sed -n 's/.*"type":"submitted","applicationId":"\([^"]*\)".*/\1/p')
[ -n "$id" ] || exit 1
trap 'tony-ts kill --yes "$id"' TERM INT
tony-ts attach "$id" &
wait $!
