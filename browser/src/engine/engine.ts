/** The miniature in memory: planner, critic and generator, loaded as they are needed. */

import { type Checks, judge, type Pack, plan } from "../loop/agents";
import { interleave, type Rules } from "../loop/pipeline";
import { objection } from "../loop/plan-audit";
import type { LoopEvent, Plan } from "../loop/types";
import { type Reading, readingOf, type Tables } from "../reading/reading";
import type { StepTables } from "../reading/steps";
import type { Characters } from "./bpe";
import { type Read, readJson } from "./files";
import type { Library } from "./graphs";
import { type GeneratorFacts, ImageModel } from "./image-model";
import { type AgentFacts, LanguageModel, type Pause } from "./language-model";

export const MAX_STEPS = 50;

/** `models.json`, which the build writes. */
export interface Facts {
  characters: Characters;
  planner: AgentFacts;
  critic: AgentFacts;
  generator: GeneratorFacts;
  pack: Pack;
  steps: StepTables;
  examples: string[];
  /** Number of kinds of things in the world. */
  kinds: number;
  folder: string;
  /** Of the whole site, not compressed. */
  bytes: number;
  files: Record<"agents" | "generator", { name: string; bytes: number }[]>;
}

/** A request, and what is known of its plan. */
export interface Wish {
  request: string;
  /** Exchange things that the world lacks for their neighbours. */
  nearest?: boolean;
  /** A plan to draw as it is. */
  plan?: Plan;
}

export class Engine {
  private constructor(
    private readonly facts: Facts,
    readonly reading: Reading,
    private readonly planner: LanguageModel,
    private readonly critic: LanguageModel,
    private readonly generator: Promise<ImageModel>,
  ) {}

  /** Load planner and critic, and then the generator from what `later` reads. */
  static async load(library: Library, facts: Facts, read: Read, later: Promise<Read>): Promise<Engine> {
    const reading = readingOf(await readJson<Tables>(read, "words.json"), facts.steps);
    const planner = await LanguageModel.load(library, read, facts.planner, facts.characters);
    const critic = await LanguageModel.load(library, read, facts.critic, facts.characters);
    const generator = later.then((files) => ImageModel.load(library, files, facts.generator, facts.characters));
    generator.catch(() => undefined); // whoever waits for it hears of it
    return new Engine(facts, reading, planner, critic, generator);
  }

  /** Wait until all models are in memory. */
  async ready(): Promise<void> {
    await this.generator;
  }

  /**
   * Answer a request; `pause` is called between the parts of a computation and throws to stop it. Throws `Refused` for
   * a request outside the world, and `Asked` if its plan does not fit it.
   */
  async *answer(wish: Wish, rules: Rules, pause: Pause): AsyncGenerator<LoopEvent> {
    yield* interleave(
      {
        plan: () => this.plan(wish, pause),
        draw: async (prompt, seed, sources) => (await this.generator).draw(prompt, seed, sources, pause),
        judge: (seen) => judge(this.critic, this.facts.pack, seen, pause),
      },
      rules,
    );
  }

  private async plan({ request, nearest, plan: given }: Wish, pause: Pause): Promise<Plan> {
    const { requests, check, mending, namedSteps } = this.reading;
    if (given) {
      for (const { prompt } of given.steps) if (prompt !== null) requests.checkPrompt(prompt);
      return given;
    }
    const checks: Checks = {
      mended: (found) => mending.mended(found),
      wanted: namedSteps,
      question: (asked, found) => check.question(asked, found),
      doubt: async ({ text }, found) => {
        const why = check.isRiddle(found) ? "" : await objection(this.critic, text, found, check.tables, pause);
        return why ? check.askedBack(text, found, why, []) : null;
      },
    };
    return plan(this.planner, this.facts.pack, requests.accept(request, nearest), checks, MAX_STEPS, pause);
  }
}
