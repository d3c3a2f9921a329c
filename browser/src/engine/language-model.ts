/** Replies of a small Qwen3-VL: a prompt into a KV cache, then token by token (`runtime/decoder.py`). */

import { BytePairEncoding, type Characters } from "./bpe";
import { readJson, readTensor, type Read } from "./files";
import { floats, Graph, integers, type Library } from "./graphs";
import { encodeMessages, IMAGE_TOKEN, type Message, type Pixels, type Template } from "./messages";
import { cut, gridOf, patchPositions, type Grid, type PatchLayout } from "./patches";
import { exponentials, MersenneTwister } from "./random";

const MASKED = -3.4028234663852886e38; // the lowest number of single precision
const GROWTH = 128; // tokens by which the KV cache grows when it is full
const EMBEDDINGS = "model.language_model.embed_tokens.weight";
const INCOMPLETE_CHARACTER = "\ufffd";

export interface Sampling {
  temperature: number;
  seed: number;
  maxTokens: number;
}
export interface Reply {
  text: string;
  finish: "stop" | "length";
  tokens: { text: string; probability: number }[];
}
/** Called before each token: gives other events their turn, and throws to stop. */
export type Pause = () => Promise<void>;

interface Config {
  text_config: {
    max_position_embeddings: number;
    head_dim: number;
    num_key_value_heads: number;
    num_hidden_layers: number;
    rope_parameters: { rope_theta: number; mrope_section: [number, number, number] };
  };
  vision_config: { num_position_embeddings: number };
}
/** What the build has read from the other files of the model's folder. */
export interface AgentFacts {
  folder: string;
  template: Template;
  layout: PatchLayout;
  /** Whether it is given images. */
  vision: boolean;
  eos: number[];
}
interface Prompt {
  ids: number[];
  embeddings: Float32Array;
  /** Of time, rows and columns: 3 × tokens. */
  positions: [number[], number[], number[]];
}

/** A planner or critic in memory. */
export class LanguageModel {
  private constructor(
    private readonly facts: AgentFacts,
    private readonly config: Config,
    readonly encoding: BytePairEncoding,
    private readonly embeddings: { shape: number[]; values: Float32Array },
    private readonly decoder: Graph,
    /** The graph for images, if the site has one for this model. */
    private readonly vision: Graph | null,
  ) {}

  static async load(library: Library, read: Read, facts: AgentFacts, characters: Characters): Promise<LanguageModel> {
    const { folder } = facts;
    const open = (name: string) => Graph.open(library, read, folder, name, ["model.safetensors"]);
    return new LanguageModel(
      facts,
      await readJson<Config>(read, `${folder}/config.json`),
      new BytePairEncoding(await readJson(read, `${folder}/tokenizer.json`), characters),
      readTensor(await read(`${folder}/model.safetensors`), EMBEDDINGS),
      await open("decoder.onnx"),
      facts.vision ? await open("vision.onnx") : null,
    );
  }

  async complete(messages: readonly Message[], sampling: Sampling, pause: Pause): Promise<Reply> {
    const prompt = await this.prompt(messages);
    const context = this.config.text_config.max_position_embeddings;
    const budget = Math.min(sampling.maxTokens, context - prompt.ids.length);
    if (budget <= 0) {
      throw new TooLong(`the prompt has ${prompt.ids.length} tokens, and the model reads at most ${context}: shorten it`);
    }
    const random = new MersenneTwister(sampling.seed >>> 0);
    const ids: number[] = [];
    const probabilities: number[] = [];
    const cache = new Cache(this.config, prompt.ids.length);
    let logits = await this.prefill(prompt, cache);
    for (;;) {
      const token = chosen(logits, sampling.temperature, random);
      if (this.facts.eos.includes(token)) return this.reply(ids, probabilities, "stop");
      ids.push(token);
      probabilities.push(Math.min(softmax(logits)[token]!, 1));
      if (ids.length === budget) return this.reply(ids, probabilities, "length");
      await pause();
      logits = await this.step(cache, token);
    }
  }

  private reply(ids: number[], probabilities: number[], finish: Reply["finish"]): Reply {
    const texts = this.detokenized(ids);
    const tokens = texts.map((text, place) => ({ text, probability: probabilities[place]! }));
    return { text: texts.join(""), finish, tokens };
  }

