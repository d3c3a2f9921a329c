"""Research on the miniature: the grammar of its requests, with their truth, and the training of its models.

grammar/           requests with their true scenes and captions: topics, edits, riddles, voices, examples
train/  recipes/   how the models are trained, from nothing
request_source.py  requests for data collection: `interleave data prompts --source mini`
cli/               the commands `interleave mini train|fresh|grow|halve|language|tasks`
"""
