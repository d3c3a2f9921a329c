/** All that reads requests and checks plans, from the tables of the build. */

import { PlanCheck, type CheckTables } from "../loop/plan-check";
import { PlanMending, type MendingTables } from "../loop/plan-mending";
import { World, type WorldTables } from "../world/scene";
import { Sentences } from "../world/sentences";
import type { SentenceExpressions } from "./own-sentences";
import { Requests, type RequestTables } from "./requests";
import { namedStepCount, type StepTables } from "./steps";
import { Vocabulary, type VocabularyTables } from "./vocabulary";

/** `words.json`, which the build writes. */
export interface Tables {
  vocabulary: VocabularyTables;
  sentences: SentenceExpressions;
  requests: RequestTables;
  world: WorldTables;
  check: CheckTables;
  mending: MendingTables;
}
export interface Reading {
  requests: Requests;
  check: PlanCheck;
  mending: PlanMending;
  sentences: Sentences;
  namedSteps(text: string): number | null;
}

export function readingOf(tables: Tables, steps: StepTables): Reading {
  const vocabulary = new Vocabulary(tables.vocabulary);
  const sentences = new Sentences(new World(tables.world));
  const namedSteps = (text: string) => namedStepCount(text, steps);
  const check = new PlanCheck(tables.check, sentences, vocabulary, tables.requests.nounOf, namedSteps);
  const requests = new Requests(vocabulary, tables.requests, tables.sentences, check);
  return { requests, check, mending: new PlanMending(tables.mending, sentences), sentences, namedSteps };
}
