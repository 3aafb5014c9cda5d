"""The lab: measures allocators side by side, honestly. Entry: `python3 -m nearlab`."""
