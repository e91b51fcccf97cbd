import type * as tfjs from '@tensorflow/tfjs';
import type { StoredTensor } from '../../checkpoint/checkpoint-format.ts';
import type { ServerGroup } from './server-group.ts';

/** The minimum interval in ms between uploads. Uploads may be large. */
const UPDATE_MS = 2000;

export interface FixedContent {
  readonly variables: readonly tfjs.Variable[];
  readonly capture: () => Promise<StoredTensor[]>;
  readonly restore: (tensors: readonly StoredTensor[]) => void;
}

/**
 * The non-trainable weights, including moving averages that layers update. The chief stores its weights on server 0. If a worker is
 * replaced, its new process starts with the weights last uploaded by the chief. At the end of the run, all workers copy the chief's
 * weights.
 */
export class FixedWeights {
  readonly #content: FixedContent;
  #sentAt = 0;
  /**
   * The weights' data IDs at the last upload. Each assignment gives a variable a new data ID, so a different data ID means that the weight
   * has changed.
   */
  #sent: readonly object[] = [];

  constructor(content: FixedContent) {
    this.#content = content;
  }

  async capture(): Promise<StoredTensor[]> {
    return await this.#content.capture();
  }

  async put(servers: ServerGroup, when: 'current' | 'last', tensors?: readonly StoredTensor[]): Promise<void> {
    await servers.put(0, when, tensors ?? (await this.capture()));
  }

  /** Waits until the chief has stored the weights, then copies them to this worker's variables. */
  async take(servers: ServerGroup, when: 'current' | 'last'): Promise<void> {
    this.#content.restore(await servers.get(0, when));
    this.#noteSent();
  }

  /** Uploads the current weights if they have changed. Call this method only on the chief. */
  async update(servers: ServerGroup): Promise<void> {
    if (this.#content.variables.some(({ dataId }, index) => dataId !== this.#sent[index])) {
      this.#noteSent();
      await this.put(servers, 'current');
    }
  }

  async updateIfDue(servers: ServerGroup): Promise<void> {
    if (performance.now() - this.#sentAt >= UPDATE_MS) {
      await this.update(servers);
    }
  }

  #noteSent(): void {
    this.#sentAt = performance.now();
    this.#sent = this.#content.variables.map(({ dataId }) => dataId);
  }
}
