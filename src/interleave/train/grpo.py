"""GRPO for a critic, on TRL.

TRL gives a masked sample the advantage zero, but still counts its tokens when it normalizes the loss, keeps
it in the KL term, and sums in single precision. This trainer takes advantages from `rewards/formula.py` and
masks all tokens of such samples, so that a step with failures equals the step without them. If too many
redraws failed for that to be unbiased, the whole step is discarded (`rewards/health.py`).
"""

from __future__ import annotations

import logging
import math
import random
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy
import torch
from trl import GRPOConfig, GRPOTrainer

from interleave import ConfigurationError
from interleave.local.processors import VISION_TOKENS
from interleave.local.qwen3_vl.batched_vision import batch_vision
from interleave.local.qwen3_vl.uint8_pixels import use_uint8_pixels
from interleave.local.silence import quiet
from interleave.plugin import backends, load_pack
from interleave.train.checkpoints import CheckpointMixin
from interleave.train.inspection import TrainingRows
from interleave.train.logs import TrainingLog, say_on_stderr
from interleave.train.models import (
    TrainableModel,
    gather_output_layer,
    load_trainable_model,
    uncast_adapter_inputs,
)
from interleave.train.monitor import TrainingMonitor
from interleave.train.output_folder import OutputFolder
from interleave.train.recipes import Recipe, TrainingJob
from interleave.train.rewards.core import RewardCore
from interleave.train.rewards.formula import batch_advantages, equal_groups, skipped_groups
from interleave.train.rewards.health import Health, RewardUnhealthy, Screened, screened
from interleave.train.rewards.redraws import Redrawer, load_redrawer
from interleave.train.rewards.samples import Case
from interleave.train.rollouts import Rollouts, rollouts_for, run_lengths
from interleave.train.run import (
    is_main_process,
    locked_output,
    open_training,
    refuse_few_rows,
    run_training,
    whole_batches,
    world_size,
)
from interleave.train.samples_page import SamplePage
from interleave.train.sft import add_callbacks, common_arguments
from interleave.train.trainers.trl import ScoredBatch, TrlReward, is_outage


def train_grpo(
    job: TrainingJob, say: Callable[[str], None] = say_on_stderr, redraws: Redrawer | None = None
) -> str:
    """Train from the start or from the last checkpoint; returns the spec of the result."""
    if redraws is None:
        check_reward(job.recipe)
    rows, output = open_training(job, say)
    if output.done:
        return output.use
    say("loading the models…")
    reward = load_reward(job.recipe, redraws)
    learner = load_trainable_model(job.recipe.model, picture_cache_mb=job.recipe.training.picture_cache_mb)
    with locked_output(output, job, rows):
        monitor = TrainingMonitor(max_minutes=job.max_minutes, cycle=job.recipe.grpo.updates)
        trainer = grpo_trainer(job.recipe, learner, rows, output, monitor, reward, say)
        try:
            with uncast_adapter_inputs(trainer.model, wanted=trainer.args.bf16):
                use = run_training(trainer, output, monitor, job, learner, rows)
            if is_main_process():
                trainer.page.write()
            return use
        except RewardUnhealthy:
            if trainer.outage:  # the current step was abandoned and will be repeated after a resume
                trainer.save_before_step()
            raise


def check_reward(recipe: Recipe) -> None:
    """Reject a generator, scorer or prompt pack that does not exist, before loading any model."""
    part = recipe.reward
    named = {"generator": part.generator, "scorer": part.scorer}
    if missing := [role for role, spec in named.items() if not spec]:
        wanted = " and ".join(f"--{role} SPEC" for role in missing)
        raise ConfigurationError(f"which {' and which '.join(missing)}? Name it with {wanted}")
    backends.check_generator(part.generator)
    backends.check_agent(part.scorer, "scorer")
    load_pack(part.prompts)


def load_reward(recipe: Recipe, redraws: Redrawer | None = None) -> TrlReward:
    """Build the reward of a recipe, with its generator and scorer."""
    part, pack = recipe.reward, load_pack(recipe.reward.prompts)
    if redraws is None:
        redraws = load_redrawer(part.generator, part.scorer, pack)
    core = RewardCore(
        redraws,
        part.weights,
        concurrency=part.concurrency,
        deadline=part.deadline,
        seed=recipe.training.seed,
        answers=pack.answers,
    )
    return TrlReward(core, patience=part.patience, limits=part.limits, screening=False)


