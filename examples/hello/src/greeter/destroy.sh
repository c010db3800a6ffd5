#!/bin/sh
# Stops the service and removes what it kept on this machine.
set -eu
tenon-host service remove greeter
