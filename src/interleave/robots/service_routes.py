"""The route for a robot's controller: check a sub-task by camera images before and after it.

Nothing is stored. The models are those of the document service.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from fastapi import Depends
from starlette.responses import Response

from interleave import BackendError, GeneratorCapabilities, Outcome
from interleave.plugin import Models, PromptPack, RetriedVlm, Value, text
from interleave.robots.checking import check_from
from interleave.robots.sub_task_check import SubTaskCheck, SubTaskInput
from interleave.service.documents.bodies import json_object
from interleave.service.documents.refusals import ApiRefusal
from interleave.service.documents.routes import Router, SubmitCall, per_service, value_json
from interleave.service.documents.service import RECEIVE_SECONDS, Documents, image_of
from interleave.service.documents.submissions import encoded_image
from interleave.service.generator.messages import GeneratorInfo
from interleave.service.generator.parameters import Parameters

CHECK = "/v1/robot/check"
MAX_CONCURRENT_CHECKS = 64
RETRY_SECONDS = 1.0
ROUTES = Router()


class SubTaskQuestion(Value):
    """`POST /v1/robot/check`."""

    instruction: str
    before: str
    """An image as `data:image/…;base64,…`."""
    after: str
    model: str | None = None


class SubTaskVerdict(Value):
    """Whether a sub-task is done."""

    done: bool
    outcome: Outcome
    reasoning: str
    correction: str | None
    """What the robot has to do now."""
    confidence: float | None
    seconds: float


class Checks:
    """The checks that a service is making."""

    def __init__(self, documents: Documents) -> None:
        self.documents = documents
        self.in_flight = 0

    @contextmanager
    def admitted(self) -> Iterator[None]:
        """Count a check, or refuse one too many."""
        if self.in_flight >= MAX_CONCURRENT_CHECKS:
            raise ApiRefusal(
                f"{MAX_CONCURRENT_CHECKS} checks are already running",
                status=503,
                code="busy",
                retry_after=RETRY_SECONDS,
            )
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1

    async def checked(self, seen: SubTaskInput, model: str | None) -> SubTaskVerdict:
        model_cache = self.documents.model_cache
        config = model_cache.config_for(model) if model else model_cache.config
        offer = model_cache.offer_of(config)
        if offer is None:
            raise ApiRefusal("there is no such model here", status=404, code="model_not_found")
        check = _check_of(await model_cache.models_for(config), offer.pack)
        began = time.monotonic()
        try:
            verdict = await check.check(seen)
        except BackendError as error:
            raise ApiRefusal(f"the critic failed: {error}", status=502, code="model_failed") from None
        return SubTaskVerdict(
            done=verdict.accepted,
            outcome=verdict.outcome,
            reasoning=verdict.reasoning,
            correction=verdict.refined_prompt,
            confidence=verdict.confidence,
            seconds=round(time.monotonic() - began, 3),
        )


@ROUTES.post(CHECK, response_model=SubTaskVerdict)
async def check(
    call: SubmitCall,
    checks: Annotated[Checks, Depends(per_service(Checks))],
    body: Annotated[dict[str, Any], json_object(SubTaskQuestion)],
) -> Response:
    """Check whether a robot has done a sub-task."""
    given = Parameters(body, GeneratorInfo(GeneratorCapabilities()), known=SubTaskQuestion.model_fields)
    instruction = given.text("instruction", most=text.MAX_FIELD_CHARACTERS)
    images = {name: given.take(name) for name in ("before", "after")}
    if missing := next((name for name, image in images.items() if image is None), None):
        raise ApiRefusal(f"{missing}: send the camera image {missing} the sub-task", parameter=missing)
    model = given.text("model")
    given.refuse_unknown()
    if not instruction or not instruction.strip():
        raise ApiRefusal("instruction: the robot's instruction is empty", parameter="instruction")
    if model is not None and model not in checks.documents.settings.models:
        raise ApiRefusal("there is no such model here", status=404, code="model_not_found")
    with checks.admitted():
        ends_at = asyncio.get_running_loop().time() + RECEIVE_SECONDS
        encoded = [encoded_image(image, name) for name, image in images.items()]
        raw = await checks.documents.decoder.decode(encoded, call.lease, ends_at)
        before, after = (image_of(each) for each in raw)
        return value_json(await checks.checked(SubTaskInput(instruction, before, after), model))


def _check_of(models: Models, pack: PromptPack) -> SubTaskCheck:
    critic = models.critic
    loaded = check_from(critic.vlm if critic.vlm is not None else critic.agent, pack)
    return loaded.with_calls_through(lambda vlm: RetriedVlm("the critic", vlm, models.retries))