def grpo_trainer(
    recipe: Recipe,
    learner: TrainableModel,
    rows: TrainingRows,
    output: OutputFolder,
    monitor: TrainingMonitor,
    reward: TrlReward,
    say: Callable[[str], None],
) -> CriticTrainer:
    """Build TRL's trainer from a recipe."""
    logging.getLogger("trl.trainer.grpo_trainer").setLevel(logging.ERROR)  # logs every masked row in full
    training, grpo = recipe.training, recipe.grpo
    refuse_few_rows(recipe, len(rows.train))
    batches = whole_batches(grpo.completions, training.device_batch, world_size(), "a generation")
    if batches % grpo.updates:
        raise ConfigurationError(
            f"{batches} batches of a generation do not split into {grpo.updates} updates"
        )
    learner.processor.tokenizer.padding_side = "left"  # TRL assumes it
    suppressed = image_tokens(learner.processor.tokenizer)
    config = GRPOConfig(
        **common_arguments(recipe, output, validating=rows.validation is not None),
        gradient_accumulation_steps=batches // grpo.updates,
        steps_per_generation=batches,
        save_steps=math.ceil(training.save_every / grpo.updates) * grpo.updates,
        num_generations=grpo.samples,
        num_generations_eval=1,
        per_device_eval_batch_size=training.device_batch,
        max_completion_length=grpo.max_completion,
        temperature=grpo.temperature,
        top_p=grpo.top_p,
        top_k=grpo.top_k,
        beta=grpo.kl,
        epsilon=grpo.clip_low,
        epsilon_high=grpo.clip_high,
        loss_type=grpo.loss,
        scale_rewards=grpo.scale,
        pad_to_multiple_of=training.pad_to if training.pad_to > 1 else None,
        generation_kwargs={"suppress_tokens": suppressed},
    )
    trainer = CriticTrainer(
        model=learner.model,
        args=config,
        train_dataset=rows.train,
        eval_dataset=rows.validation,
        processing_class=learner.processor,
        reward_funcs=reward.reward,
        peft_config=learner.lora,
    )
    if trainer.ref_model is not None:  # TRL loads it a second time, without our changes
        reference = trainer.accelerator.unwrap_model(trainer.ref_model)
        batch_vision(reference)
        use_uint8_pixels(reference, learner.processor)
    trainer.adapts = learner.lora is not None
    trainer.rollouts = rollouts_for(trainer, grpo, suppressed=suppressed, eos_ids=trainer.eos_token_ids)
    trainer.keep = training.keep
    trainer.say = say
    reward.on_scored = trainer.note_scored
    trainer.early = reward if recipe.reward.during_rollout else None
    trainer.monitor = monitor
    trainer.health = Health(recipe.reward.limits)
    trainer.page = SamplePage(output.folder, "Answers while learning by GRPO")
    add_callbacks(trainer, monitor, TrainingLog(output.folder, say))
    return trainer


def image_tokens(tokenizer: Any) -> list[int]:
    """Return the vision tokens: in an answer, one would be read as an image that does not exist."""
    known = tokenizer.get_vocab()
    return sorted(known[token] for token in VISION_TOKENS.values() if token in known)


