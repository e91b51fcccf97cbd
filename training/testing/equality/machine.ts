import type * as tfjs from '@tensorflow/tfjs';
import {
  type Action,
  type FitAction,
  OPTIMIZER_KINDS,
  type OptimizerChoice,
  type Program,
  type StepAction,
  type TrunkLayer,
} from './program.ts';

const INPUTS = 4;
const OUTPUTS = 2;

/** Data rows whose values depend only on the seed and the row number. */
export interface Rows {
  readonly x: tfjs.Tensor2D;
  readonly y: tfjs.Tensor2D;
  readonly weights: tfjs.Tensor1D;
}

/** A weight in `layer.weights`. */
export interface LayerWeight {
  read(): tfjs.Variable;
}

interface OptimizerSlot {
  readonly originalName: string;
  readonly variable: tfjs.Variable;
}

/** A program's models, optimizers, variables, losses and data. Both sides use this class, which contains only TensorFlow.js code. */
export class Machine {
  readonly #tf: typeof tfjs;
  readonly #program: Program;
  readonly #seed: number;
  readonly #layers: tfjs.layers.Layer[];
  readonly models: readonly tfjs.LayersModel[];
  readonly #optimizers: tfjs.Optimizer[];
  readonly #renewals: number[];
  readonly #late: tfjs.Variable[] = [];
  #rowsUsed = 0;

