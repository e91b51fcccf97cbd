import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type * as tfjs from '@tensorflow/tfjs';
import type { NativeBackend } from '../backend/native/native-backend.ts';
import { encodeSavedModel } from '../export/encode-saved-model.ts';
import { artifactsOf, signatureOf } from '../export/graph-artifacts.ts';
import { SAVED_MODEL_FILE } from '../export/saved-model.ts';
import type { Recording } from './recorder.ts';

/** A recorded computation that TensorFlow runs as one graph. */
export class GraphSession {
  readonly #native: NativeBackend;
  readonly #id: number;
  readonly #inputs: readonly string[];
  readonly #outputs: readonly string[];

  /** @throws an error of TensorFlow if the graph is not valid */
  constructor(native: NativeBackend, { graph, inputs, outputs, values }: Recording, given: readonly tfjs.Tensor[]) {
    this.#native = native;
    [this.#inputs, this.#outputs] = [inputs, outputs].map((names) => names.map((name) => `${name}:0`)) as [string[], string[]];
    const described = (names: readonly string[], tensors: readonly tfjs.Tensor[]) =>
      signatureOf(names.map((name, index) => ({ name, ...(tensors[index] as tfjs.Tensor) })));
    const file = encodeSavedModel(artifactsOf(native.tf, graph, described(inputs, given), described(outputs, values)));
    // TensorFlow loads graphs only from files, and does not need the file after loading.
    const folder = mkdtempSync(path.join(tmpdir(), 'tony-ts-graph-'));
    try {
      writeFileSync(path.join(folder, SAVED_MODEL_FILE), file);
      this.#id = native.loadGraph(folder);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }

  /** @param inputs tensors with the shapes of the recording */
  run(inputs: readonly tfjs.Tensor[]): tfjs.Tensor[] {
    return this.#native.runGraph(this.#id, inputs, this.#inputs, this.#outputs);
  }

  dispose(): void {
    this.#native.deleteGraph(this.#id);
  }
}
