/**
 * The state of a run: a fold over the journal's events. Equal events give equal states, so a page that was reloaded
 * or disconnected shows the same as one that stayed open.
 */
import type { DocumentError, EventOf, JobStatus, JournalEvent, Plan, PlanStep, Verdict } from "./types";

export interface Reply {
  text: string;
  finishReason: string;
  seconds: number;
  cost: number | null;
  usage: Record<string, number>;
}

export interface Attempt {
  number: number;
  prompt: string;
  seed: number;
  image: string;
  drawSeconds: number;
  cost: number | null;
  verdict: Verdict | null;
  replies: Reply[];
}

export type StepState = "waiting" | "drawing" | "judging" | "finished";

export interface Step {
  plan: PlanStep;
  state: StepState;
  /** The current attempt while the step is drawn or judged. */
  current: number;
  /** The number of the shown attempt; null for text-only steps and before the first image. */
  shown: number | null;
  accepted: boolean;
  forced: boolean;
  attempts: Attempt[];
  /** Number of attempts before the last decision to redraw it. */
  earlier: number;
}

export interface Call {
  key: string;
  role: "planner" | "critic" | "generator";
  number: number;
  step: number;
  attempt: number;
  state: "running" | "done" | "failed";
  started: number;
  seconds: number | null;
  cost: number | null;
  reply: Reply | null;
  image: string | null;
  prompt: string | null;
  errors: string[];
}

export type Phase = "waiting" | "planning" | "drawing" | "held" | "ended";

export interface RunState {
  /** The number of the last folded event. */
  last: number;
  status: JobStatus;
  phase: Phase;
  plan: Plan | null;
  steps: Step[];
  calls: Call[];
  error: DocumentError | null;
  reason: string;
}

export function emptyRun(): RunState {
  return {
    last: -1, status: "queued", phase: "waiting", plan: null, steps: [], calls: [], error: null, reason: "",
  };
}

/** The text of a step for readers. */
export function textOf(step: PlanStep): string {
  return step.caption || step.instruction || step.name || "";
}

/** The name of a step if it differs from its text, else "". */
export function nameOf(step: PlanStep): string {
  return step.name && step.name !== textOf(step) ? step.name : "";
}

export function shownAttempt(step: Step): Attempt | null {
  return step.attempts.find((each) => each.number === step.shown) ?? null;
}

/** The visible attempt: the newest while a step is in progress, else the shown one. */
export function visibleAttempt(step: Step): Attempt | null {
  const newest = step.attempts.at(-1) ?? null;
  const underWay = step.state === "drawing" || step.state === "judging";
  return underWay ? newest : (shownAttempt(step) ?? newest);
}

/** Applies one event to `run`. Skips events that were folded before and unknown types. */
export function fold(run: RunState, event: JournalEvent): void {
  if (event.sequence_number <= run.last) return;
  run.last = event.sequence_number;
  switch (event.type) {
    case "job.queued":
      run.reason = "";
      return jobChanged(run, "queued", "waiting", null);
    case "job.held":
      return jobChanged(run, "held", "held", null);
    case "job.asked":
      return jobChanged(run, "asked", "held", null);
    case "job.completed":
    case "job.incomplete":
    case "job.failed":
    case "job.cancelled":
      return jobEnded(run, event);
    case "started":
    case "continued":
      return jobChanged(run, "in_progress", run.plan ? "drawing" : "planning", null);
    case "planned":
    case "plan_released":
      return planned(run, event.plan);
    case "called":
      return called(run, event);
    case "call_failed":
      return callFailed(run, event);
    case "replied":
      return replied(run, event);
    case "drawn":
      return drawn(run, event);
    case "judged":
      return judged(run, event);
    case "step_finished":
      return stepFinished(run, event);
    case "redraw_decided":
    case "attempt_chosen":
      return stepDecided(run, event);
    case "ended":
      run.reason = event.reason;
  }
}

function jobChanged(run: RunState, status: JobStatus, phase: Phase, error: DocumentError | null): void {
  run.status = status;
  run.phase = phase;
  run.error = error;
}

