/** A small FLUX.2 klein: prompts, sources and noise in, pixels out (`runtime/image_model.py`). */

import { BytePairEncoding, type Characters } from "./bpe";
import { readJson, type Read } from "./files";
import { floats, Graph, integers, type Library } from "./graphs";
import type { Pause } from "./language-model";
import type { Pixels } from "./messages";
import { normalNoise } from "./random";

const TOKEN_SIDE = 16; // pixels of one latent token: the VAE scales by 8, and 2×2 latents are one token
const SOURCE_TIMES = 10; // sources are 10, 20, … steps of time before the image
const MASKED = -3.4028234663852886e38;

interface Config {
  axes_dims_rope: number[];
  rope_theta: number;
  in_channels: number;
}
export interface GeneratorFacts {
  folder: string;
  /** The weights of the transformer, in `folder/transformer`. */
  transformer: string[];
  /** The chat template, as the texts around a prompt. */
  template: [before: string, after: string];
  pad: number;
}
interface Settings {
  num_inference_steps: number;
  width: number;
  height: number;
  max_sequence_length: number;
}
interface Latents {
  time: number;
  rows: number;
  columns: number;
  /** tokens × channels */
  tokens: Float32Array;
}

/** The image model in memory. */
export class ImageModel {
  private readonly kept = new WeakMap<Pixels, Float32Array>();

  private constructor(
    private readonly facts: GeneratorFacts,
    private readonly config: Config,
    readonly settings: Settings,
    private readonly shift: number,
    private readonly encoding: BytePairEncoding,
    private readonly graphs: Record<"text" | "transformer" | "encoder" | "decoder", Graph>,
  ) {}

  static async load(library: Library, read: Read, facts: GeneratorFacts, characters: Characters): Promise<ImageModel> {
    const { folder } = facts;
    const open = (part: string, name: string, weights: readonly string[]) =>
      Graph.open(library, read, `${folder}/${part}`, name, weights);
    const scheduler = await readJson<{ shift: number }>(read, `${folder}/scheduler/scheduler_config.json`);
    return new ImageModel(
      facts,
      await readJson<Config>(read, `${folder}/transformer/config.json`),
      await readJson<Settings>(read, `${folder}/interleave.json`),
      scheduler.shift,
      new BytePairEncoding(await readJson(read, `${folder}/tokenizer/tokenizer.json`), characters),
      {
        text: await open("text_encoder", "text_encoder.onnx", ["model.safetensors"]),
        transformer: await open("transformer", "transformer.onnx", facts.transformer),
        encoder: await open("vae", "encoder.onnx", ["diffusion_pytorch_model.safetensors"]),
        decoder: await open("vae", "decoder.onnx", ["diffusion_pytorch_model.safetensors"]),
      },
    );
  }

  /** Draw one image; `pause` is called after each step of the sampler. */
  async draw(prompt: string, seed: number, sources: readonly Pixels[], pause: Pause): Promise<Pixels> {
    const { width, height, num_inference_steps: steps } = this.settings;
    const [rows, columns, channels] = [height / TOKEN_SIDE, width / TOKEN_SIDE, this.config.in_channels];
    const latents = packed(normalNoise(rows * columns * channels, seed), channels);
    const states = await this.encodePrompt(prompt);
    const length = this.settings.max_sequence_length;
    const fixed: Latents[] = [];
    for (const source of sources) fixed.push(await this.encodeSource(source, SOURCE_TIMES * (fixed.length + 1)));
    const places = [
      ...Array.from({ length }, (_, word) => [0, 0, 0, word]),
      ...placesOf(0, rows, columns),
      ...fixed.flatMap((each) => placesOf(each.time, each.rows, each.columns)),
    ];
    const rope = this.rope(places);
    const seen = joined([latents, ...fixed.map((each) => each.tokens)]);
    const sigmas = this.sigmas(steps);
    for (let step = 0; step < steps; step++) {
      const [velocity] = await this.graphs.transformer.run(
        floats(seen, 1, seen.length / channels, channels),
        floats(states, 1, length, states.length / length),
        floats(Float32Array.of(sigmas[step]!), 1),
        floats(rope, places.length, rope.length / places.length),
      );
      const change = Math.fround(sigmas[step + 1]! - sigmas[step]!);
      for (let index = 0; index < latents.length; index++) seen[index]! += Math.fround(change * velocity![index]!);
      await pause();
    }
    const grid = unpacked(seen.subarray(0, latents.length), channels);
    const [decoded] = await this.graphs.decoder.run(floats(grid, 1, channels, rows, columns));
    return { width, height, rgb: levels(decoded!, width * height) };
  }

