import type * as tfjs from '@tensorflow/tfjs';
import { type LayerTree, layersOf } from '../../backend/backend.ts';
import type { Ring } from '../../ring/ring.ts';
import { SyncRing } from '../../ring/sync-ring.ts';

/** The members of TensorFlow.js's BatchNormalization layer that this file uses. */
interface BatchNormLayer extends LayerTree {
  readonly axis: number;
  readonly momentum: number;
  readonly epsilon: number;
  readonly gamma?: Weight | null;
  readonly beta?: Weight | null;
  readonly movingMean: Weight;
  readonly movingVariance: Weight;
  call(inputs: tfjs.Tensor | tfjs.Tensor[], kwargs: { training?: boolean }): tfjs.Tensor;
}

interface Weight {
  readonly shape: readonly number[];
  read(): tfjs.Variable;
  write(value: tfjs.Tensor): void;
}

interface Moments {
  readonly count: number;
  readonly mean: Float32Array;
  /** The population variance: the mean of the squared deviations. */
  readonly variance: Float32Array;
}

/**
 * Synchronised batch normalisation: layers normalise their inputs using the mean and variance over all ranks' examples. N ranks with
 * batches of B examples therefore train the same model as one rank with batches of N * B examples. The forward pass merges the ranks'
 * moments (Chan, Golub and LeVeque, 1979). The gradient is
 *
 *   dx = gamma / sqrt(variance + epsilon) (dy - sum(dy) / m - x^ sum(dy x^) / m)
 *
 * where x^ is the normalised input, m is the number of values per channel on all ranks, and each sum is over these m values.
 *
 * Each layer exchanges a small vector twice per step. The exchanges block the thread, because TensorFlow.js computes gradients
 * synchronously.
 */
export class SyncBatchNorm {
  readonly #tf: typeof tfjs;
  readonly #ring: SyncRing;
  readonly #rank: number;
  readonly #worldSize: number;
  readonly #model: tfjs.LayersModel;
  readonly #layers: readonly BatchNormLayer[];
  /** True during a step in which this rank has no examples and contributes only zeros. */
  #isEmpty = false;

  private constructor(tf: typeof tfjs, ring: Ring, sync: SyncRing, model: tfjs.LayersModel, layers: readonly BatchNormLayer[]) {
    this.#tf = tf;
    this.#ring = sync;
    this.#rank = ring.rank;
    this.#worldSize = ring.worldSize;
    this.#model = model;
    this.#layers = layers;
    for (const layer of layers) {
      const own = layer.call;
      layer.call = (inputs, kwargs) =>
        kwargs.training ? this.#call(layer, [inputs].flat()[0] as tfjs.Tensor) : own.call(layer, inputs, kwargs);
    }
  }

  /**
   * Replaces the `call` method of the model's batch normalisation layers. Every rank must call this function with the same model.
   * @returns null if the model has no such layers or there is only one rank. If synchronisation is impossible, returns the reason as a
   *   clause to follow "because". All ranks get the same result.
   */
  static async install(tf: typeof tfjs, ring: Ring, model: tfjs.LayersModel): Promise<SyncBatchNorm | string | null> {
    const layers = [...layersOf(model as unknown as LayerTree)].filter(
      (layer): layer is BatchNormLayer => layer.getClassName() === 'BatchNormalization',
    );
    if (ring.worldSize === 1 || layers.length === 0) {
      return null;
    }
    const repeated = [...layersOf(model as unknown as LayerTree)].filter((layer) => layer.getClassName() === 'TimeDistributed');
    if (repeated.some((layer) => [...layersOf(layer)].some((inner) => layers.includes(inner as BatchNormLayer)))) {
      return 'a TimeDistributed layer calls a batch normalisation layer a different number of times on each rank';
    }
    const channels = Math.max(...layers.map(({ movingMean }) => movingMean.shape[0] as number));
    const sync = await SyncRing.open(ring, ring.worldSize * (2 * channels + 1));
    return sync === null
      ? 'a rank cannot block its thread or cannot start a worker thread'
      : new SyncBatchNorm(tf, ring, sync, model, [...new Set(layers)]);
  }

