"""What rooms may use of `interleave.cli`, as `cli` of `interleave.plugin`."""

from interleave.cli.batch_command import run_batch as run_batch, watching as watching
from interleave.cli.lazy_group import Row as Row, plugged_in as plugged_in, taking as taking
from interleave.cli.prompts import prompt_packs as prompt_packs
from interleave.cli.request_input import choose_profile as choose_profile
from interleave.cli.batch_progress import show_batch_progress as show_batch_progress
from interleave.cli.old_spellings import rewrite as rewrite
from interleave.cli.streams import collapse_retry_messages as collapse_retry_messages
