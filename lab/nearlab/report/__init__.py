"""Reports: a page, and PNG and CSV of every figure, from one results file.

`command` is the command and `build` writes the files. `analysis` and `verdict` evaluate the runs,
`figures` and `tables` choose what is shown, `rows` holds the numbers, and `charts`, `theme` and
`page` draw them.
"""
