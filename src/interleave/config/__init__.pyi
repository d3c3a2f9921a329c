"""What rooms may use of `interleave.config`, as `config` of `interleave.plugin`."""

from interleave.config.run_config import DEFAULT_CHOICE as DEFAULT_CHOICE
from interleave.config.profiles import (
    Profile as Profile,
    config_folder as config_folder,
    default_profile as default_profile,
    load_profile as load_profile,
    profile_files as profile_files,
)
from interleave.config.run_config import (
    MOST_ATTEMPTS as MOST_ATTEMPTS,
    NO_REMEDIES as NO_REMEDIES,
    PackConfig as PackConfig,
    Remedies as Remedies,
    SourceRule as SourceRule,
    written_remedies as written_remedies,
)
from interleave.config.specs import without_tuning as without_tuning
from interleave.config.run_config import best_attempt as best_attempt
