import type * as tfjs from '@tensorflow/tfjs';
import { TonyError } from '../../../platform/errors.ts';
import { broadcastTensors, broadcastVariables } from '../../model/broadcast-tensors.ts';
import { captureOptimizer, checkOptimizer, RANK_0, requireReadable, restoreOptimizer } from '../../model/optimizer-state.ts';
import { separatePart } from '../../model/separate-gradients.ts';
import { allTrainable, type TrainedVariables, trainedVariables } from '../../model/trainables.ts';
import { setIterations } from '../../optimizer/optimizer-members.ts';
import type { Ring } from '../../ring/ring.ts';
import { gatherTexts } from '../../ring/ring-bytes.ts';
import type { Wire } from '../../ring/ring-exchange.ts';
import type { CustomStepOptions } from '../custom-step-options.ts';
import { Stepper } from './step.ts';

/** The resources shared by all steps that use the same optimizer and the same variables. */
interface Plan extends TrainedVariables {
  readonly optimizer: tfjs.Optimizer;
  readonly stepper: Stepper;
}

/** The maximum number of plans. Each plan has a buffer for the gradients of its variables. */
const MAX_PLANS = 8;

/**
 * Takes synchronous steps for a custom training loop. The loop may use any loss, several optimizers, and different variables in each step.
 * Every rank must make the same calls. Before the first step with a variable or an optimizer, all ranks receive rank 0's values.
 */
export class CustomSteps {
  readonly #tf: typeof tfjs;
  readonly #ring: Ring;
  readonly #wire: Wire;
  /** The plans, most recently used first. */
  readonly #plans: Plan[] = [];
  readonly #shared = new WeakSet<object>();
  readonly #optimizers = new Set<tfjs.Optimizer>();

  constructor(tf: typeof tfjs, ring: Ring, wire: Wire) {
    this.#tf = tf;
    this.#ring = ring;
    this.#wire = wire;
  }

  /**
   * Takes one step on all ranks.
   * @returns the mean of the ranks' losses, weighted by each rank's number of examples.
   * @throws TonyError USAGE, RANKS_MISMATCH, PEER_LOST, RING_MISMATCH.
   */
  async step(loss: () => tfjs.Scalar, optimizer: tfjs.Optimizer, options: CustomStepOptions): Promise<number> {
    const plan = await this.#planOf(optimizer, this.#resolve(optimizer, options));
    const weight = await this.#weightOf(options.examples);
    const compute = weight === 0 ? null : () => ({ loss: loss(), metrics: [] });
    const values = await plan.stepper.run([separatePart(this.#tf, compute, weight)]);
    return values.read()[0] ?? 0;
  }

  /** Marks variables and optimizers that are already equal on all ranks. */
  markEqual(shared: readonly object[]): void {
    for (const each of shared) {
      this.#shared.add(each);
    }
  }

  /** Frees the backend memory used by steps. Variables and optimizers keep their state. */
  dispose(): void {
    for (const { stepper } of this.#plans.splice(0)) {
      stepper.dispose();
    }
  }

  #resolve(optimizer: tfjs.Optimizer, { variables }: CustomStepOptions): TrainedVariables {
    const tf = this.#tf;
    if (variables !== undefined) {
      return trainedVariables(tf, variables);
    }
    this.#optimizers.add(optimizer);
    for (const each of this.#optimizers) {
      if (each !== optimizer && !Object.values(each).some((value) => value instanceof tf.Variable && !value.isDisposed)) {
        this.#optimizers.delete(each);
      }
    }
    return trainedVariables(tf, allTrainable(tf, this.#optimizers));
  }

  async #weightOf(examples: number | undefined): Promise<number> {
    if (examples === undefined) {
      return 1 / this.#ring.worldSize;
    }
    const sum = Float32Array.of(examples);
    await this.#ring.allReduce(sum);
    const [all = 0] = sum;
    if (all === 0) {
      throw new TonyError('USAGE', 'no rank has examples for this step', { hint: 'End the loop when the data has ended on every rank.' });
    }
    return examples / all;
  }

  async #planOf(optimizer: tfjs.Optimizer, trained: TrainedVariables): Promise<Plan> {
    const index = this.#plans.findIndex((plan) => {
      return plan.optimizer === optimizer && areSame(plan.variables, trained.variables) && areSame(plan.moving, trained.moving);
    });
    const [found] = index < 0 ? [] : this.#plans.splice(index, 1);
    const plan = found ?? (await this.#open(optimizer, trained));
    this.#plans.unshift(plan);
    return plan;
  }

  async #open(optimizer: tfjs.Optimizer, trained: TrainedVariables): Promise<Plan> {
    this.#close(({ variables }) => variables.some(({ isDisposed }) => isDisposed));
    this.#close((_, index) => index >= MAX_PLANS - 1);
    await this.#checkShapes(trained.variables);
    await this.#share(optimizer, trained);
    const stepper = new Stepper(this.#tf, this.#ring, optimizer, trained.variables, { wire: this.#wire, moving: trained.moving });
    return { optimizer, ...trained, stepper };
  }

  #close(isOver: (plan: Plan, index: number) => boolean): void {
    for (const plan of this.#plans.filter(isOver)) {
      plan.stepper.dispose();
      this.#plans.splice(this.#plans.indexOf(plan), 1);
    }
  }

