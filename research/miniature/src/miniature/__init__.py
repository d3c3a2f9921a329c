"""Research on the miniature: the grammar of its requests, with ground truth, and the training of its models.

grammar/           requests with their true scenes and captions: topics, edits, riddles, voices, examples
train/  recipes/   training of the models from scratch
request_source.py  requests for data collection: `interleave data prompts --source mini`
cli/               the commands `interleave mini train|fresh|grow|halve|language|tasks`
"""
