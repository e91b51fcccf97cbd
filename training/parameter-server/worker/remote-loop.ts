import type * as tfjs from '@tensorflow/tfjs';
import { separatePart } from '../../model/separate-gradients.ts';
import type { StepPart } from '../../model/step-part.ts';
import { localGradients } from '../../strategy/local-gradients.ts';
import { RemoteVariables } from './remote-variables.ts';
import { ServerGroup, type WorkerOptions } from './server-group.ts';

interface Open {
  readonly servers: ServerGroup;
  readonly remote: RemoteVariables;
}

/** Returns this worker's part of a step. The part has weight 1, because workers do not average their gradients. */
export function partOf(tf: typeof tfjs, loss: () => tfjs.Scalar, examples: number | undefined): StepPart {
  return examples === 0 ? separatePart(tf, null, 0) : separatePart(tf, () => ({ loss: loss(), metrics: [] }), 1);
}

/**
 * Takes custom steps. All custom steps between two calls to `fit` form one run on the servers. Each step registers the variables and
 * optimizers that the servers do not have yet.
 */
export class RemoteLoop {
  readonly #tf: typeof tfjs;
  readonly #options: WorkerOptions;
  readonly #run: number;
  #open: Promise<Open> | null = null;
  #servers: ServerGroup | null = null;
  #steps = 0;

  constructor(tf: typeof tfjs, options: WorkerOptions, run: number) {
    this.#tf = tf;
    this.#options = options;
    this.#run = run;
  }

  /**
   * @param variables the variables to train. Variables of types other than float32 are ignored.
   * @param examples the number of this worker's examples. If the number is 0, the step does not call `loss`, and the servers' values stay
   *   unchanged.
   */
  async step(
    loss: () => tfjs.Scalar,
    optimizer: tfjs.Optimizer,
    variables: readonly tfjs.Variable[],
    examples: number | undefined,
  ): Promise<number> {
    this.#open ??= this.#begin();
    const { remote } = await this.#open;
    const trained = variables.filter(({ dtype }) => dtype === 'float32');
    await remote.enter({ optimizer, variables: trained });
    if (this.#steps === 0) {
      await remote.pull({ now: false });
    }
    const part = partOf(this.#tf, loss, examples);
    const { gradients, values } = localGradients(this.#tf, trained, [part]);
    const [value = 0] = values.read();
    try {
      await remote.push(optimizer, gradients);
    } finally {
      this.#tf.dispose(gradients ?? []);
    }
    this.#steps++;
    return value;
  }

  /** Waits until all workers have ended their custom steps, then pulls the final values. */
  async finish(): Promise<void> {
    if (this.#open === null) {
      return;
    }
    const { servers, remote } = await this.#open;
    await remote.assign();
    await servers.askAll(() => ({ head: { ask: 'finish', position: null } }));
    await remote.pull({ now: true, all: true });
    await remote.pullOptimizers();
    servers.close(true);
  }

  async #begin(): Promise<Open> {
    const { rank, staleness } = this.#options;
    const servers = await ServerGroup.open(this.#options, this.#run);
    this.#servers = servers;
    const remote = new RemoteVariables({ tf: this.#tf, rank, servers, staleness });
    if (rank === 0 && (await remote.needsPreparing())) {
      await remote.prepare(null, null, null);
      await remote.open();
    }
    await remote.join();
    return { servers, remote };
  }

  close(): void {
    this.#servers?.close(true);
  }
}
