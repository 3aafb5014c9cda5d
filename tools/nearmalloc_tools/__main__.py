from nearmalloc_tools.commands import main

main()
