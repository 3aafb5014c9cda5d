"""`python3 -m nearvm COMMAND`, and `./near vm COMMAND`."""

from nearvm.application import app

if __name__ == "__main__":
    app(prog_name="near vm")