class CriticTrainer(CheckpointMixin, GRPOTrainer):  # type: ignore[misc]
    """TRL's trainer with exact advantages, masked samples fully excluded, and failed rewards monitored."""

    outage = False
    """Whether the current step was abandoned because every reward failed."""
    say: Callable[[str], None]
    scored: ScoredBatch
    """Results of the last reward call in this process."""
    monitor: TrainingMonitor
    health: Health
    page: SamplePage
    adapts = False
    """Whether an adapter is trained."""
    rollouts: Rollouts | None = None
    """Our decoder for the answers; None: the library generates them."""
    early: TrlReward | None = None
    """The reward, if it starts while other answers are still being generated."""
    _inputs: Sequence[Any]
    """Rows being answered."""
    _groups: list[int]
    """Lengths of the runs of equal rows in a generation."""

    def note_scored(self, scored: ScoredBatch) -> None:
        """Receive results from the reward function; TRL itself passes on only the totals."""
        self.scored = scored

    def _generate(self, prompts: Any) -> Any:
        return self._timed("time/generate", super()._generate, prompts)

    def _tokenize_prompts(self, prompts: Any) -> Any:
        """Tokenize one prompt per group if our decoder prefills it once: a group's prompts are equal."""
        if self.rollouts is None:
            return super()._tokenize_prompts(prompts)
        firsts = [sum(self._groups[:place]) for place in range(len(self._groups))]
        ids, images, fields = super()._tokenize_prompts([prompts[first] for first in firsts])
        spread = [place for place, length in enumerate(self._groups) for _ in range(length)]
        shown = None if images is None else [images[place] for place in spread]
        return [ids[place] for place in spread], shown, fields

    def _generate_single_turn(self, prompt_ids: Any, images: Any, fields: Any, *arguments: Any) -> Any:
        if self.rollouts is None:
            half = self.accelerator.autocast() if self.adapts else nullcontext()  # as adapters need it
            with half:
                return super()._generate_single_turn(prompt_ids, images, fields, *arguments)
        copies = self._groups[0]
        shown = images or [None] * len(prompt_ids)
        image_counts = [len(shown[place] or ()) for place in range(0, len(prompt_ids), copies)]
        early = self.early if self.model.training else None
        ended = partial(self._begin_reward, early) if early is not None else None
        return self.rollouts.answers(prompt_ids[::copies], fields, image_counts, copies, ended), None

    def _begin_reward(self, reward: TrlReward, place: int, ids: list[int]) -> None:
        """Start the redraw for one answer, decoded as TRL decodes it: the reward call awaits the result."""
        (text,) = self.processing_class.batch_decode([ids], skip_special_tokens=True)
        row = self._inputs[place]
        self.async_loop.call_soon_threadsafe(reward.begin, row, text, self.state.global_step)

    def _calculate_rewards(self, *arguments: Any) -> Any:
        self._rewards = self._timed("time/reward", super()._calculate_rewards, *arguments)
        return self._rewards

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        figures = {name: list(values) for name, values in self._metrics["train"].items()}
        self._before_step = (_rng_states(), self.state.num_input_tokens_seen, figures)
        self._inputs, self._groups = inputs, equal_runs(inputs)
        output = super()._generate_and_score_completions(inputs)
        if not self.model.training:
            return output
        rewards = [None if math.isnan(value) else value for value in self._rewards[:, 0].tolist()]
        step = self._screened(rewards)
        self._update_health(rewards, step)
        self._show(inputs)
        return self._without_masked(output, step.totals)

    def compute_loss(self, *arguments: Any, **options: Any) -> Any:
        gather_output_layer(self.accelerator.unwrap_model(self.model))
        return super().compute_loss(*arguments, **options)

    def training_step(self, *arguments: Any, **options: Any) -> Any:
        started = time.perf_counter()
        figures = self._metrics["train"]
        before = _spent(figures)
        loss = super().training_step(*arguments, **options)
        generating = _spent(figures) - before
        figures["time/update"].append(time.perf_counter() - started - generating)
        return loss

    def _screened(self, rewards: list[float | None]) -> Screened:
        """Return the rewards to learn from, over all processes: a group may span several."""
        mine = [result.case is Case.REDRAWN for result in self.scored.results]
        drawn = self.accelerator.gather(torch.tensor(mine, device=self.accelerator.device)).tolist()
        groups = [place // self.num_generations for place in range(len(rewards))]
        return screened(rewards, drawn, groups, self.health.limits)

    def _without_masked(self, output: Any, rewards: Sequence[float | None]) -> Any:
        """Return the batch without masked samples and without groups that have too few valid ones."""
        advantages = batch_advantages(rewards, self.num_generations, self.scale_rewards)
        count = len(output["advantages"])
        mine = advantages[self.accelerator.process_index * count :][:count]
        like = output["advantages"]
        kept = torch.tensor([each is not None for each in mine], device=like.device)
        output["advantages"] = torch.tensor(
            [each or 0.0 for each in mine], dtype=like.dtype, device=like.device
        )
        output["completion_mask"] = output["completion_mask"] * kept.unsqueeze(1)
        tokens = output["completion_mask"].sum()
        all_tokens = self.accelerator.gather(tokens).sum()
        output["num_items_in_batch"] = all_tokens.clamp(min=1)  # without tokens the loss is 0, not 0/0
        return output

    def _update_health(self, rewards: list[float | None], step: Screened) -> None:
        causes = self.scored.causes
        self.health.note(step, causes)
        self._log_health(len(rewards), step)
        if self._is_outage():
            self.outage = True
            raise self._gave_up()
        if step.discarded and self.accelerator.is_main_process:
            self.say(
                f"step {self.state.global_step + 1}: {step.failed} of {step.needed} redraws failed"
                f"{f' ({causes[0]})' if causes else ''}; step discarded"
            )
        if self.health.unhealthy:
            self.monitor.stop(self.health.complaint())

    def _log_health(self, samples: int, step: Screened) -> None:
        kept, group = step.totals, self.num_generations
        for name, value in {
            "samples/failure_rate": step.failed / samples,
            "redraws/failed": step.share,
            "redraws/failed_lately": self.health.lately,
            "groups/discarded": step.discarded_groups,
            "groups/skipped": skipped_groups(kept, group),
            "groups/equal": equal_groups(kept, group),
            "steps/discarded": step.discarded,
            "steps/skipped": self.monitor.skipped,
        }.items():
            self._metrics["train"][name].append(float(value))

    def _is_outage(self) -> bool:
        """Return whether every redraw failed, in all processes."""
        mine = is_outage(self.scored.results, self.health.limits.step)
        flags = torch.tensor([float(mine)], device=self.accelerator.device)
        return bool(self.accelerator.gather(flags).min() > 0)

    def _gave_up(self) -> RewardUnhealthy:
        cause = next(iter(self.scored.causes), "no reason given")
        return RewardUnhealthy(
            f"reward_unhealthy: every reward of step {self.state.global_step + 1} failed ({cause}). "
            "The step was discarded and the state is saved: fix the cause, then run the same command again"
        )

    def save_before_step(self) -> None:
        """Save a checkpoint of the state before the current step."""
        states, self.state.num_input_tokens_seen, figures = self._before_step
        _set_rng_states(states)
        self._metrics["train"].clear()
        self._metrics["train"].update(figures)
        with quiet():
            self._save_checkpoint(self.model, None)

    def _show(self, inputs: Any) -> None:
        if not self.accelerator.is_main_process:
            return
        images = [row["images"] for row in inputs]
        self.page.add(self.state.global_step, self.scored, images)
        self.page.write_if_due()

    def _timed(self, name: str, work: Callable[..., Any], *arguments: Any) -> Any:
        started = time.perf_counter()
        done = work(*arguments)
        mode = "train" if self.model.training else "eval"
        self._metrics[mode][name].append(time.perf_counter() - started)
        return done


def equal_runs(rows: Sequence[Any]) -> list[int]:
    """Return the lengths of runs of equal rows if all are equal, else 1 each: processes may split groups."""
    lengths = run_lengths([row["id"] for row in rows])
    return lengths if len(set(lengths)) == 1 else [1] * len(rows)


def _spent(figures: Any) -> float:
    return float(sum(figures["time/generate"]) + sum(figures["time/reward"]))


def _rng_states() -> dict[str, Any]:
    states = {"python": random.getstate(), "numpy": numpy.random.get_state(), "cpu": torch.get_rng_state()}
    return states | ({"cuda": torch.cuda.get_rng_state_all()} if torch.cuda.is_available() else {})


def _set_rng_states(states: dict[str, Any]) -> None:
    random.setstate(states["python"])
    numpy.random.set_state(states["numpy"])
    torch.set_rng_state(states["cpu"])
    if "cuda" in states:
        torch.cuda.set_rng_state_all(states["cuda"])
