"""Names of `interleave.config` for rooms, as `config` of `interleave.plugin`."""

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
    NO_DRIFT_CONTROL as NO_DRIFT_CONTROL,
    PackConfig as PackConfig,
    DriftControl as DriftControl,
    SourceRule as SourceRule,
    format_drift_control as format_drift_control,
)
from interleave.config.specs import without_tuning as without_tuning
from interleave.config.run_config import best_attempt as best_attempt
