import type { StoredTensor } from '../../../contract/checkpoint/checkpoint-format.ts';
import type { ServerGroup } from './server-group.ts';

/** The minimum interval in ms between uploads. Uploads may be large. */
const UPDATE_MS = 2000;

export interface FixedContent {
  /** Values that differ after a change of the content. A variable's data ID changes with each assignment. */
  readonly marks: () => readonly unknown[];
  readonly capture: () => Promise<StoredTensor[]>;
  readonly restore: (tensors: readonly StoredTensor[]) => Promise<void>;
}

/**
 * State that the servers do not update: the non-trainable weights, including moving averages that layers update, the program's own variables,
 * and the optimizer's hyperparameters. The chief stores its weights on server 0. If a worker is
 * replaced, its new process starts with the weights last uploaded by the chief. At the end of the run, all workers copy the chief's
 * weights.
 */
export class FixedWeights {
  readonly #content: FixedContent;
  #sentAt = 0;
  /** The marks at the last upload. */
  #sent: readonly unknown[] = [];

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
    await this.#content.restore(await servers.get(0, when));
    this.#noteSent();
  }

  /** Uploads the current weights if they have changed. Call this method only on the chief. */
  async update(servers: ServerGroup): Promise<void> {
    if (this.#content.marks().some((mark, index) => mark !== this.#sent[index])) {
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
    this.#sent = this.#content.marks();
  }
}
