"""The driver behind `./near`: installs what is missing, builds what is stale, runs everything.

Invariant: a command that has nothing to build or install prints only its own result; every command
is idempotent. The driver writes only below build/ and logs to build/logs/. Exit status: 1 something
failed, 2 wrong use or something is missing.
"""
