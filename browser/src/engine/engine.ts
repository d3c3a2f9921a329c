/** The miniature in memory: planner, critic and generator, loaded as they are needed. */

import { type CriticInput, judge, type Pack, plan } from "../loop/agents";
import { interleave, type Rules } from "../loop/pipeline";
import type { LoopEvent } from "../loop/types";
import { namedStepCount, type StepTables } from "../reading/steps";
import type { Characters } from "./bpe";
import type { Read } from "./files";
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
  version: string;
  folder: string;
  /** Of the whole site, not compressed. */
  bytes: number;
  files: Record<"planner" | "critic" | "generator", { name: string; bytes: number }[]>;
}

export class Engine {
  private constructor(
    private readonly facts: Facts,
    private readonly planner: LanguageModel,
    private readonly drawing: Promise<{ critic: LanguageModel; generator: ImageModel }>,
  ) {}

  /** Load the planner, and then the others from what `later` reads. */
  static async load(library: Library, facts: Facts, planner: Read, later: Promise<Read>): Promise<Engine> {
    const model = await LanguageModel.load(library, planner, facts.planner, facts.characters);
    const drawing = later.then(async (read) => ({
      generator: await ImageModel.load(library, read, facts.generator, facts.characters),
      critic: await LanguageModel.load(library, read, facts.critic, facts.characters),
    }));
    drawing.catch(() => undefined); // whoever waits for it hears of it
    return new Engine(facts, model, drawing);
  }

  /** Wait until all models are in memory. */
  async ready(): Promise<void> {
    await this.drawing;
  }

  /** Answer a request; `pause` is called between the parts of a computation and throws to stop it. */
  async *answer(request: string, rules: Rules, pause: Pause): AsyncGenerator<LoopEvent> {
    const { pack } = this.facts;
    yield* interleave(
      request,
      {
        plan: (asked) => plan(this.planner, pack, asked, namedStepCount(asked, this.facts.steps), MAX_STEPS, pause),
        draw: async (prompt, seed, sources) => (await this.drawing).generator.draw(prompt, seed, sources, pause),
        judge: async (seen: CriticInput) => judge((await this.drawing).critic, pack, seen, pause),
      },
      rules,
    );
  }
}