  /** The text encoder's states, padded as in training. */
  private async encodePrompt(prompt: string): Promise<Float32Array> {
    const length = this.settings.max_sequence_length;
    const [before, after] = this.facts.template;
    const tokens = this.encoding.encode(before + prompt + after).slice(0, length);
    const ids = [...tokens, ...Array<number>(length - tokens.length).fill(this.facts.pad)];
    const mask = new Float32Array(length * length).fill(MASKED);
    for (let row = 0; row < length; row++) mask.fill(0, row * length, row * length + Math.min(row + 1, tokens.length));
    const [states] = await this.graphs.text.run(integers(ids, 1, length), floats(mask, 1, 1, length, length));
    return states!;
  }

  /** The latents of a source; every attempt at a step has the same one, so they are kept. */
  private async encodeSource(image: Pixels, time: number): Promise<Latents> {
    const { width, height, rgb } = image;
    let tokens = this.kept.get(image);
    if (!tokens) {
      const pixels = new Float32Array(rgb.length);
      for (let pixel = 0; pixel < width * height; pixel++)
        for (let colour = 0; colour < 3; colour++)
          pixels[colour * width * height + pixel] = 2 * Math.fround(rgb[pixel * 3 + colour]! / 255) - 1;
      const [latents] = await this.graphs.encoder.run(floats(pixels, 1, 3, height, width));
      tokens = packed(latents!, this.config.in_channels);
      this.kept.set(image, tokens);
    }
    return { time, rows: height / TOKEN_SIDE, columns: width / TOKEN_SIDE, tokens };
  }

  /** The noise level before each step, and 0 after the last. */
  private sigmas(steps: number): Float32Array {
    const shift = Math.fround(this.shift);
    const levels = Array.from({ length: steps }, (_, step) => {
      const even = Math.fround(steps > 1 ? 1 + (step * (1 / steps - 1)) / (steps - 1) : 1);
      return Math.fround(shift * even) / Math.fround(1 + Math.fround((shift - 1) * even));
    });
    return Float32Array.from([...levels, 0]);
  }

  /** Cosines and sines side by side, tokens × (2 × width). */
  private rope(places: readonly number[][]): Float32Array {
    const frequencies = this.config.axes_dims_rope.flatMap((width, axis) =>
      Array.from({ length: width }, (_, index) => ({ axis, value: 1 / this.config.rope_theta ** ((index - (index % 2)) / width) })),
    );
    const width = frequencies.length;
    const rope = new Float32Array(places.length * 2 * width);
    places.forEach((place, token) =>
      frequencies.forEach(({ axis, value }, index) => {
        const angle = place[axis]! * value;
        rope[token * 2 * width + index] = Math.cos(angle);
        rope[token * 2 * width + width + index] = Math.sin(angle);
      }),
    );
    return rope;
  }
}

/** The places of a grid of tokens: time, row, column, word. */
function placesOf(time: number, rows: number, columns: number): number[][] {
  return Array.from({ length: rows * columns }, (_, token) => [time, Math.floor(token / columns), token % columns, 0]);
}

/** Latents as tokens: channels × tokens → tokens × channels. */
function packed(latents: Float32Array, channels: number): Float32Array {
  return transposed(latents, channels);
}

function unpacked(tokens: Float32Array, channels: number): Float32Array {
  return transposed(tokens, tokens.length / channels);
}

function transposed(values: Float32Array, rows: number): Float32Array {
  const columns = values.length / rows;
  const turned = new Float32Array(values.length);
  for (let row = 0; row < rows; row++)
    for (let column = 0; column < columns; column++) turned[column * rows + row] = values[row * columns + column]!;
  return turned;
}

function joined(pieces: readonly Float32Array[]): Float32Array {
  const all = new Float32Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let end = 0;
  for (const piece of pieces) {
    all.set(piece, end);
    end += piece.length;
  }
  return all;
}

/** Pixels from -1 to 1, colour by colour, as levels from 0 to 255, pixel by pixel. */
function levels(pixels: Float32Array, area: number): Uint8Array {
  const rgb = new Uint8Array(pixels.length);
  for (let colour = 0; colour < 3; colour++)
    for (let pixel = 0; pixel < area; pixel++) {
      const value = Math.fround(pixels[colour * area + pixel]! * 0.5 + 0.5);
      if (Number.isNaN(value)) throw new Error("the generator computed no number");
      rgb[pixel * 3 + colour] = roundedEven(Math.fround(Math.min(Math.max(value, 0), 1) * 255));
    }
  return rgb;
}

/** The nearest whole number, and of two the even one, as numpy rounds. */
function roundedEven(value: number): number {
  const low = Math.floor(value);
  return value - low === 0.5 ? low + (low % 2) : Math.round(value);
}
