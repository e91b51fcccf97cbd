import type * as tfjs from '@tensorflow/tfjs';
import { messageOf } from '../../../platform/errors.ts';
import type { NamedGradient } from '../../optimizer/named-gradient.ts';
import { type OptimizerSlot, OptimizerSlots } from '../../optimizer/optimizer-slots.ts';
import { type NativeBackend, sameShape } from './native-backend.ts';
import { nativeKernelsOf } from './native-kernels.ts';
import { type OptimizerRule, ruleOf, type Scalar, type SlotKind } from './optimizer-rules.ts';

let created = 0;

/**
 * A TensorFlow resource variable that mirrors a tf.Variable, because fused kernels can update only resource variables in place. Each step
 * calls `take`, runs the kernel on the resource, and calls `give`:
 *
 *   take    copies the tf.Variable's value to the resource if other code has changed it; then releases the tf.Variable's memory
 *   give    assigns the resource's value to the tf.Variable, without a copy
 *
 * TensorFlow copies a shared buffer before it changes the buffer, so a program's clones keep their values.
 */
class ResourceVariable {
  readonly handle: tfjs.Tensor;
  readonly variable: tfjs.Variable;
  readonly #native: NativeBackend;
  /** ID of the data shared by the tf.Variable and the resource, or null before the first `take`. */
  #shared: object | null = null;

  constructor(native: NativeBackend, variable: tfjs.Variable) {
    this.#native = native;
    this.variable = variable;
    created++;
    const attributes = [
      native.type('dtype'),
      native.shape('shape', variable.shape),
      native.text('container', ''),
      native.text('shared_name', `tony-ts/${created}`),
    ];
    this.handle = native.tf.keep(native.runRaw('VarHandleOp', [], attributes, 1)[0] as tfjs.Tensor);
  }

  /** True if other code has assigned a value to the tf.Variable since the last `give`. */
  get changed(): boolean {
    return this.variable.dataId !== this.#shared;
  }

  /** Moves the value to the resource. The tf.Variable must not be read until `give` is called. */
  take(): void {
    if (this.changed) {
      this.#native.runRaw('AssignVariableOp', [this.handle, this.variable], [this.#native.type('dtype')], 0);
      this.#shared = this.variable.dataId;
    }
    if (this.#native.sharers(this.variable) === 1) {
      this.#native.tf.engine().disposeTensor(this.variable);
    }
  }

  give(): void {
    const [value] = this.#native.runRaw('ReadVariableOp', [this.handle], [this.#native.type('dtype')], 1) as [tfjs.Tensor];
    this.variable.assign(value);
    value.dispose();
    this.#shared = this.variable.dataId;
  }

  /** Frees the resource variable. The tf.Variable keeps its value. */
  dispose(): void {
    this.#native.runRaw('DestroyResourceOp', [this.handle], [this.#native.flag('ignore_lookup_error', true)], 0);
    this.handle.dispose();
  }
}

/** A variable and its slots, with the TensorFlow resource variables that mirror them. */
interface Group {
  readonly variable: tfjs.Variable;
  readonly slots: readonly OptimizerSlot[];
  /** Mirrors of `variable` and its slots, in that order. */
  readonly mirrors: readonly ResourceVariable[];
}

interface Step {
  readonly gradient: tfjs.Tensor;
  readonly group: Group;
}

/**
 * Applies gradients with TensorFlow's fused kernels. A fused kernel updates a variable in one call, whereas TensorFlow.js runs a dozen
 * small operations. A program can mix fused steps with the optimizer's own steps, because both update the same variables, slots and
 * counters. A step also sees values assigned to variables or slots by other code, for example from a checkpoint.
 */
export class FusedOptimizer {
  readonly #optimizer: tfjs.Optimizer;
  readonly #slots: OptimizerSlots;
  readonly #native: NativeBackend | null;
  readonly #rule: OptimizerRule | null;
  #reason: string | null = null;
  readonly #groups = new Map<tfjs.Variable, Group>();
  readonly #scalars = new Map<number, { readonly value: number; readonly tensor: tfjs.Tensor }>();

  constructor(tf: typeof tfjs, optimizer: tfjs.Optimizer) {
    this.#optimizer = optimizer;
    this.#slots = OptimizerSlots.of(tf, optimizer);
    this.#native = nativeKernelsOf(tf);
    const rule = this.#native === null ? { reason: 'native kernels are not installed' } : ruleOf(this.#native, optimizer);
    if ('reason' in rule) {
      this.#reason = rule.reason;
      this.#rule = null;
    } else {
      this.#rule = rule;
    }
  }

  /** Why steps use the optimizer's own implementation, or null while they use fused kernels. */
  get reason(): string | null {
    return this.#reason;
  }