  uninstall(): void {
    for (const layer of this.#layers) {
      // Removes the replacement, so that the class's own method is called again.
      Reflect.deleteProperty(layer, 'call');
    }
    this.#ring.close();
  }

  /** Takes part in the exchanges of a step in which this rank has no examples. */
  runWithoutExamples(variables: readonly tfjs.Variable[]): void {
    const tf = this.#tf;
    this.#isEmpty = true;
    try {
      const { value, grads } = tf.variableGrads(() => {
        const inputs = this.#model.inputs.map(({ shape }) => tf.zeros(shape.map((size, axis) => (axis === 0 ? 1 : (size ?? ANY_SIZE)))));
        const outputs = [this.#model.apply(inputs, { training: true })].flat() as tfjs.Tensor[];
        return tf.addN(outputs.map((output) => tf.sum(output))) as tfjs.Scalar;
      }, [...variables]);
      tf.dispose([value, grads]);
    } finally {
      this.#isEmpty = false;
    }
  }

  #call(layer: BatchNormLayer, input: tfjs.Tensor): tfjs.Tensor {
    const tf = this.#tf;
    return tf.tidy(() => {
      const axis = layer.axis < 0 ? layer.axis + input.rank : layer.axis;
      const isLast = axis === input.rank - 1;
      const others = input.shape.map((_, index) => index).filter((index) => index !== axis);
      const last = isLast ? input : tf.transpose(input, [...others, axis]);
      const channels = input.shape[axis] as number;
      const gamma = layer.gamma?.read() ?? tf.ones([channels]);
      const beta = layer.beta?.read() ?? tf.zeros([channels]);
      const { output, moments } = this.#normalise(tf.reshape(last, [-1, 1, 1, channels]), gamma, beta, layer.epsilon);
      this.#move(layer.movingMean, moments.mean, layer.momentum);
      this.#move(layer.movingVariance, moments.variance, layer.momentum);
      const shaped = tf.reshape(output, last.shape);
      // Moves the channel axis back to its place. The permutation maps each axis of the input to its index in `shaped`.
      return isLast
        ? shaped
        : tf.transpose(
            shaped,
            input.shape.map((_, index) => (index === axis ? input.rank - 1 : others.indexOf(index))),
          );
    });
  }

