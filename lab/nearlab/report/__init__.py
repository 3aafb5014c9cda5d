"""Reports: a page, and PNG and CSV of every figure, from one results file.

`command` is the command, `build` writes; `analysis` and `verdict` say what the runs say, `figures`
and `tables` choose what is shown, `rows` holds its numbers, `charts`, `theme` and `page` show it.
"""