  /**
   * Applies the gradients. Gives the same result as the optimizer's `applyGradients`, within float tolerance. Unlike `applyGradients`, this
   * method may update different variables in each step.
   */
  apply(gradients: readonly NamedGradient[]): void {
    if (this.#rule === null || this.#native === null || this.#reason !== null || !this.#applyFused(this.#native, this.#rule, gradients)) {
      this.#slots.applyGradients(gradients);
      if (this.#reason !== null) {
        this.dispose();
      }
    }
  }

  /** Frees this object's memory. The optimizer and its slots keep their state. */
  dispose(): void {
    for (const group of this.#groups.values()) {
      disposeGroup(group);
    }
    this.#groups.clear();
    for (const { tensor } of this.#scalars.values()) {
      tensor.dispose();
    }
    this.#scalars.clear();
  }

  /** Applies the gradients with fused kernels. Returns false without changing anything if a variable or gradient has no suitable kernel. */
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
      // Some TensorFlow builds lack the kernel.
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
    this.#slots.adopt(gradients.flatMap(({ name }) => registeredVariables[name] ?? []));
    const steps: Step[] = [];
    for (const { name, tensor: gradient } of gradients) {
      const variable = registeredVariables[name];
      if (variable === undefined) {
        return null;
      }
      const group = this.#groupOf(native, rule, variable);
      // TensorFlow.js creates slots even for a variable without a gradient, so the call to `#groupOf` must come first.
      if (gradient === null || gradient === undefined) {
        continue;
      }
      if (group === null || gradient.dtype !== 'float32' || !sameShape(gradient.shape, variable.shape)) {
        return null;
      }
      steps.push({ gradient, group });
    }
    return steps;
  }

  /** Returns the variable's group, or null if the kernel would compute a wrong result for the variable. */
  #groupOf(native: NativeBackend, rule: OptimizerRule, variable: tfjs.Variable): Group | null {
    const place = this.#slots.placeOf(variable);
    const slots = rule.slots.map((kind) => this.#slotOf(native.tf, kind, place, variable));
    const before = this.#groups.get(variable);
    let group = before;
    if (before === undefined || slots.some((slot, at) => slot.variable !== before.slots[at]?.variable)) {
      disposeGroup(before);
      this.#groups.delete(variable);
      if (variable.dtype !== 'float32') {
        return this.#refuse(`variable ${variable.name} has the type ${variable.dtype}, not float32`);
      }
      const mirrors = [variable, ...slots.map((slot) => slot.variable)].map((each) => new ResourceVariable(native, each));
      group = { variable, slots, mirrors };
      this.#groups.set(variable, group);
    }
    for (const [at, { atLeast }] of rule.slots.entries()) {
      const mirror = group?.mirrors[at + 1];
      if (atLeast !== undefined && mirror?.changed && !isAtLeast(native.tf, mirror.variable, atLeast)) {
        return this.#refuse(`${slots[at]?.originalName} has values below ${atLeast}`);
      }
    }
    return group ?? null;
  }

  /** Makes all later steps use the optimizer's own implementation. */
  #refuse(reason: string): null {
    this.#reason = reason;
    return null;
  }

  /** Returns the variable's slot. Creates a missing slot exactly as the optimizer would. */
  #slotOf(tf: typeof tfjs, kind: SlotKind, place: number, variable: tfjs.Variable): OptimizerSlot {
    const slots = (this.#optimizer as unknown as Record<string, (OptimizerSlot | undefined)[]>)[kind.property] as (
      | OptimizerSlot
      | undefined
    )[];
    const existing = slots[place];
    if (existing !== undefined && existing !== null) {
      return existing;
    }
    const created = {
      originalName: `${variable.name}/${kind.suffix}`,
      variable: tf.tidy(() => tf.fill(variable.shape, kind.initial).variable(false)),
    };
    slots[place] = created;
    return created;
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

function applyKernel(native: NativeBackend, rule: OptimizerRule, { mirrors }: Group, inputs: readonly tfjs.Tensor[]): void {
  const taken: ResourceVariable[] = [];
  try {
    for (const mirror of mirrors) {
      mirror.take();
      taken.push(mirror);
    }
    native.change(rule.kernel, [...mirrors.map(({ handle }) => handle), ...inputs], rule.attributes);
  } finally {
    for (const mirror of taken) {
      mirror.give();
    }
  }
}

function disposeGroup(group: Group | undefined): void {
  for (const mirror of group?.mirrors ?? []) {
    mirror.dispose();
  }
}

function isAtLeast(tf: typeof tfjs, variable: tfjs.Variable, least: number): boolean {
  return variable.size === 0 || tf.tidy(() => (tf.min(variable).dataSync()[0] as number) >= least);
}
