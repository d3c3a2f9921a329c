/** ONNX graphs with the weights beside them, computed by onnxruntime-web. */

import type * as Ort from "onnxruntime-web/wasm";
import type { Read } from "./files";

export type Library = typeof Ort;
export interface Values {
  data: Float32Array | BigInt64Array;
  shape: readonly number[];
}

export function floats(data: Float32Array, ...shape: number[]): Values {
  return { data, shape };
}

export function integers(data: ArrayLike<number>, ...shape: number[]): Values {
  return { data: BigInt64Array.from(data as number[], BigInt), shape };
}

/** One graph in memory. */
export class Graph {
  /** The library lays the weights of all graphs in one place while it opens one, so they are opened in turn. */
  private static turn: Promise<unknown> = Promise.resolve();

  private constructor(
    private readonly library: Library,
    private readonly session: Ort.InferenceSession,
  ) {}

  /** Open `folder/name`, whose weights lie in the files `weights` of the same folder. */
  static async open(library: Library, read: Read, folder: string, name: string, weights: readonly string[]): Promise<Graph> {
    const externalData = await Promise.all(
      weights.map(async (path) => ({ path, data: await read(`${folder}/${path}`) })),
    );
    const graph = await read(`${folder}/${name}`);
    const create = () =>
      library.InferenceSession.create(graph, {
        executionProviders: ["wasm"],
        logSeverityLevel: 4, // errors are thrown
        externalData,
      });
    const session = Graph.turn.then(create);
    Graph.turn = session.catch(() => undefined);
    return new Graph(library, await session);
  }

  /** The outputs for these inputs, both in the order of the graph. */
  async run(...inputs: Values[]): Promise<Float32Array[]> {
    const feeds: Record<string, Ort.Tensor> = {};
    this.session.inputNames.forEach((name, place) => {
      const { data, shape } = inputs[place]!;
      feeds[name] =
        data instanceof Float32Array
          ? new this.library.Tensor("float32", data, shape)
          : new this.library.Tensor("int64", data, shape);
    });
    const found = await this.session.run(feeds);
    return this.session.outputNames.map((name) => found[name]!.data as Float32Array);
  }
}
