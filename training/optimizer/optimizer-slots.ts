import type * as tfjs from '@tensorflow/tfjs';
import type { NamedGradient } from './named-gradient.ts';

/** An optimizer's state tensor for one variable, as TensorFlow.js stores it. */
export interface OptimizerSlot {
  readonly originalName: string;
  readonly variable: tfjs.Variable;
}

/** `applyGradients` accepts null gradients, although its type declaration excludes them. */
type ToApply = Parameters<tfjs.Optimizer['applyGradients']>[0];

type SlotArray = (OptimizerSlot | null | undefined)[];

/** The properties in which the tf.train optimizers store one slot per variable. */
const SLOT_PROPERTIES: ReadonlySet<string> = new Set([
  'accumulations',
  'accumulatedFirstMoment',
  'accumulatedSecondMoment',
  'accumulatedWeightedInfNorm',
  'accumulatedGrads',
  'accumulatedUpdates',
  'accumulatedMeanSquares',
  'accumulatedMoments',
  'accumulatedMeanGrads',
]);

const known = new WeakMap<tfjs.Optimizer, OptimizerSlots>();

/**
 * Maps variables to their slots in an optimizer.
 *
 * TensorFlow.js finds a variable's slots by its index in the list of gradients (tfjs-core 4.22, `applyGradients` of each optimizer). A
 * program that alternates between two lists would therefore mix up slots. This class assigns a fixed index to each variable, so each step
 * may use a different list.
 */
export class OptimizerSlots {
  readonly #tf: typeof tfjs;
  readonly #optimizer: tfjs.Optimizer;
  /** The variable at each index, or null if the variable is unknown, for example for slots from a model file. */
  readonly #variables: (tfjs.Variable | null)[] = [];
  #places = new Map<tfjs.Variable, number>();

  private constructor(tf: typeof tfjs, optimizer: tfjs.Optimizer) {
    this.#tf = tf;
    this.#optimizer = optimizer;
  }

  static of(tf: typeof tfjs, optimizer: tfjs.Optimizer): OptimizerSlots {
    let slots = known.get(optimizer);
    if (slots === undefined) {
      slots = new OptimizerSlots(tf, optimizer);
      known.set(optimizer, slots);
    }
    return slots;
  }

  /** Returns the index of the variable's slots in the optimizer's arrays. Assigns the next free index to a new variable. */
  placeOf(variable: tfjs.Variable): number {
    const place = this.#places.get(variable) ?? this.#adopt(variable);
    if (place !== undefined) {
      return place;
    }
    this.#removeDisposed();
    this.#variables.push(variable);
    this.#places.set(variable, this.#variables.length - 1);
    return this.#variables.length - 1;
  }

  /** Assigns an index to each variable, in list order. Code that does not use this class then finds the same slots for the same list. */
  arrange(variables: readonly tfjs.Variable[]): void {
    for (const variable of variables) {
      this.placeOf(variable);
    }
  }

  /** Yields the variable's existing slots, each with the optimizer property that contains it. */
  *slotsOf(variable: tfjs.Variable): Generator<readonly [property: string, slot: OptimizerSlot]> {
    const place = this.#places.get(variable) ?? this.#adopt(variable);
    if (place === undefined) {
      return;
    }
    for (const [property, slots] of this.#arrays()) {
      const slot = slots[place];
      if (slot?.variable instanceof this.#tf.Variable) {
        yield [property, slot];
      }
    }
  }

  /** Sets the value of a variable's slot. Creates the slot if necessary. */
  restore(variable: tfjs.Variable, property: string, originalName: string, value: tfjs.Tensor): void {
    const slots = (this.#optimizer as unknown as Record<string, SlotArray>)[property] as SlotArray;
    const place = this.placeOf(variable);
    const slot = slots[place];
    if (slot === undefined || slot === null) {
      slots[place] = { originalName, variable: value.variable(false) };
    } else {
      slot.variable.assign(value);
    }
  }

  /** Calls the optimizer's `applyGradients` with each variable's slots. Variables with a null gradient stay unchanged. */
  applyGradients(gradients: readonly NamedGradient[]): void {
    const { registeredVariables } = this.#tf.engine();
    const places = gradients.map(({ name }) => this.placeOf(registeredVariables[name] as tfjs.Variable));
    const apply = () => this.#optimizer.applyGradients(gradients as ToApply);
    if (places.every((place, index) => place === index)) {
      apply();
      return;
    }
    const whole = this.#arrays();
    const optimizer = this.#optimizer as unknown as Record<string, SlotArray>;
    for (const [property, slots] of whole) {
      optimizer[property] = places.map((place) => slots[place]);
    }
    try {
      apply();
    } finally {
      for (const [property, slots] of whole) {
        for (const [index, slot] of (optimizer[property] as SlotArray).entries()) {
          if (slot !== null && slot !== undefined) {
            slots[places[index] as number] = slot;
          }
        }
        optimizer[property] = slots;
      }
    }
  }

  #arrays(): (readonly [property: string, slots: SlotArray])[] {
    const optimizer = this.#optimizer as unknown as Record<string, unknown>;
    return Object.entries(optimizer).flatMap(([property, slots]) => {
      return Array.isArray(slots) && (SLOT_PROPERTIES.has(property) || this.#areSlots(slots)) ? [[property, slots] as const] : [];
    });
  }

  /** Recognises slots by their structure, because custom optimizers may store them in any property. */
  #areSlots(values: readonly unknown[]): boolean {
    return values.length > 0 && values.every((value) => (value as Partial<OptimizerSlot> | null)?.variable instanceof this.#tf.Variable);
  }

  /**
   * Finds slots created by other code (`model.fit`, `minimize`, a model file), by name or by order and shape. Returns the variable's index,
   * or undefined if it has no slots.
   */
  #adopt(variable: tfjs.Variable): number | undefined {
    const arrays = this.#arrays().map(([, slots]) => slots);
    const { registeredVariables } = this.#tf.engine();
    const count = Math.max(0, ...arrays.map(({ length }) => length));
    for (let place = this.#variables.length; place < count; place++) {
      const name = arrays.find((slots) => slots[place])?.[place]?.originalName.replace(/\/[^/]*$/, '') ?? '';
      const owner = registeredVariables[name];
      const isNew = owner !== undefined && !this.#places.has(owner);
      this.#variables.push(isNew ? owner : null);
      if (isNew) {
        this.#places.set(owner, place);
      }
    }
    const found = this.#places.get(variable);
    if (found !== undefined) {
      return found;
    }
    const fits = (place: number) =>
      arrays.every((slots) => !slots[place] || this.#tf.util.arraysEqual(slots[place]?.variable.shape ?? [], variable.shape));
    const place = this.#variables.findIndex((owner, index) => owner === null && fits(index));
    if (place < 0) {
      return undefined;
    }
    this.#variables[place] = variable;
    this.#places.set(variable, place);
    return place;
  }

  /** Disposes the slots of disposed variables. Otherwise, the slots would occupy memory for as long as the optimizer exists. */
  #removeDisposed(): void {
    if (!this.#variables.some((variable) => variable?.isDisposed)) {
      return;
    }
    const arrays = this.#arrays().map(([, slots]) => slots);
    for (let place = this.#variables.length - 1; place >= 0; place--) {
      if (this.#variables[place]?.isDisposed) {
        this.#variables.splice(place, 1);
        for (const slots of arrays) {
          const [slot] = slots.splice(place, 1);
          slot?.variable.dispose();
        }
      }
    }
    this.#places = new Map(this.#variables.flatMap((variable, place) => (variable === null ? [] : [[variable, place] as const])));
  }
}
