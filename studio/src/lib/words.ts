/** Word-level diff of two texts. */

export interface Change {
  kind: "same" | "added" | "removed";
  words: string;
}

const MAX_WORDS = 400;

export function changes(before: string, after: string): Change[] {
  const a = before.match(/\S+\s*/g) ?? [];
  const b = after.match(/\S+\s*/g) ?? [];
  if (a.length > MAX_WORDS || b.length > MAX_WORDS) return [{ kind: "same", words: after }];
  const bare = (word: string | undefined): string => (word ?? "").trim();
  // lengths[i][j]: the longest common sequence of a from i and b from j
  const lengths = Array.from({ length: a.length + 1 }, () => new Array<number>(b.length + 1).fill(0));
  const at = (i: number, j: number): number => lengths[i]?.[j] ?? 0;
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      const row = lengths[i];
      if (row) row[j] = bare(a[i]) === bare(b[j]) ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  const found: Change[] = [];
  const add = (kind: Change["kind"], words: string): void => {
    const last = found.at(-1);
    if (last?.kind === kind) last.words += words;
    else found.push({ kind, words });
  };
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && bare(a[i]) === bare(b[j])) {
      add("same", b[j++] ?? "");
      i++;
    } else if (i < a.length && (j >= b.length || at(i + 1, j) >= at(i, j + 1))) add("removed", a[i++] ?? "");
    else add("added", b[j++] ?? "");
  }
  return found;
}
