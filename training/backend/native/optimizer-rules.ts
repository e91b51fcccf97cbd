import type * as tfjs from '@tensorflow/tfjs';
import type { KernelAttribute, NativeBackend } from './native-backend.ts';

/*
 * Maps each optimizer of TensorFlow.js 4.22 to a fused TensorFlow kernel. If the formulas differ, the rule passes adjusted scalars. In the
 * kernels' formulas below, g is the gradient and x is the variable.
 *
 *   sgd       ResourceApplyGradientDescent   x -= lr g
 *   momentum  ResourceApplyMomentum          a = momentum a + g; x -= lr a; Nesterov: x -= lr g + lr momentum a
 *   adam      ResourceApplyAdam              m += (1-b1)(g - m); v += (1-b2)(g^2 - v); x -= lr sqrt(1-B2)/(1-B1) m / (sqrt(v) + epsilon)
 *             In step t, B1 = b1^t and B2 = b2^t. TensorFlow.js adds epsilon to sqrt(v / (1-B2)), so the rule passes epsilon sqrt(1-B2).
 *   adamax    ResourceApplyAdaMax            m as in adam; v = max(b2 v, |g|); x -= lr/(1-B1) m / (v + epsilon)
 *             The rule passes an lr that includes the decay of the learning rate.
 *   adagrad   ResourceApplyAdagradV2         a += g^2; x -= lr g / (sqrt(a) + epsilon)
 *             TensorFlow.js divides by sqrt(a + epsilon), so the rule passes epsilon / (2 sqrt(a)) for the smallest possible a. The error
 *             is at most epsilon / (8 a). Below SMALLEST_ACCUMULATOR the error is too large, so TensorFlow.js takes the steps.
 *   rmsprop   ResourceApplyRMSProp           s += (1-decay)(g^2 - s); a = momentum a + lr g / sqrt(s + epsilon); x -= a
 *   centered  ResourceApplyCenteredRMSProp   the same with c += (1-decay)(g - c) and sqrt(s - c^2 + epsilon)
 *             TensorFlow.js subtracts epsilon under the root, so the rule passes -epsilon.
 *
 * Adadelta has no rule, because the formulas differ. TensorFlow divides by a mean square that includes this step's gradient; TensorFlow.js
 * divides by the previous mean square.
 */

/** Describes the slots in one optimizer property: their name suffix and their initial value. */
export interface SlotKind {
  readonly property: string;
  readonly suffix: string;
  readonly initial: number;
  /** Smallest slot value for which the kernel gives correct results. Undefined if there is no limit. */
  readonly atLeast?: number;
}

/** A scalar kernel input. The caller disposes `tensor` after the step if `own` is true. */
export type Scalar = number | { readonly tensor: tfjs.Tensor; readonly own: boolean };

export interface OptimizerRule {
  readonly kernel: string;
  /** Slots in the order in which the kernel expects them after the variable. */
  readonly slots: readonly SlotKind[];
  readonly attributes: readonly KernelAttribute[];
  /** Position of the gradient among the kernel's scalar inputs. */
  readonly gradientAt: number;
  /** Returns the scalars for one step. Must be called exactly once in each step. */
  scalars(): readonly Scalar[];
  /** Updates the optimizer's own counters, such as the powers of Adam's betas. Must be called after each step. */
  advance(): void;
}

/** A rule, or the reason why the optimizer has no rule. Derived optimizer classes have no rule, because their formulas may differ. */
export type RuleOrReason = OptimizerRule | { readonly reason: string };

const SMALLEST_ACCUMULATOR = 0.05;

interface Sgd {
  readonly c: tfjs.Scalar;
}

interface Momentum extends Sgd {
  readonly m: tfjs.Scalar;
  readonly useNesterov: boolean;
}

interface Adam {
  readonly learningRate: number;
  readonly beta1: number;
  readonly beta2: number;
  readonly epsilon: number;
  readonly accBeta1: tfjs.Variable;
  readonly accBeta2: tfjs.Variable;
}

interface Adamax extends Omit<Adam, 'accBeta2'> {
  readonly decay: number;
  readonly iteration: tfjs.Variable;
}

interface Adagrad {
  readonly learningRate: number;
  readonly initialAccumulatorValue: number;
}

interface RmsProp {
  readonly learningRate: number;
  readonly decay: number;
  readonly momentum: number;
  readonly epsilon: number;
  readonly centered: boolean;
}

const NOTHING = () => {};

export function ruleOf(native: NativeBackend, optimizer: tfjs.Optimizer): RuleOrReason {
  const { SGDOptimizer, MomentumOptimizer, AdamOptimizer, AdamaxOptimizer, AdagradOptimizer, AdadeltaOptimizer, RMSPropOptimizer } =
    native.tf;
  const kind = (optimizer as object).constructor;
  switch (kind) {
    case SGDOptimizer:
      return sgd(native, optimizer as unknown as Sgd);
    case MomentumOptimizer:
      return momentum(native, optimizer as unknown as Momentum);
    case AdamOptimizer:
      return adam(native, optimizer as unknown as Adam);
    case AdamaxOptimizer:
      return adamax(native, optimizer as unknown as Adamax);
    case AdagradOptimizer:
      return adagrad(native, optimizer as unknown as Adagrad);
    case RMSPropOptimizer:
      return rmsprop(native, optimizer as unknown as RmsProp);
    case AdadeltaOptimizer:
      return { reason: "TensorFlow's adadelta kernel uses a different formula from TensorFlow.js" };
    default:
      return { reason: `the optimizer ${kind.name} has no native kernel` };
  }
}

