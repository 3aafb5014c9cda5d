"""`python3 -m nearmanycore COMMAND`, and `./near manycore COMMAND`."""

from nearmanycore.application import app

if __name__ == "__main__":
    app(prog_name="near manycore")