  /** @param rank ranks above 0 get different initial weights if the program sets `unequalStart`. */
  constructor(tf: typeof tfjs, program: Program, rank: number) {
    this.#tf = tf;
    this.#program = program;
    this.#seed = program.seed + (program.unequalStart ? rank * 1000 : 0);
    const input = tf.input({ shape: [INPUTS] });
    let tensor: tfjs.SymbolicTensor = input;
    this.#layers = [];
    const apply = (layer: tfjs.layers.Layer) => {
      tensor = layer.apply(tensor) as tfjs.SymbolicTensor;
      if (layer.weights.length > 0) {
        this.#layers.push(layer);
      }
    };
    for (const [index, description] of program.trunk.entries()) {
      for (const layer of this.#layersOf(description, tensor.shape[1] as number, index)) {
        apply(layer);
      }
    }
    this.models = Array.from({ length: program.heads }, (_, head) => {
      const layer = tf.layers.dense({ units: OUTPUTS, ...this.#initializers(100 + head) });
      this.#layers.push(layer);
      return tf.model({ inputs: input, outputs: layer.apply(tensor) as tfjs.SymbolicTensor });
    });
    this.#optimizers = program.optimizers.map((choice) => makeOptimizer(tf, choice));
    this.#renewals = program.optimizers.map(() => 0);
  }

  #initializers(salt: number) {
    const seed = this.#seed * 10 + salt;
    return {
      kernelInitializer: this.#tf.initializers.glorotUniform({ seed }),
      biasInitializer: this.#tf.initializers.randomUniform({ minval: -0.3, maxval: 0.3, seed: seed + 5 }),
    };
  }

  #layersOf(layer: TrunkLayer, width: number, index: number): tfjs.layers.Layer[] {
    const { layers, regularizers, initializers } = this.#tf;
    const own = this.#initializers(index * 7);
    switch (layer.kind) {
      case 'dense': {
        const { units, activation, bias, l2 } = layer;
        const kernelRegularizer = l2 === 0 ? {} : { kernelRegularizer: regularizers.l2({ l2 }) };
        return [layers.dense({ units, activation, useBias: bias, ...own, ...kernelRegularizer })];
      }
      case 'conv':
        return [
          layers.reshape({ targetShape: [width / 2, 2] }),
          layers.conv1d({ filters: layer.units, kernelSize: Math.min(2, width / 2), activation: 'tanh', ...own }),
          layers.flatten(),
        ];
      case 'lstm': {
        const recurrentInitializer = initializers.glorotUniform({ seed: this.#seed + index });
        return [layers.reshape({ targetShape: [width / 2, 2] }), layers.lstm({ units: layer.units, ...own, recurrentInitializer })];
      }
      case 'batchNorm':
        return [layers.batchNormalization({ momentum: 0.8 })];
      case 'layerNorm':
        return [layers.layerNormalization({ epsilon: 0.01 })];
      case 'dropout':
        return [layers.dropout({ rate: 0 })];
    }
  }

  /** Returns the optimizer to which an action's index refers. */
  optimizerAt(index: number): tfjs.Optimizer {
    return this.#optimizers[index % this.#optimizers.length] as tfjs.Optimizer;
  }

  /** Runs an action that does not train. @returns false if the action trains, in which case the caller must run it. */
  prepare(action: Action): boolean {
    if (action.do === 'freeze') {
      const layer = this.#layers[action.layer % this.#layers.length] as tfjs.layers.Layer;
      layer.trainable = action.trainable;
      return true;
    }
    if (action.do === 'late') {
      const at = this.#late.length + 1;
      const values = Array.from({ length: OUTPUTS }, (_, index) => Math.sin(this.#seed + at * 3 + index));
      this.#late.push(this.#tf.variable(this.#tf.tensor1d(values)));
      return true;
    }
    if (action.do === 'renew') {
      const at = action.optimizer % this.#optimizers.length;
      this.#optimizers[at]?.dispose();
      this.#optimizers[at] = makeOptimizer(this.#tf, this.#program.optimizers[at] as OptimizerChoice);
      this.#renewals[at] = (this.#renewals[at] ?? 0) + 1;
      return true;
    }
    return false;
  }

  compiled(action: FitAction): tfjs.LayersModel {
    const model = this.models[action.head] as tfjs.LayersModel;
    const optimizer = this.optimizerAt(action.optimizer);
    if (action.recompile || model.optimizer !== optimizer) {
      model.compile({ optimizer, loss: 'meanSquaredError', metrics: ['mae'] });
    }
    return model;
  }

  /** Reserves `count` rows that no earlier action has used. @returns the first row's number. */
  nextRows(count: number): number {
    const from = this.#rowsUsed;
    this.#rowsUsed += count;
    return from;
  }

  rows(from: number, count: number): Rows {
    const tf = this.#tf;
    const { seed } = this.#program;
    const make = (columns: number, of: (row: number, column: number) => number) =>
      tf.tensor2d(
        Float32Array.from({ length: count * columns }, (_, at) => of(from + Math.floor(at / columns), at % columns)),
        [count, columns],
      );
    return {
      x: make(INPUTS, (row, column) => Math.sin((row + 1) * 1.7 + column * 2.3 + seed) * 1.5),
      y: make(OUTPUTS, (row, column) => Math.cos((row + 1) * 0.9 + column * 1.1 + seed)),
      weights: tf.tensor1d(Float32Array.from({ length: count }, (_, at) => 0.25 + ((from + at) % 4) * 0.5)),
    };
  }

  /** Returns the mean loss over the rows. Call this method within tf.tidy or as the loss of a step. */
  lossOf(action: StepAction, { x, y }: Rows): tfjs.Scalar {
    const tf = this.#tf;
    const losses = action.heads.map((head) => {
      const model = this.models[head] as tfjs.LayersModel;
      let output = model.apply(x, { training: true }) as tfjs.Tensor;
      if (action.late) {
        for (const variable of this.#late) {
          output = tf.add(output, variable);
        }
      }
      return tf.mean(tf.square(tf.sub(output, y))) as tfjs.Scalar;
    });
    return losses.reduce((sum, loss) => tf.add(sum, loss));
  }

  /** Returns an action's variables, or undefined for the default list. */
  variablesOf(action: StepAction): tfjs.Variable[] | undefined {
    if (action.variables === 'default') {
      return undefined;
    }
    return action.variables === 'late' ? [...this.#late] : this.layerWeightsOf(action).map(variableOf);
  }

  /** Returns an action's weights. They include frozen weights, which the optimizer must skip. */
  layerWeightsOf({ variables, heads }: StepAction): LayerWeight[] {
    const own = new Set(heads.map((head) => this.#layers.at(head - this.#program.heads)));
    const isHead = (index: number) => index >= this.#layers.length - this.#program.heads;
    const layers = this.#layers.filter((layer, index) => (isHead(index) ? own.has(layer) && variables !== 'trunk' : variables !== 'heads'));
    return layers.flatMap((layer) => layer.weights.filter(({ name }) => !/moving_/.test(name)) as unknown as LayerWeight[]);
  }

  /** All variables that a loss may depend on. */
  get variables(): tfjs.Variable[] {
    return [...this.#named()].map(([, variable]) => variable);
  }

  /** Returns the values of all weights, by names that are the same in every process. */
  weights(): Record<string, number[]> {
    return Object.fromEntries([...this.#named()].map(([name, variable]) => [name, [...variable.dataSync()]]));
  }

  *#named(): Generator<[string, tfjs.Variable]> {
    for (const [at, layer] of this.#layers.entries()) {
      for (const weight of layer.weights) {
        yield [`layer ${at} ${weight.originalName.split('/').at(-1)}`, variableOf(weight)];
      }
    }
    for (const [at, variable] of this.#late.entries()) {
      yield [`late ${at}`, variable];
    }
  }

  /** Returns the slots of all optimizers, by names that are the same in every process. */
  slots(): Record<string, number[]> {
    const names = [...this.#named()].map(([name, variable]) => [variable.name, name] as const);
    const found: Record<string, number[]> = {};
    for (const [at, optimizer] of this.#optimizers.entries()) {
      const prefix = `optimizer ${at}.${this.#renewals[at]}`;
      for (const [property, value] of Object.entries(optimizer)) {
        if (value instanceof this.#tf.Variable) {
          found[`${prefix} ${property}`] = [...value.dataSync()];
        }
        for (const slot of Array.isArray(value) ? (value as (OptimizerSlot | undefined)[]) : []) {
          if (slot === undefined) {
            continue;
          }
          const [real, name] = names.find(([each]) => slot.originalName.startsWith(`${each}/`)) ?? ['', slot.originalName];
          found[`${prefix} ${name}${slot.originalName.slice(real.length)}`] = [...slot.variable.dataSync()];
        }
      }
    }
    return found;
  }
}

function variableOf(weight: unknown): tfjs.Variable {
  return (weight as LayerWeight).read();
}

/** Large epsilons keep steps small if a gradient consists only of rounding errors. */
function makeOptimizer(tf: typeof tfjs, { kind, rate: factor }: OptimizerChoice): tfjs.Optimizer {
  const rate = OPTIMIZER_KINDS[kind] * factor;
  switch (kind) {
    case 'sgd':
      return tf.train.sgd(rate);
    case 'momentum':
      return tf.train.momentum(rate, 0.9);
    case 'nesterov':
      return tf.train.momentum(rate, 0.8, true);
    case 'adagrad':
      return tf.train.adagrad(rate, 0.2);
    case 'adadelta':
      return tf.train.adadelta(rate, 0.9, 1e-2);
    case 'adam':
      return tf.train.adam(rate, 0.9, 0.99, 1e-3);
    case 'adamax':
      return tf.train.adamax(rate, 0.9, 0.99, 1e-3, 0.01);
    case 'rmsprop':
      return tf.train.rmsprop(rate, 0.9, 0.5, 1e-2, false);
    case 'centered':
      // TensorFlow.js subtracts this epsilon. If a gradient is smaller than the square root of epsilon, the weights become NaN on both
      // sides.
      return tf.train.rmsprop(rate, 0.9, 0, 1e-8, true);
  }
}

/** Returns the largest change in any weight between two sets of weights. */
export function distance(one: Readonly<Record<string, readonly number[]>>, other: Readonly<Record<string, readonly number[]>>): number {
  let most = 0;
  for (const [name, values] of Object.entries(one)) {
    for (const [index, value] of values.entries()) {
      most = Math.max(most, Math.abs(value - (other[name]?.[index] ?? value)));
    }
  }
  return most;
}