function sgd(native: NativeBackend, optimizer: Sgd): OptimizerRule {
  return {
    kernel: 'ResourceApplyGradientDescent',
    slots: [],
    attributes: [],
    gradientAt: 1,
    scalars: () => [learningRate(native, optimizer)],
    advance: NOTHING,
  };
}

function momentum(native: NativeBackend, optimizer: Momentum): OptimizerRule {
  return {
    kernel: 'ResourceApplyMomentum',
    slots: [{ property: 'accumulations', suffix: 'momentum', initial: 0 }],
    attributes: [native.flag('use_nesterov', optimizer.useNesterov)],
    gradientAt: 1,
    scalars: () => [learningRate(native, optimizer), { tensor: optimizer.m, own: false }],
    advance: NOTHING,
  };
}

/**
 * Returns the learning rate. TensorFlow.js's sgd keeps the negative rate in the `c` tensor, and does not use the `learningRate` property.
 */
function learningRate(native: NativeBackend, optimizer: Sgd): Scalar {
  return { tensor: native.run('Neg', [optimizer.c]), own: true };
}

function adam(native: NativeBackend, optimizer: Adam): OptimizerRule {
  return {
    kernel: 'ResourceApplyAdam',
    slots: [
      { property: 'accumulatedFirstMoment', suffix: 'm', initial: 0 },
      { property: 'accumulatedSecondMoment', suffix: 'v', initial: 0 },
    ],
    attributes: [native.flag('use_nesterov', false)],
    gradientAt: 6,
    scalars() {
      const { accBeta1, accBeta2, learningRate, beta1, beta2 } = optimizer;
      // Rounding to float32 in JavaScript gives the same bits as tensor operations, with fewer calls.
      const epsilon = Math.fround(Math.sqrt(Math.fround(1 - numberOf(accBeta2)))) * Math.fround(optimizer.epsilon);
      const powers = [accBeta1, accBeta2].map((tensor) => ({ tensor, own: false }));
      return [...powers, learningRate, beta1, beta2, epsilon];
    },
    advance() {
      multiply(native, optimizer.accBeta1, optimizer.beta1);
      multiply(native, optimizer.accBeta2, optimizer.beta2);
    },
  };
}

function adamax(native: NativeBackend, optimizer: Adamax): OptimizerRule {
  const { tf } = native;
  return {
    kernel: 'ResourceApplyAdaMax',
    slots: [
      { property: 'accumulatedFirstMoment', suffix: 'm', initial: 0 },
      { property: 'accumulatedWeightedInfNorm', suffix: 'v', initial: 0 },
    ],
    attributes: [],
    gradientAt: 5,
    scalars() {
      const { accBeta1, iteration, learningRate, decay, beta1, beta2, epsilon } = optimizer;
      const rate = tf.tidy(() => tf.div(learningRate, tf.add(tf.mul(iteration, decay), 1)));
      return [{ tensor: accBeta1, own: false }, { tensor: rate, own: true }, beta1, beta2, epsilon];
    },
    advance() {
      tf.tidy(() => optimizer.iteration.assign(tf.add(optimizer.iteration, 1)));
      multiply(native, optimizer.accBeta1, optimizer.beta1);
    },
  };
}

function multiply(native: NativeBackend, variable: tfjs.Variable, factor: number): void {
  native.tf.tidy(() => variable.assign(native.tf.scalar(numberOf(variable) * Math.fround(factor))));
}

function numberOf(scalar: tfjs.Tensor): number {
  return scalar.dataSync()[0] as number;
}

function adagrad(native: NativeBackend, optimizer: Adagrad): RuleOrReason {
  const { initialAccumulatorValue: initial } = optimizer;
  const epsilon = native.tf.backend().epsilon();
  if (!(initial >= SMALLEST_ACCUMULATOR)) {
    return { reason: `TensorFlow's adagrad kernel is inaccurate for accumulators below ${SMALLEST_ACCUMULATOR}` };
  }
  return {
    kernel: 'ResourceApplyAdagradV2',
    slots: [{ property: 'accumulatedGrads', suffix: 'accumulator', initial, atLeast: SMALLEST_ACCUMULATOR }],
    attributes: [native.flag('update_slots', true)],
    gradientAt: 2,
    scalars: () => [optimizer.learningRate, epsilon / (2 * Math.sqrt(initial))],
    advance: NOTHING,
  };
}

function rmsprop(_native: NativeBackend, optimizer: RmsProp): OptimizerRule {
  const { centered } = optimizer;
  const meanSquares = { property: 'accumulatedMeanSquares', suffix: 'rms', initial: 0 };
  const moments = { property: 'accumulatedMoments', suffix: 'momentum', initial: 0 };
  const meanGradients = { property: 'accumulatedMeanGrads', suffix: 'mg', initial: 0 };
  return {
    kernel: centered ? 'ResourceApplyCenteredRMSProp' : 'ResourceApplyRMSProp',
    slots: centered ? [meanGradients, meanSquares, moments] : [meanSquares, moments],
    attributes: [],
    gradientAt: 4,
    scalars() {
      const { learningRate, decay, momentum, epsilon } = optimizer;
      return [learningRate, decay, momentum, centered ? -epsilon : epsilon];
    },
    advance: NOTHING,
  };
}
