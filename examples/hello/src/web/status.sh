#!/bin/sh
# Prints the service's state as JSON; ends with 0 only when it is healthy.
set -eu
tenon-host service status web