  /** The text that each token adds; a character of several tokens belongs to the last of them. */
  private detokenized(ids: readonly number[]): string[] {
    const texts: string[] = [];
    let [start, done] = [0, 0];
    for (let end = 1; end <= ids.length; end++) {
      const before = this.encoding.decode(ids.slice(start, done));
      const now = this.encoding.decode(ids.slice(start, end));
      if (now.endsWith(INCOMPLETE_CHARACTER) && end < ids.length && end - done < 4) {
        texts.push("");
        continue;
      }
      texts.push(now.slice(before.length));
      [start, done] = [done, end];
    }
    return texts;
  }

  private async prompt(messages: readonly Message[]): Promise<Prompt> {
    const { merge } = this.facts.layout;
    const images = messages.flatMap(({ parts }) => parts.filter((part): part is Pixels => typeof part !== "string"));
    const grids = images.map((image) => gridOf(image, this.facts.layout));
    const ids = encodeMessages(messages, this.facts.template, this.encoding, (image) => {
      const { rows, columns } = gridOf(image, this.facts.layout);
      return (rows * columns) / merge ** 2;
    });
    const width = this.embeddings.shape[1]!;
    const embeddings = this.embedded(ids);
    const imageId = this.encoding.idOf(IMAGE_TOKEN);
    const places = ids.flatMap((id, place) => (id === imageId ? [place] : []));
    for (const image of images) {
      const features = await this.features(image);
      for (let start = 0; start < features.length; start += width) {
        embeddings.set(features.subarray(start, start + width), places.shift()! * width);
      }
    }
    return { ids, embeddings, positions: positionsOf(ids, imageId, grids, merge) };
  }

  private embedded(ids: readonly number[]): Float32Array {
    const width = this.embeddings.shape[1]!;
    const rows = new Float32Array(ids.length * width);
    ids.forEach((id, place) => rows.set(this.embeddings.values.subarray(id * width, (id + 1) * width), place * width));
    return rows;
  }

  private async features(image: Pixels): Promise<Float32Array> {
    const grid = gridOf(image, this.facts.layout);
    const count = grid.rows * grid.columns;
    const side = Math.sqrt(this.config.vision_config.num_position_embeddings);
    const { taps, weights, places } = patchPositions(grid, this.facts.layout.merge, side);
    const patches = cut(image, this.facts.layout);
    const [features] = await this.vision!.run(
      floats(patches, 1, count, patches.length / count),
      integers(taps, count, 4),
      floats(weights, count, 4),
      integers(places, count, 2),
    );
    return features!;
  }

  private async prefill({ ids, embeddings, positions }: Prompt, cache: Cache): Promise<Float32Array> {
    const length = ids.length;
    // A graph takes no empty cache: it has one token that is masked.
    const mask = new Float32Array(length * (length + 1)).fill(MASKED);
    for (let row = 0; row < length; row++) mask.fill(0, row * (length + 1) + 1, row * (length + 1) + row + 2);
    const [logits, ...fresh] = await this.decode(embeddings, positions, mask, cache.empty, 1);
    cache.fill(fresh, Math.max(...positions.flat()) + 1);
    return logits!;
  }

  private async step(cache: Cache, token: number): Promise<Float32Array> {
    const place = [cache.following];
    const positions: [number[], number[], number[]] = [place, place, place];
    const [logits, ...fresh] = await this.decode(this.embedded([token]), positions, cache.mask, cache.layers, cache.room);
    cache.append(fresh);
    return logits!;
  }

  private decode(
    embeddings: Float32Array,
    positions: Prompt["positions"],
    mask: Float32Array,
    layers: readonly Float32Array[],
    room: number,
  ): Promise<Float32Array[]> {
    const { head_dim: width, num_key_value_heads: heads } = this.config.text_config;
    const length = positions[0].length;
    const { cosines, sines } = this.rope(positions);
    return this.decoder.run(
      floats(embeddings, 1, length, this.embeddings.shape[1]!),
      floats(cosines, 1, 1, length, width),
      floats(sines, 1, 1, length, width),
      floats(mask, 1, 1, 1, length, room + length),
      ...layers.map((layer) => floats(layer, 1, heads, room, width)),
    );
  }

