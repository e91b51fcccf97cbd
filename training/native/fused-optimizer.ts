import type * as tfjs from '@tensorflow/tfjs';
import { messageOf } from '../../conf/errors.ts';
import type { NamedGradient } from '../gradients.ts';
import type { NativeBackend } from './native-backend.ts';
import { nativeKernelsOf } from './native-kernels.ts';
import { type OptimizerRule, type OptimizerSlot, ruleOf, type Scalar, type SlotKind } from './optimizer-rules.ts';
import { ResourceVariable } from './resource-variable.ts';

/** A variable and its slots, with their twins. */
interface Group {
  readonly variable: tfjs.Variable;
  readonly slots: readonly OptimizerSlot[];
  /** The variable's, then the slots'. */
  readonly twins: readonly ResourceVariable[];
}

interface Step {
  readonly gradient: tfjs.Tensor;
  readonly group: Group;
}

/**
 * An optimizer's step by TensorFlow's fused kernels, one for each variable, where TensorFlow.js composes a dozen small operations. The
 * optimizer's own slots and counters go on as if its `applyGradients` had run, in the same memory, so one step may be taken here and the
 * next one there; what else changes variables or slots (assign, a restored checkpoint) is noticed.
 */
export class FusedOptimizer {
  readonly #optimizer: tfjs.Optimizer;
  readonly #native: NativeBackend | null;
  readonly #rule: OptimizerRule | null;
  #reason: string | null = null;
  /** In the order of the gradients. */
  #groups: (Group | undefined)[] = [];
  readonly #scalars = new Map<number, { readonly value: number; readonly tensor: tfjs.Tensor }>();

  constructor(tf: typeof tfjs, optimizer: tfjs.Optimizer) {
    this.#optimizer = optimizer;
    this.#native = nativeKernelsOf(tf);
    const rule = this.#native === null ? { reason: 'native kernels are not installed' } : ruleOf(this.#native, optimizer);
    if ('reason' in rule) {
      this.#reason = rule.reason;
      this.#rule = null;
    } else {
      this.#rule = rule;
    }
  }

  /** Why steps are the optimizer's own; null while they are fused. */
  get reason(): string | null {
    return this.#reason;
  }

  /** What the optimizer's `applyGradients` does with the same gradients, to float tolerance. Always the same variables in the same order. */
  apply(gradients: readonly NamedGradient[]): void {
    if (this.#rule === null || this.#native === null || this.#reason !== null || !this.#applyFused(this.#native, this.#rule, gradients)) {
      this.#optimizer.applyGradients(gradients as NamedGradient[]);
      if (this.#reason !== null) {
        this.dispose();
      }
    }
  }

  /** Frees the twins and scalars; the optimizer and its slots stay as they are. */
  dispose(): void {
    for (const group of this.#groups) {
      disposeGroup(group);
    }
    this.#groups = [];
    for (const { tensor } of this.#scalars.values()) {
      tensor.dispose();
    }
    this.#scalars.clear();
  }

  /** false when nothing was changed: TensorFlow.js is to do this step. */
  #applyFused(native: NativeBackend, rule: OptimizerRule, gradients: readonly NamedGradient[]): boolean {
    const steps = this.#prepare(native, rule, gradients);
    if (steps === null) {
      return false;
    }
    const scalars = rule.scalars();
    let changed = false;
    try {
      const tensors = scalars.map((scalar, index) => this.#tensorOf(native, scalar, index));
      for (const { gradient, group } of steps) {
        const inputs = [...tensors.slice(0, rule.gradientAt), gradient, ...tensors.slice(rule.gradientAt)];
        applyKernel(native, rule, group, inputs);
        changed = true;
      }
    } catch (error) {
      if (changed) {
        throw error;
      }
      // A TensorFlow without this kernel, say.
      this.#refuse(messageOf(error));
      return false;
    } finally {
      for (const scalar of scalars) {
        if (typeof scalar !== 'number' && scalar.own) {
          scalar.tensor.dispose();
        }
      }
    }
    rule.advance();
    const counted = this.#optimizer as unknown as { incrementIterations(): void };
    counted.incrementIterations();
    return true;
  }

