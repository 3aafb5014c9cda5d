"""What an address is to the allocator: in GDB and LLDB, and in the core file of a dead process."""
