import type * as tfjs from '@tensorflow/tfjs';
import type { Attribute, NativeBackend } from './native-backend.ts';

/*
 * How each optimizer of TensorFlow.js 4.22 is said in TensorFlow's fused kernels, whose formulas are not always the same. g is the gradient,
 * x the variable:
 *
 *   sgd       ResourceApplyGradientDescent   x -= lr g
 *   momentum  ResourceApplyMomentum          a = momentum a + g; x -= lr a; Nesterov's: x -= lr g + lr momentum a
 *   adam      ResourceApplyAdam              m += (1-b1)(g - m); v += (1-b2)(g^2 - v); x -= lr sqrt(1-B2)/(1-B1) m / (sqrt(v) + epsilon)
 *             TensorFlow.js adds its epsilon to sqrt(v / (1-B2)): epsilon sqrt(1-B2) is passed. B1, B2: powers of b1, b2 of this step.
 *   adamax    ResourceApplyAdaMax            m as adam's; v = max(b2 v, |g|); x -= lr/(1-B1) m / (v + epsilon)
 *             The decay of the learning rate is in what is passed as lr.
 *   adagrad   ResourceApplyAdagradV2         a += g^2; x -= lr g / (sqrt(a) + epsilon)
 *             TensorFlow.js divides by sqrt(a + epsilon): epsilon / (2 sqrt(a)) is passed, of the smallest a that there can be; the error is
 *             at most epsilon / (8 a), so accumulators below SMALLEST_ACCUMULATOR are left to TensorFlow.js.
 *   rmsprop   ResourceApplyRMSProp           s += (1-decay)(g^2 - s); a = momentum a + lr g / sqrt(s + epsilon); x -= a
 *   centered  ResourceApplyCenteredRMSProp   the same with c += (1-decay)(g - c) and sqrt(s - c^2 + epsilon)
 *             TensorFlow.js subtracts its epsilon there: minus epsilon is passed.
 *
 * Not adadelta: TensorFlow's divides by the mean square that has this step's gradient in it, TensorFlow.js's by the one before.
 */

/** Of a slot, as TensorFlow.js's optimizers keep them: one for each variable, in the order of the gradients. */
export interface OptimizerSlot {
  readonly originalName: string;
  readonly variable: tfjs.Variable;
}

/** A kind of slot: the optimizer's property that holds them, the ending of their names, and what they begin with. */
export interface SlotKind {
  readonly property: string;
  readonly suffix: string;
  readonly initial: number;
  /** A kernel that is right for larger values only. */
  readonly atLeast?: number;
}

/** A scalar that the kernel takes: a number, or a tensor that is disposed after the step when it is `own`. */
export type Scalar = number | { readonly tensor: tfjs.Tensor; readonly own: boolean };

export interface OptimizerRule {
  readonly kernel: string;
  /** In the kernel's order, after the variable. */
  readonly slots: readonly SlotKind[];
  readonly attributes: readonly Attribute[];
  /** Where among the kernel's scalars the gradient stands. */
  readonly gradientAt: number;
  /** Computed once a step. */
  scalars(): readonly Scalar[];
  /** What changes once a step: the powers of Adam's betas. */
  advance(): void;
}

/** TensorFlow.js's own kind is meant, not one derived from it: that one may do something else. */
export type RuleOrReason = OptimizerRule | { readonly reason: string };

export const SMALLEST_ACCUMULATOR = 0.05;

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
      return { reason: "TensorFlow's kernel for adadelta follows another formula than TensorFlow.js" };
    default:
      return { reason: `there is no kernel for the optimizer ${kind.name}` };
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

/** TensorFlow.js's sgd steps by its tensor `c`, whatever its learningRate says. */
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
      // In JavaScript, rounded as float32: fewer calls, and the same bits.
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
  // As TensorFlow.js, which has no option for it.
  const epsilon = native.tf.backend().epsilon();
  if (!(initial >= SMALLEST_ACCUMULATOR)) {
    return { reason: `TensorFlow's kernel for adagrad is another one below an accumulator of ${SMALLEST_ACCUMULATOR}` };
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
