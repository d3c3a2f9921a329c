"""The miniature's world: a background and things on a grid of three by three, drawn by rule.

`kinds` (what exists) ← `scene` (an image as a value) ← `drawing` (scene → pixels, with `sprites`, `art/` and
`backgrounds/`), `operations` (what changes a scene) ← `mistakes` (wrong images made on purpose).
"""