function jobEnded(run: RunState, event: EventOf<"job.completed" | "job.incomplete" | "job.failed" | "job.cancelled">): void {
  jobChanged(run, event.type.slice("job.".length) as JobStatus, "ended", event.error);
  for (const call of run.calls) if (call.state === "running") call.state = "failed";
  for (const step of run.steps) {
    if (step.state === "drawing" || step.state === "judging") step.state = "waiting";
  }
}

function planned(run: RunState, plan: Plan): void {
  const before = new Map(run.steps.map((step) => [step.plan.number, step]));
  run.plan = plan;
  run.phase = "drawing";
  run.steps = plan.steps.map((each) => {
    const known = before.get(each.number);
    return known ? { ...known, plan: each } : newStep(each);
  });
}

function newStep(plan: PlanStep): Step {
  return { plan, state: "waiting", current: 0, shown: null, accepted: false, forced: false, attempts: [], earlier: 0 };
}

function stepAt(run: RunState, event: { step: number }): Step | undefined {
  return run.steps.find((step) => step.plan.number === event.step);
}

function attemptAt(run: RunState, event: { step: number; attempt: number }): Attempt | undefined {
  return stepAt(run, event)?.attempts.find((each) => each.number === event.attempt);
}

function callAt(run: RunState, event: { role: Call["role"]; call: number }): Call | undefined {
  return run.calls.findLast((call) => call.role === event.role && call.number === event.call);
}

function called(run: RunState, event: EventOf<"called">): void {
  const known = callAt(run, event);
  if (known) {
    known.state = "running";
    return;
  }
  run.calls.push({
    key: `${event.role}-${event.call}`,
    role: event.role,
    number: event.call,
    step: event.step,
    attempt: event.attempt,
    state: "running",
    started: event.time,
    seconds: null,
    cost: null,
    reply: null,
    image: null,
    prompt: null,
    errors: [],
  });
  const step = stepAt(run, event);
  if (!step) return;
  step.current = event.attempt;
  if (event.role === "generator") step.state = "drawing";
  if (event.role === "critic") step.state = "judging";
}

function callFailed(run: RunState, event: EventOf<"call_failed">): void {
  const call = callAt(run, event);
  if (!call) return;
  call.state = "failed";
  call.errors.push(event.error);
}

function replied(run: RunState, event: EventOf<"replied">): void {
  const { text, seconds, cost, usage } = event;
  const reply: Reply = { text, seconds, cost, usage, finishReason: event.finish_reason };
  const call = callAt(run, event);
  if (call) Object.assign(call, { state: "done", reply, seconds, cost });
  if (event.role === "critic") attemptAt(run, event)?.replies.push(reply);
}

function drawn(run: RunState, event: EventOf<"drawn">): void {
  const { prompt, seed, picture: image, seconds, cost } = event;
  const call = callAt(run, event);
  if (call) Object.assign(call, { state: "done", seconds, cost, image, prompt });
  const step = stepAt(run, event);
  if (!step || attemptAt(run, event)) return;
  step.state = "judging";
  step.current = event.attempt;
  step.attempts.push({
    number: event.attempt, prompt, seed, image, drawSeconds: seconds, cost, verdict: null, replies: [],
  });
}

function judged(run: RunState, event: EventOf<"judged">): void {
  const attempt = attemptAt(run, event);
  if (attempt) attempt.verdict = event.verdict;
}

function stepFinished(run: RunState, event: EventOf<"step_finished">): void {
  const step = stepAt(run, event);
  if (!step) return;
  step.state = "finished";
  step.shown = event.attempt;
  step.accepted = event.accepted;
  step.forced = event.forced;
}

/** Applies a user's decision: reopens the step, and later steps that do not keep their image. */
function stepDecided(run: RunState, event: EventOf<"redraw_decided" | "attempt_chosen">): void {
  for (const step of run.steps) {
    const kept = event.keep[String(step.plan.number)] !== undefined;
    if (step.plan.number >= event.step && step.plan.prompt !== null && !kept) {
      step.state = "waiting";
      step.earlier = step.attempts.length;
    }
  }
}
