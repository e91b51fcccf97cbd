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

/** The number of steps in which an optimizer creates its slots. */
const WATCHED_STEPS = 3;

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
  /** The variables that the optimizer has created in its first steps. */
  readonly created = new Set<tfjs.Variable>();
  #steps = 0;

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
    const known = this.#places.get(variable);
    if (known !== undefined) {
      return known;
    }
    this.adopt([variable]);
    const place = this.#places.get(variable);
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
    this.adopt(variables);
    for (const variable of variables) {
      this.placeOf(variable);
    }
  }

  /**
   * Assigns the slots of a loaded model to the model's variables. A model file contains the slots in the order of the variables.
   * @returns false, without assigning anything, if the slots do not fit the variables.
   */
  claim(variables: readonly tfjs.Variable[]): boolean {
    const places = this.#unowned();
    if (this.#places.size > 0 || places.length !== variables.length || !this.#fitInOrder(places, variables)) {
      return false;
    }
    variables.forEach((variable, index) => {
      this.#own(places[index] as number, variable);
    });
    return true;
  }

  /** Yields the variable's existing slots, each with the optimizer property that contains it. Call `adopt` or `arrange` first. */
  *slotsOf(variable: tfjs.Variable): Generator<readonly [property: string, slot: OptimizerSlot]> {
    const place = this.#places.get(variable);
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

  /** Returns true if the property contains slots that this class finds. */
  holds(property: string): boolean {
    return this.#arrays().some(([name]) => name === property);
  }

  /**
   * Calls `use` while the optimizer's arrays contain exactly these variables' slots, in list order, as TensorFlow.js stores them in a model
   * file.
   * @param create creates a missing slot.
   */
  async inOrder<T>(
    variables: readonly tfjs.Variable[],
    create: (property: string, variable: tfjs.Variable) => OptimizerSlot,
    use: () => Promise<T>,
  ): Promise<T> {
    this.arrange(variables);
    const optimizer = this.#optimizer as unknown as Record<string, SlotArray>;
    const whole = this.#arrays().filter(([, slots]) => slots.length > 0);
    const created: OptimizerSlot[] = [];
    for (const [property, slots] of whole) {
      optimizer[property] = variables.map((variable) => {
        const slot = slots[this.placeOf(variable)];
        if (slot !== undefined && slot !== null) {
          return slot;
        }
        const made = create(property, variable);
        created.push(made);
        return made;
      });
    }
    try {
      return await use();
    } finally {
      for (const [property, slots] of whole) {
        optimizer[property] = slots;
      }
      for (const { variable } of created) {
        variable.dispose();
      }
    }
  }

  /** Sets the value of a variable's slot. Creates the slot if necessary. */
  restore(variable: tfjs.Variable, property: string, originalName: string, value: tfjs.Tensor): void {
    const slots = this.#arrayOf(property);
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
    const variables = gradients.map(({ name }) => registeredVariables[name] as tfjs.Variable);
    this.adopt(variables);
    const places = variables.map((variable) => this.placeOf(variable));
    const apply = () => this.#watched(() => this.#optimizer.applyGradients(gradients as ToApply));
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

  /** Notes the variables that the optimizer creates in its first steps. A custom optimizer may keep them outside its properties. */
  #watched(apply: () => void): void {
    if (this.#steps >= WATCHED_STEPS) {
      apply();
      return;
    }
    this.#steps++;
    const before = new Set(Object.values(this.#tf.engine().registeredVariables));
    apply();
    for (const variable of Object.values(this.#tf.engine().registeredVariables)) {
      if (!before.has(variable)) {
        this.created.add(variable);
      }
    }
  }

  #arrayOf(property: string): SlotArray {
    const optimizer = this.#optimizer as unknown as Record<string, SlotArray | undefined>;
    optimizer[property] ??= [];
    return optimizer[property];
  }

  #arrays(): (readonly [property: string, slots: SlotArray])[] {
    const optimizer = this.#optimizer as unknown as Record<string, unknown>;
    return Object.entries(optimizer).flatMap(([property, slots]) => {
      return Array.isArray(slots) && (SLOT_PROPERTIES.has(property) || this.#areSlots(slots)) ? [[property, slots] as const] : [];
    });
  }

  /** Recognises slots by their structure, because custom optimizers may store them in any property. */
  #areSlots(values: readonly unknown[]): boolean {
    return (
      values.length > 0 &&
      values.every((value) => {
        const { originalName, variable } = (value ?? {}) as Partial<OptimizerSlot>;
        return typeof originalName === 'string' && variable instanceof this.#tf.Variable;
      })
    );
  }

  /**
   * Finds the variables' slots that other code has created: `model.fit`, `minimize`, or a model file. `model.fit` and `minimize` name a slot
   * after its variable. In a model file, the names are those of another process, and the order of the slots is that of the variables. In
   * this process, such a name may belong to another model's variable, so a name counts only if it belongs to one of the given variables.
   */
  adopt(variables: readonly tfjs.Variable[]): void {
    if (variables.every((variable) => this.#places.has(variable))) {
      return;
    }
    const unplaced = variables.filter((variable) => !this.#places.has(variable));
    const places = this.#unowned();
    const named = places.flatMap((place) => {
      const variable = this.#namesake(place);
      return variable !== undefined && unplaced.includes(variable) ? [[place, variable] as const] : [];
    });
    if (named.length > 0) {
      for (const [place, variable] of named) {
        this.#own(place, variable);
      }
      return;
    }
    const inOrder = this.#fitInOrder(places, unplaced);
    if (inOrder !== null) {
      inOrder.forEach((variable, index) => {
        this.#own(places[index] as number, variable);
      });
      return;
    }
    for (const variable of unplaced) {
      const place = places.find((each) => {
        return this.#variables[each] === null && this.#namesake(each) === undefined && this.#fits(each, variable);
      });
      if (place !== undefined) {
        this.#own(place, variable);
      }
    }
  }

  #own(place: number, variable: tfjs.Variable): void {
    this.#variables[place] = variable;
    this.#places.set(variable, place);
  }

  /** Returns the indexes with slots that do not belong to any variable yet. */
  #unowned(): number[] {
    const arrays = this.#arrays().map(([, slots]) => slots);
    while (this.#variables.length < Math.max(0, ...arrays.map(({ length }) => length))) {
      this.#variables.push(null);
    }
    return [...this.#variables.keys()].filter((place) => this.#variables[place] === null && arrays.some((slots) => slots[place]));
  }

  /** Returns the variable after which the slots at an index are named, or undefined if this process has no such variable. */
  #namesake(place: number): tfjs.Variable | undefined {
    const slot = this.#arrays().find(([, slots]) => slots[place])?.[1][place];
    return this.#tf.engine().registeredVariables[slot?.originalName.replace(/\/[^/]*$/, '') ?? ''];
  }

  /** Returns a variable for each index, in list order, or null if some index has no variable of its shape. */
  #fitInOrder(places: readonly number[], variables: readonly tfjs.Variable[]): tfjs.Variable[] | null {
    let next = 0;
    const found: tfjs.Variable[] = [];
    for (const place of places) {
      while (next < variables.length && !(variables[next]?.trainable && this.#fits(place, variables[next] as tfjs.Variable))) {
        next++;
      }
      const variable = variables[next++];
      if (variable === undefined) {
        return null;
      }
      found.push(variable);
    }
    return found;
  }

  #fits(place: number, { shape }: tfjs.Variable): boolean {
    return this.#arrays().every(([, slots]) => !slots[place] || this.#tf.util.arraysEqual(slots[place]?.variable.shape ?? [], shape));
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
