"""`./near` starts this file: the driver's command line."""

import sys

from neardriver.commands import main

sys.exit(main(sys.argv[1:]))
