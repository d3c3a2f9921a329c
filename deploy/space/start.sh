#!/bin/sh
# Start the studio for all visitors of the Space; every visitor sees only their own documents.
# Hugging Face sets SPACE_HOST. INTERLEAVE_PROFILE selects other models than the miniature.
# Arguments of this script are passed on to the studio.
set -eu
address="${SPACE_HOST:+--public-url https://$SPACE_HOST}"
# shellcheck disable=SC2086 # an option and its value
exec interleave studio --no-open --host 0.0.0.0 --port "${PORT:-7860}" --runs "${INTERLEAVE_RUNS:-/data/studio}" \
    --guests --guest-jobs 2 --guest-hour 20 --queue 100 --concurrency 2 --max-steps 12 --max-seconds 600 \
    --keep-days 7 --offer none --frame https://huggingface.co $address "$@"