  #prepare(native: NativeBackend, rule: OptimizerRule, gradients: readonly NamedGradient[]): Step[] | null {
    const { registeredVariables } = native.tf.engine();
    const steps: Step[] = [];
    for (const [index, { name, tensor: gradient }] of gradients.entries()) {
      const variable = registeredVariables[name];
      if (variable === undefined) {
        return null;
      }
      const group = this.#groupOf(native, rule, index, variable);
      // A variable that the loss does not depend on has no gradient; its slots are there nevertheless.
      if (gradient === undefined || gradient === null) {
        continue;
      }
      if (group === null || gradient.dtype !== 'float32' || !sameShape(gradient.shape, variable.shape)) {
        return null;
      }
      steps.push({ gradient, group });
    }
    return steps;
  }

  /** null where the kernel would not be right. */
  #groupOf(native: NativeBackend, rule: OptimizerRule, index: number, variable: tfjs.Variable): Group | null {
    const slots = rule.slots.map((kind) => this.#slotOf(native.tf, kind, index, variable));
    const before = this.#groups[index];
    let group = before;
    if (before?.variable !== variable || slots.some((slot, at) => slot.variable !== before.slots[at]?.variable)) {
      disposeGroup(before);
      this.#groups[index] = undefined;
      if (variable.dtype !== 'float32') {
        return this.#refuse(`variable ${variable.name} is of type ${variable.dtype}`);
      }
      const twins = [variable, ...slots.map((slot) => slot.variable)].map((each) => new ResourceVariable(native, each));
      group = { variable, slots, twins };
      this.#groups[index] = group;
    }
    for (const [at, { atLeast }] of rule.slots.entries()) {
      const twin = group?.twins[at + 1];
      if (atLeast !== undefined && twin?.changed && !isAtLeast(native.tf, twin.variable, atLeast)) {
        return this.#refuse(`${slots[at]?.originalName} has values below ${atLeast}`);
      }
    }
    return group ?? null;
  }

  /** For good: all steps from now on are the optimizer's own. */
  #refuse(reason: string): null {
    this.#reason = reason;
    return null;
  }

  /** Made where it is missing, as the optimizer itself would. */
  #slotOf(tf: typeof tfjs, kind: SlotKind, index: number, variable: tfjs.Variable): OptimizerSlot {
    const slots = (this.#optimizer as unknown as Record<string, (OptimizerSlot | undefined)[]>)[kind.property] as (
      | OptimizerSlot
      | undefined
    )[];
    const there = slots[index];
    if (there !== undefined && there !== null) {
      return there;
    }
    const made = {
      originalName: `${variable.name}/${kind.suffix}`,
      variable: tf.tidy(() => tf.fill(variable.shape, kind.initial).variable(false)),
    };
    slots[index] = made;
    return made;
  }

  #tensorOf(native: NativeBackend, scalar: Scalar, index: number): tfjs.Tensor {
    if (typeof scalar !== 'number') {
      return scalar.tensor;
    }
    const before = this.#scalars.get(index);
    if (before !== undefined && Object.is(before.value, scalar)) {
      return before.tensor;
    }
    before?.tensor.dispose();
    const tensor = native.tf.keep(native.tf.scalar(scalar, 'float32'));
    this.#scalars.set(index, { value: scalar, tensor });
    return tensor;
  }
}

function applyKernel(native: NativeBackend, rule: OptimizerRule, { twins }: Group, inputs: readonly tfjs.Tensor[]): void {
  const taken: ResourceVariable[] = [];
  try {
    for (const twin of twins) {
      twin.take();
      taken.push(twin);
    }
    native.change(rule.kernel, [...twins.map(({ handle }) => handle), ...inputs], rule.attributes);
  } finally {
    for (const twin of taken) {
      twin.give();
    }
  }
}

function disposeGroup(group: Group | undefined): void {
  for (const twin of group?.twins ?? []) {
    twin.dispose();
  }
}

function isAtLeast(tf: typeof tfjs, variable: tfjs.Variable, least: number): boolean {
  // Not a number is not at least anything.
  return variable.size === 0 || tf.tidy(() => (tf.min(variable).dataSync()[0] as number) >= least);
}

function sameShape(one: readonly number[], other: readonly number[]): boolean {
  return one.length === other.length && one.every((size, index) => size === other[index]);
}
