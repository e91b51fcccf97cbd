import type * as tfjs from '@tensorflow/tfjs';
import type { TrainingPosition } from '../../../contract/checkpoint/checkpoint-format.ts';
import { type Peers, peersOfRing } from '../../ring/peers.ts';
import type { Ring } from '../../ring/ring.ts';
import { firstText, gatherTexts } from '../../ring/ring-bytes.ts';
import type { CustomStepOptions } from '../custom-step-options.ts';
import type { LoopContext, LoopStrategy } from '../loop-strategy.ts';
import type { CustomSteps } from './custom-steps.ts';
import { LayerState } from './layer-state.ts';
import { RingCheckpoints } from './ring-checkpoints.ts';
import { verifyEqual } from './verify-equal.ts';

export class RingLoop implements LoopStrategy {
  readonly peers: Peers;
  readonly #ring: Ring;
  readonly #steps: CustomSteps;
  readonly #context: LoopContext;
  readonly #checkpoints: RingCheckpoints;
  readonly #layerState: LayerState;
  readonly #stepped = new WeakSet<tfjs.Optimizer>();

  constructor(ring: Ring, steps: CustomSteps, context: LoopContext) {
    this.peers = peersOfRing(ring);
    this.#ring = ring;
    this.#steps = steps;
    this.#context = context;
    this.#checkpoints = new RingCheckpoints(ring, context, context.state);
    const { models, untrained } = context.state;
    this.#layerState = new LayerState(context.tf, ring, [...models.values()], untrained, context.onNotice);
  }

  async begin(): Promise<TrainingPosition | null> {
    const { variables, optimizers } = this.#context.state;
    this.#context.state.begin();
    const position = await this.#checkpoints.begin();
    this.#steps.markEqual([...variables, ...optimizers]);
    return position;
  }

  async step(loss: () => tfjs.Scalar, optimizer: tfjs.Optimizer, options: CustomStepOptions): Promise<number> {
    const value = await this.#steps.step(loss, optimizer, options);
    if (!this.#stepped.has(optimizer)) {
      this.#stepped.add(optimizer);
      // A custom optimizer creates its slots in its first step.
      this.#checkpoints.requireReadable();
    }
    return value;
  }

  async agree(end: string | null, checkpoint: boolean): Promise<{ readonly end: string | null; readonly checkpoint: boolean }> {
    const wishes = Float32Array.of(end === null ? 0 : 1, checkpoint ? 1 : 0);
    await this.#ring.allReduce(wishes);
    const isWanted = (wishes[1] ?? 0) > 0;
    if (wishes[0] === 0) {
      return { end: null, checkpoint: isWanted };
    }
    return { end: firstText(await gatherTexts(this.#ring, end ?? '')), checkpoint: isWanted };
  }

  async afterStep(): Promise<void> {}

  async checkpoint(position: () => Promise<TrainingPosition>): Promise<void> {
    const taken = await position();
    await this.#settle(taken.step);
    await this.#checkpoints.record(taken);
  }

  async stored(): Promise<void> {
    await this.#checkpoints.stored();
  }

  async finish(position: () => Promise<TrainingPosition>, afterwards: Promise<void>): Promise<void> {
    const last = await position();
    await this.#settle(last.step);
    await this.#checkpoints.finish(last, afterwards);
  }

  async #settle(step: number): Promise<void> {
    await this.#layerState.agree();
    const named = this.#context.state.named().map(({ name, variable }) => {
      return { name, dtype: variable.dtype, dataSync: () => variable.dataSync() };
    });
    await verifyEqual(this.#ring, named, `at the checkpoint of step ${step}`);
  }

  dispose(): void {
    this.#checkpoints.dispose();
  }
}
