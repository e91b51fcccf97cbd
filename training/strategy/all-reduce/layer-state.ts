import type * as tfjs from '@tensorflow/tfjs';
import { MovingAverages } from '../../model/moving-averages.ts';
import { movingAveragesOf } from '../../model/trainables.ts';
import type { Ring } from '../../ring/ring.ts';
import { differingVariables } from './verify-equal.ts';

/**
 * Non-trainable variables that layers update from their inputs: batch normalisation's moving averages, and the state of custom layers. Each
 * rank processes different examples, so the ranks average these variables before each checkpoint. Variables that are equal on all ranks
 * stay unchanged.
 */
export class LayerState {
  readonly #tf: typeof tfjs;
  readonly #ring: Ring;
  readonly #variables: readonly tfjs.Variable[];
  readonly #averages: ReadonlySet<tfjs.Variable>;
  readonly #onNotice: (message: string) => void;
  #hasNoticed = false;

  constructor(
    tf: typeof tfjs,
    ring: Ring,
    models: readonly tfjs.LayersModel[],
    variables: readonly tfjs.Variable[],
    onNotice: (message: string) => void,
  ) {
    this.#tf = tf;
    this.#ring = ring;
    this.#variables = variables;
    this.#averages = new Set(models.flatMap(movingAveragesOf));
    this.#onNotice = onNotice;
  }

  async agree(): Promise<void> {
    const differing = await differingVariables(this.#ring, this.#variables);
    if (differing.length === 0) {
      return;
    }
    const averages = new MovingAverages(this.#tf, differing);
    const numbers = new Float32Array(averages.size);
    averages.read(numbers, 1 / this.#ring.worldSize);
    await this.#ring.allReduce(numbers);
    averages.write(numbers);
    this.#noticeOf(differing.filter((variable) => !this.#averages.has(variable)));
  }

  #noticeOf(ownState: readonly tfjs.Variable[]): void {
    if (ownState.length > 0 && this.#ring.rank === 0 && !this.#hasNoticed) {
      this.#hasNoticed = true;
      const names = ownState.map(({ name }) => name).join(', ');
      this.#onNotice(
        `layers update ${names} from each rank's own examples; checkpoints and the trained model hold the mean over the ranks, so the result depends on the number of ranks`,
      );
    }
  }
}