  async #checkShapes(variables: readonly tfjs.Variable[]): Promise<void> {
    if (this.#ring.worldSize === 1) {
      return;
    }
    const own = variables.map(({ name, dtype, shape }) => ({ name, type: `${dtype} [${shape}]` }));
    const all = (await gatherTexts(this.#ring, JSON.stringify(own))).map((text) => JSON.parse(text) as typeof own);
    const [first = []] = all;
    for (const [rank, others] of all.entries()) {
      const at = Array.from({ length: Math.max(first.length, others.length) }, (_, index) => index).find((index) => {
        return first[index]?.type !== others[index]?.type;
      });
      if (at !== undefined) {
        const describe = (each: (typeof own)[number] | undefined) => (each === undefined ? 'missing' : `${each.name}, ${each.type}`);
        throw new TonyError(
          'RANKS_MISMATCH',
          `the ranks train different variables: variable ${at} is ${describe(first[at])} on rank 0, but ${describe(others[at])} on rank ${rank}`,
          { hint: 'Build the same model and pass the same variables in the same order on every rank.' },
        );
      }
    }
  }

  /** Broadcasts rank 0's variables and optimizer unless they are already equal on all ranks. */
  async #share(optimizer: tfjs.Optimizer, { variables, moving }: TrainedVariables): Promise<void> {
    const isNew = (each: object) => !this.#shared.has(each);
    const unshared = [...variables, ...moving].filter(isNew);
    const withOptimizer = isNew(optimizer);
    if (this.#ring.worldSize === 1 || (unshared.length === 0 && !withOptimizer)) {
      return;
    }
    await broadcastVariables(this.#tf, this.#ring, unshared);
    if (withOptimizer) {
      await this.#shareOptimizer(optimizer, variables);
    }
    for (const each of [...unshared, optimizer]) {
      this.#shared.add(each);
    }
  }

  /** Broadcasts rank 0's optimizer state, which may contain slots from a checkpoint. */
  async #shareOptimizer(optimizer: tfjs.Optimizer, variables: readonly tfjs.Variable[]): Promise<void> {
    const [tf, ring] = [this.#tf, this.#ring];
    requireReadable(tf, optimizer, variables);
    const { iterations } = optimizer;
    const own = ring.rank === 0 ? { head: { iterations }, tensors: await captureOptimizer(tf, optimizer, variables) } : null;
    const { head, tensors } = await broadcastTensors(ring, own);
    if (ring.rank > 0) {
      checkOptimizer(optimizer, tensors, RANK_0.where);
      await restoreOptimizer(tf, optimizer, variables, tensors, RANK_0);
      setIterations(optimizer, head.iterations);
    }
  }
}

function areSame(one: readonly tfjs.Variable[], other: readonly tfjs.Variable[]): boolean {
  return one.length === other.length && one.every((variable, index) => variable === other[index]);
}
