"""One run of a program: time, memory, calls, instructions, and which malloc served it."""