  /** Cosines and sines, tokens × width, the first half of the sines negated (interleaved M-RoPE). */
  private rope(positions: Prompt["positions"]): { cosines: Float32Array; sines: Float32Array } {
    const { head_dim: width, rope_parameters } = this.config.text_config;
    const half = width / 2;
    const theta = rope_parameters.rope_theta;
    const frequencies = Float32Array.from({ length: half }, (_, index) => 1 / Math.fround(theta ** Math.fround((2 * index) / width)));
    const axisOf = (index: number) => {
      const axis = index % 3;
      return axis > 0 && index < rope_parameters.mrope_section[axis]! * 3 ? axis : 0;
    };
    const length = positions[0].length;
    const cosines = new Float32Array(length * width);
    const sines = new Float32Array(length * width);
    for (let token = 0; token < length; token++)
      for (let index = 0; index < half; index++) {
        const angle = Math.fround(positions[axisOf(index)]![token]! * frequencies[index]!);
        const place = token * width + index;
        cosines[place] = cosines[place + half] = Math.cos(angle);
        sines[place + half] = Math.sin(angle);
        sines[place] = -sines[place + half]!;
      }
    return { cosines, sines };
  }
}

/** The prompt fills the context of the model. */
export class TooLong extends Error {}

/** The KV cache with room for more tokens, and the mask of what is in it. */
class Cache {
  layers: Float32Array[] = [];
  mask = new Float32Array();
  /** The position of the next token. */
  following = 0;
  room = 0;
  private readonly heads: number;
  private readonly width: number;
  private readonly count: number;

  constructor(config: Config, private length: number) {
    this.heads = config.text_config.num_key_value_heads;
    this.width = config.text_config.head_dim;
    this.count = 2 * config.text_config.num_hidden_layers;
  }

  get empty(): Float32Array[] {
    return Array.from({ length: this.count }, () => new Float32Array(this.heads * this.width));
  }

  fill(layers: Float32Array[], following: number): void {
    this.layers = layers;
    this.room = this.length;
    this.following = following;
    this.grow();
  }

  /** Write the keys and values of one token. */
  append(fresh: readonly Float32Array[]): void {
    if (this.length === this.room) this.grow();
    const { width } = this;
    fresh.forEach((each, layer) => {
      for (let head = 0; head < this.heads; head++) {
        const values = each.subarray(head * width, (head + 1) * width);
        this.layers[layer]!.set(values, (head * this.room + this.length) * width);
      }
    });
    this.mask[this.length++] = 0;
    this.following++;
  }

  private grow(): void {
    const room = this.room + GROWTH;
    this.layers = this.layers.map((layer) => {
      const larger = new Float32Array(this.heads * room * this.width);
      for (let head = 0; head < this.heads; head++) {
        const kept = layer.subarray(head * this.room * this.width, (head + 1) * this.room * this.width);
        larger.set(kept, head * room * this.width);
      }
      return larger;
    });
    // The last entry is the new token itself, which follows the whole cache.
    this.mask = new Float32Array(room + 1).fill(0, 0, this.length).fill(MASKED, this.length, room);
    this.room = room;
  }
}

/** Positions of tokens: text advances by one, a grid of image tokens by its longer side. */
export function positionsOf(ids: readonly number[], imageId: number, grids: readonly Grid[], merge: number): Prompt["positions"] {
  const [times, rows, columns]: Prompt["positions"] = [[], [], []];
  const remaining = [...grids];
  let start = 0;
  for (let place = 0; place < ids.length; ) {
    if (ids[place] !== imageId) {
      for (const axis of [times, rows, columns]) axis.push(start);
      start++;
      place++;
      continue;
    }
    const grid = remaining.shift()!;
    const [height, width] = [grid.rows / merge, grid.columns / merge];
    for (let token = 0; token < height * width; token++) {
      times.push(start);
      rows.push(start + Math.floor(token / width));
      columns.push(start + (token % width));
    }
    start += Math.max(height, width);
    place += height * width;
  }
  return [times, rows, columns];
}

/** The likeliest token, or one drawn as `torch.multinomial` does. */
export function chosen(logits: Float32Array, temperature: number, random: MersenneTwister): number {
  if (!temperature) return largest(logits);
  const chances = softmax(logits.map((each) => each / Math.fround(temperature)));
  const waits = exponentials(random, logits.length);
  return largest(chances.map((chance, token) => chance / waits[token]!));
}

function largest(values: Float32Array): number {
  let best = 0;
  for (let place = 1; place < values.length; place++) if (values[place]! > values[best]!) best = place;
  return best;
}

function softmax(logits: Float32Array): Float32Array {
  const most = logits[largest(logits)]!;
  const powers = logits.map((each) => Math.exp(each - most));
  let sum = 0;
  for (const power of powers) sum += power;
  return powers.map((power) => power / sum);
}
