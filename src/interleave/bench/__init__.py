"""Public benchmarks: run a system, ask a judge, compute numbers, report.

base       the `Benchmark` class: items, questions to a judge, measures, numbers
table      the registered benchmarks, one row each
datasets   finding and checking the data: the Hub at a pinned revision, or a folder
run        running a system on the items, through the durable batch runner
outputs    a system's outputs in our format; each benchmark converts to and from its official layout
judge      asking the judge: one record per call, resumable, within a budget
records    the judge's records on disk
prompts    the judge's prompts: ours, or those of a checkout of the benchmark
numbers    numbers aggregated from the measures of all items, with intervals
scoring    from records to the numbers of a benchmark: pure functions
statistics intervals, correlations, rater agreement, reliability, scaling
report     the table, the JSON and the page
"""
