/** Byte-level BPE read from `tokenizer.json`: the tokens of `interleave_mini.runtime.bpe`. */

interface Content {
  added_tokens: { id: number; content: string; special: boolean }[];
  model: { vocab: Record<string, number>; merges: [string, string][] };
}

/** Classes of Unicode as in `characters.json`; engines differ in theirs. */
export interface Characters {
  letters: string;
  numbers: string;
  spaces: string;
}

/** Text ↔ tokens, as numbers. */
export class BytePairEncoding {
  readonly special: string[];
  private readonly added: Map<string, number>;
  private readonly vocabulary: Map<string, number>;
  private readonly bytes = new Map<number, Uint8Array>();
  private readonly byteIds: number[];
  private readonly merges = new Map<string, [rank: number, merged: number]>();
  private readonly words: RegExp;
  private readonly splitAdded: RegExp;

  constructor(content: Content, characters: Characters) {
    this.vocabulary = new Map(Object.entries(content.model.vocab));
    this.added = new Map(content.added_tokens.map((token) => [token.content, token.id]));
    this.special = content.added_tokens.filter((token) => token.special).map((token) => token.content);
    const byteOf = new Map(byteAlphabet().map((written, byte) => [written, byte]));
    for (const [token, id] of this.vocabulary) {
      // A vocabulary with words added later has them, too.
      if (!this.added.has(token)) this.bytes.set(id, Uint8Array.from([...token].map((each) => byteOf.get(each)!)));
    }
    for (const [token, id] of this.added) {
      this.bytes.set(id, new TextEncoder().encode(this.special.includes(token) ? "" : token));
    }
    this.byteIds = byteAlphabet().map((written) => this.vocabulary.get(written)!);
    content.model.merges.forEach(([left, right], rank) => {
      const pair = `${this.vocabulary.get(left)} ${this.vocabulary.get(right)}`;
      this.merges.set(pair, [rank, this.vocabulary.get(left + right)!]);
    });
    const { letters: letter, numbers: number, spaces: space } = characters;
    this.words = new RegExp(
      ` ?[${letter}]+(?:[-'’][${letter}]+)*| ?[${number}]| ?[^${space}${letter}${number}]|[${space}]+`,
      "gu",
    );
    const longestFirst = [...this.added.keys()].sort((one, other) => other.length - one.length);
    this.splitAdded = new RegExp(`(${longestFirst.map(escaped).join("|")})`, "u");
  }

  idOf(token: string): number {
    const found = this.added.get(token) ?? this.vocabulary.get(token);
    if (found === undefined) throw new Error(`the tokenizer has no token '${token}'`);
    return found;
  }

  encode(text: string): number[] {
    return text.split(this.splitAdded).flatMap((part) => {
      const added = this.added.get(part);
      return added === undefined ? (part.match(this.words) ?? []).flatMap((word) => this.merged(word)) : [added];
    });
  }

  /** The text of tokens, without special ones. */
  decode(ids: readonly number[]): string {
    const pieces = ids.map((id) => this.bytes.get(id) ?? new Uint8Array());
    const joined = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
    let end = 0;
    for (const piece of pieces) {
      joined.set(piece, end);
      end += piece.length;
    }
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(joined);
  }

  /** Merge the bytes of a word, the pair of the lowest rank first and of equal ones the leftmost. */
  private merged(word: string): number[] {
    const ids = Array.from(new TextEncoder().encode(word), (byte) => this.byteIds[byte]!);
    for (;;) {
      let best: [rank: number, merged: number] | undefined;
      let place = -1;
      for (let left = 0; left + 1 < ids.length; left++) {
        const found = this.merges.get(`${ids[left]} ${ids[left + 1]}`);
        if (found && (!best || found[0] < best[0])) [best, place] = [found, left];
      }
      if (!best) return ids;
      ids.splice(place, 2, best[1]);
    }
  }
}

function escaped(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
}

/** The character that stands for each byte in a vocabulary: itself, if it is visible. */
function byteAlphabet(): string[] {
  let next = 0x100;
  const visible = (byte: number) => (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte !== 0xad);
  return Array.from({ length: 0x100 }, (_, byte) => String.fromCharCode(visible(byte) ? byte : next++));
}
