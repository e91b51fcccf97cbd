import type * as tfjs from '@tensorflow/tfjs';
import { setIterations } from '../../optimizer/optimizer-members.ts';
import { OptimizerSlots } from '../../optimizer/optimizer-slots.ts';

/** An optimizer's state, independent of TensorFlow.js. */
export interface OptimizerState {
  readonly iterations: number;
  /** The optimizer's counters, by property, for example Adam's `accBeta1`. */
  readonly scalars: Readonly<Record<string, number>>;
  readonly slots: readonly SlotState[];
}

export interface SlotPlace {
  /** The optimizer property that contains all slots of this kind, for example `accumulatedFirstMoment`. */
  readonly property: string;
  /** The suffix that the optimizer appends to the variable's name, for example `/m`. */
  readonly suffix: string;
  /** The index of the variable in the `variables` argument. */
  readonly variable: number;
}

export interface SlotState extends SlotPlace {
  readonly numbers: Float32Array;
}

export const NO_STATE: OptimizerState = { iterations: 0, scalars: {}, slots: [] };

type Properties = Record<string, unknown>;

/** Reads the optimizer's state for the given variables only. */
export function readOptimizerState(tf: typeof tfjs, optimizer: tfjs.Optimizer, variables: readonly tfjs.Variable[]): OptimizerState {
  const own = Object.entries(optimizer as unknown as Properties);
  const scalars = own.flatMap(([property, value]) => (value instanceof tf.Variable ? [[property, value.dataSync()[0] as number]] : []));
  const slots = OptimizerSlots.of(tf, optimizer);
  slots.adopt(variables);
  return {
    iterations: optimizer.iterations,
    scalars: Object.fromEntries(scalars),
    slots: variables.flatMap((trained, index) =>
      Array.from(slots.slotsOf(trained), ([property, { originalName, variable }]) => {
        const suffix = originalName.slice(originalName.lastIndexOf('/'));
        return { property, suffix, variable: index, numbers: variable.dataSync() as Float32Array };
      }),
    ),
  };
}

/** Writes the state to an optimizer. Slots of other variables stay unchanged. */
export function writeOptimizerState(
  tf: typeof tfjs,
  optimizer: tfjs.Optimizer,
  variables: readonly tfjs.Variable[],
  state: OptimizerState,
): void {
  const properties = optimizer as unknown as Properties;
  const slots = OptimizerSlots.of(tf, optimizer);
  slots.arrange(variables);
  tf.tidy(() => {
    for (const [property, value] of Object.entries(state.scalars)) {
      (properties[property] as tfjs.Variable).assign(tf.scalar(value));
    }
    for (const { property, suffix, variable: index, numbers } of state.slots) {
      const variable = variables[index] as tfjs.Variable;
      slots.restore(variable, property, `${variable.name}${suffix}`, tf.tensor(numbers, variable.shape, 'float32'));
    }
  });
  setIterations(optimizer, state.iterations);
}
