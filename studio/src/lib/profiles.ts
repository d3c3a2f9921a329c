/** Profiles by what they do, for people who do not know their names. */
import { studio } from "./studio.svelte";
import { text } from "./text";
import type { Start } from "./types";

export type Profile = NonNullable<Start["profiles"]>[number];

/** The generators of the profiles that come with the program. Another one under their names is the user's own. */
const GENERATORS: Record<string, string> = { mini: "mini", oracle: "world", "dry-run": "solid" };

export function known(profile: Pick<Profile, "name" | "models">): [string, string] | null {
  const generator = GENERATORS[profile.name];
  const is = generator !== undefined && profile.models.generator.split(/[:?]/)[0] === generator;
  return is ? (text.make.profiles[profile.name] ?? null) : null;
}

export const labelOf = (profile: Pick<Profile, "name" | "models">): string => known(profile)?.[0] ?? text.make.ownModels(profile.name);

/** The label of a profile that may no longer be offered. */
export function labelOfName(name: string): string {
  const offered = studio.start?.profiles?.find((each) => each.name === name);
  return offered ? labelOf(offered) : (text.make.profiles[name]?.[0] ?? name);
}
