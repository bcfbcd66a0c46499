#!/bin/sh
# A shell that starts Python only after a while.
sleep 0.5
"$@"