  #normalise(input: tfjs.Tensor, gamma: tfjs.Tensor, beta: tfjs.Tensor, epsilon: number): { output: tfjs.Tensor; moments: Moments } {
    const tf = this.#tf;
    let moments: Moments | null = null;
    const normalise = tf.customGrad((...given) => {
      const [x, scale, offset, save] = given as unknown as [tfjs.Tensor4D, tfjs.Tensor1D, tfjs.Tensor1D, tfjs.GradSaveFunc];
      const merged = this.#mergeMoments(x);
      moments = merged;
      const [mean, variance] = [tf.tensor1d(merged.mean), tf.tensor1d(merged.variance)];
      save([x, scale, mean, variance]);
      const value = tf.batchNorm(x, mean, variance, offset, scale, epsilon);
      const gradFunc = (dy: tfjs.Tensor, saved: tfjs.Tensor[]) => this.#gradients(dy, saved, epsilon, merged.count);
      return { value, gradFunc };
    });
    const output = normalise(input, gamma, beta);
    return { output, moments: moments as unknown as Moments };
  }

  #mergeMoments(x: tfjs.Tensor4D): Moments {
    const tf = this.#tf;
    const channels = x.shape[3];
    const row = 2 * channels + 1;
    // Each rank fills only its own row, so the sum over the ranks contains all rows exactly.
    const rows = new Float32Array(this.#worldSize * row);
    if (!this.#isEmpty) {
      const { mean, variance } = tf.moments(x, [0, 1, 2]);
      const at = this.#rank * row;
      rows[at] = x.shape[0];
      rows.set(mean.dataSync(), at + 1);
      rows.set(variance.dataSync(), at + 1 + channels);
    }
    this.#ring.sum(rows);
    return mergeMoments(rows, this.#worldSize, channels);
  }

  #gradients(dy: tfjs.Tensor, saved: readonly tfjs.Tensor[], epsilon: number, count: number): tfjs.Tensor[] {
    const tf = this.#tf;
    const [x, scale, mean, variance] = saved as [tfjs.Tensor4D, tfjs.Tensor1D, tfjs.Tensor1D, tfjs.Tensor1D];
    // TensorFlow.js or the native kernel computes the gradients for constant mean and variance: dy gamma / sqrt(...), sum(dy x^) and
    // sum(dy).
    const fixed = tf.getGradient('FusedBatchNorm').gradFunc(dy, [x, mean, variance, scale], { varianceEpsilon: epsilon });
    const forScale = tf.reshape((fixed.scale as () => tfjs.Tensor)(), scale.shape);
    const forOffset = tf.reshape((fixed.offset as () => tfjs.Tensor)(), scale.shape);
    const channels = scale.size;
    const sums = new Float32Array(2 * channels);
    if (!this.#isEmpty) {
      sums.set(forScale.dataSync());
      sums.set(forOffset.dataSync(), channels);
    }
    this.#ring.sum(sums);
    const inverse = tf.rsqrt(tf.add(variance, epsilon));
    const factor = tf.mul(scale, inverse);
    // The remaining terms of dx are linear in x: slope * x + intercept.
    const slope = tf.mul(tf.mul(factor, inverse), tf.tensor1d(sums.subarray(0, channels).map((sum) => sum / count)));
    const intercept = tf.sub(tf.mul(factor, tf.tensor1d(sums.subarray(channels).map((sum) => sum / count))), tf.mul(mean, slope));
    const forX = tf.sub((fixed.x as () => tfjs.Tensor)(), tf.add(tf.mul(x, slope), intercept));
    return [forX, forScale, forOffset];
  }

  /** Updates a moving average exactly as TensorFlow.js does. */
  #move(weight: Weight, value: Float32Array, momentum: number): void {
    const tf = this.#tf;
    tf.tidy(() => {
      const before = weight.read();
      weight.write(tf.sub(before, tf.mul(tf.sub(before, tf.tensor1d(value)), 1 - momentum)));
    });
  }
}

/** The size used by a rank without examples for input dimensions of unknown size. The size must be large enough for the model's layers. */
const ANY_SIZE = 64;

/**
 * Merges all ranks' moments.
 * @param rows one row per rank: | count | mean of each channel | variance of each channel |
 */
export function mergeMoments(rows: Float32Array, ranks: number, channels: number): Moments {
  const row = 2 * channels + 1;
  const numbers = (rank: number, index: number) => rows[rank * row + index] as number;
  let count = 0;
  for (let rank = 0; rank < ranks; rank++) {
    count += numbers(rank, 0);
  }
  const mean = new Float32Array(channels);
  const variance = new Float32Array(channels);
  for (let channel = 0; channel < channels; channel++) {
    let sum = 0;
    for (let rank = 0; rank < ranks; rank++) {
      sum += numbers(rank, 0) * numbers(rank, 1 + channel);
    }
    const center = sum / count;
    let squares = 0;
    for (let rank = 0; rank < ranks; rank++) {
      const distance = numbers(rank, 1 + channel) - center;
      squares += numbers(rank, 0) * (numbers(rank, 1 + channels + channel) + distance * distance);
    }
    mean[channel] = center;
    variance[channel] = squares / count;
  }
  return { count, mean, variance };
}
