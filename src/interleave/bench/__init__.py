"""The field's benchmarks: run a system, ask a judge, compute numbers, report.

base       what a benchmark is: items, questions to a judge, measures, numbers
table      the benchmarks there are: one row each
datasets   finding and checking the data: the Hub at a pinned revision, or a folder
run        answering the items with a system, through the durable batch runner
outputs    what a system answered, in our form; each benchmark reads and writes its official layout
judge      asking the judge, one record a call, resumable and within a budget
records    the judge's records on disk
prompts    the words the judge is asked with: ours, or those of a checkout of the benchmark
numbers    what a number is: made of the measures of all items, with its interval
scoring    from records to the numbers of a benchmark: pure functions
statistics intervals, correlations, agreement of raters, reliability, scaling
report     the table, the JSON and the page
"""
