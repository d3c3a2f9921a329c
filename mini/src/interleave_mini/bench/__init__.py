"""The miniature's benchmark: tasks with known answers, systems that answer them, scores with intervals.

`runner` runs one system on one suite, `ablation` a table of systems with an exam of their critics
(`critic_exam`, `critic_exam_run`); `reports` writes the pages.
"""
