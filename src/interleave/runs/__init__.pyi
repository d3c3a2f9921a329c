"""Public names of `interleave.runs`, available as `interleave.plugin.runs`."""

from interleave.scheduler import parents_of as parents_of
from interleave.runs.branch import (
    CheckedBranch as CheckedBranch,
    check_branch as check_branch,
    check_new_step as check_new_step,
)
from interleave.runs.record import DecisionRecord as DecisionRecord
from interleave.runs.decisions import (
    CheckedDecision as CheckedDecision,
    DecidedRun as DecidedRun,
    MadeDecision as MadeDecision,
    carry_over as carry_over,
    check_decision as check_decision,
    choice_line as choice_line,
    redraw_line as redraw_line,
    release_line as release_line,
    undo_line as undo_line,
    write_decision as write_decision,
)
from interleave.runs.document_layer import DocumentLayer as DocumentLayer
from interleave.runs.shown_document import as_shown as as_shown, step_as_shown as step_as_shown
from interleave.runs.steering import steering_after as steering_after
from interleave.runs.words import words_line as words_line, words_of as words_of
from interleave.sources import steps_that_follow as steps_that_follow
from interleave.runs.models import Disk as Disk
from interleave.runs.folder import (
    DOCUMENT_NAME as DOCUMENT_NAME,
    given_assets as given_assets,
    open_journal as open_journal,
    refuse_foreign_folder as refuse_foreign_folder,
    request_parts as request_parts,
    stored_assets as stored_assets,
    stored_request as stored_request,
)
from interleave.runs.journal_files import (
    JOURNAL_NAME as JOURNAL_NAME,
    journal_path as journal_path,
)
from interleave.runs.journal_files import Lease as Lease, clock_that_never_stops as clock_that_never_stops
from interleave.runs.models import Meter as Meter, refuse_unpriced as refuse_unpriced
from interleave.runs.outage import (
    OutageRetry as OutageRetry,
    TryResult as TryResult,
    backoff_delays as backoff_delays,
)
from interleave.runs.plan_file import moved_assets as moved_assets, numbered_steps as numbered_steps
from interleave.runs.record import (
    AttemptRecord as AttemptRecord,
    AuditRecord as AuditRecord,
    ByHand as ByHand,
    CallCounts as CallCounts,
    StepRecord as StepRecord,
    fold as fold,
    image_names as image_names,
)
from interleave.runs.record import (
    is_run_file as is_run_file,
    read_ended as read_ended,
    read_stored as read_stored,
    write_stored as write_stored,
)
from interleave.runs.resolve import (
    Choices as Choices,
    adapted_request as adapted_request,
    choose_pack as choose_pack,
    load_agent as load_agent,
    refuse_objects as refuse_objects,
    unchanged_pack as unchanged_pack,
)
from interleave.runs.folder import IMAGES_FOLDER as IMAGES_FOLDER, image_name as image_name
from interleave.sources import SourceImages as SourceImages, Start as Start
from interleave.runs.resolve import critic_options as critic_options, is_native as is_native
from interleave.runs.run import Run as Run
from interleave.runs.shown_document import (
    ALT_CHARACTERS as ALT_CHARACTERS,
    DocumentAsShown as DocumentAsShown,
    StepAsShown as StepAsShown,
)
