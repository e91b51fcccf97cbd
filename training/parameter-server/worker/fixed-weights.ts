import type * as tfjs from '@tensorflow/tfjs';
import type { StoredTensor } from '../../checkpoint/checkpoint-format.ts';
import type { ServerGroup } from './server-group.ts';

/** The minimum interval between uploads of changed weights, in ms. The weights may be large. */
const UPDATE_MS = 2000;

export interface FixedContent {
  readonly variables: readonly tfjs.Variable[];
  readonly capture: () => Promise<StoredTensor[]>;
  readonly restore: (tensors: readonly StoredTensor[]) => void;
}

/**
 * The weights that are not trained, including weights that layers update themselves (moving averages). The chief stores its values on
 * server 0. During the run, it stores the current values, from which a worker's replacement continues. At the end, it stores the last
 * values, which all workers adopt.
 */
export class FixedWeights {
  readonly #content: FixedContent;
  #sentAt = 0;
  /**
   * The data IDs of the weights that server 0 last received. Each assignment gives a variable a new data ID, so a different ID means that
   * the weight has changed.
   */
  #sent: readonly object[] = [];

  constructor(content: FixedContent) {
    this.#content = content;
  }

  async capture(): Promise<StoredTensor[]> {
    return await this.#content.capture();
  }

  /** Called on the chief: stores the weights on server 0. */
  async put(servers: ServerGroup, when: 'current' | 'last', tensors?: readonly StoredTensor[]): Promise<void> {
    await servers.put(0, nameOf(when), tensors ?? (await this.capture()));
  }

  /** Waits until the chief has stored the weights, then copies the weights into this worker's variables. */
  async take(servers: ServerGroup, when: 'current' | 'last'): Promise<void> {
    this.#content.restore(await servers.get(0, nameOf(when)));
    this.#noteSent();
  }

  /** Called on the chief: uploads the current weights if they have changed. */
  async update(servers: ServerGroup): Promise<void> {
    if (this.#content.variables.some(({ dataId }, index) => dataId !== this.#sent[index])) {
      this.#noteSent();
      await this.put(servers, 'current');
    }
  }

  /** Calls `update` unless the last upload was less than UPDATE_MS ago. */
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

function nameOf(when: 'current' | 'last'): string {
  return when === 'current' ? 'weights that are not trained' : 'weights that are not trained, at the end';
}
