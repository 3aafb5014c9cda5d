"""`python3 -m nearlab COMMAND`."""

from nearlab.commands import main

if __name__ == "__main__":
    main()
