import type * as tfjs from '@tensorflow/tfjs';

/** Members of the tf.train optimizers that TensorFlow.js's type declarations omit. */
interface Members {
  iterations_: number;
  /** The learning rate, or undefined for custom optimizers that have none. */
  learningRate: number;
  setLearningRate?(rate: number): void;
}

function membersOf(optimizer: tfjs.Optimizer): Members {
  return optimizer as unknown as Members;
}

export function setIterations(optimizer: tfjs.Optimizer, iterations: number): void {
  membersOf(optimizer).iterations_ = iterations;
}

/** Returns the name of an optimizer's class for messages. Custom classes often have no `className`. */
export function nameOfOptimizer(optimizer: tfjs.Optimizer): string {
  const { className } = (optimizer as object).constructor as unknown as { readonly className?: unknown };
  return typeof className === 'string' ? className : (optimizer as object).constructor.name;
}

/** Returns the current learning rate, which the program may change during training. */
export function learningRateOf(optimizer: tfjs.Optimizer): number {
  return membersOf(optimizer).learningRate;
}

export function setLearningRate(optimizer: tfjs.Optimizer, rate: number): void {
  const members = membersOf(optimizer);
  if (members.setLearningRate === undefined) {
    members.learningRate = rate;
  } else {
    // SGD and its subclasses store the learning rate in a tensor, which this method replaces.
    members.setLearningRate(rate);
  }
}

/** Returns true for the optimizers of tf.train, but not for classes derived from them. */
export function isBuiltIn(tf: typeof tfjs, optimizer: tfjs.Optimizer): boolean {
  return builtInClasses(tf).includes((optimizer as object).constructor);
}

/** Returns true if the optimizer's class has its own `getWeights` and `setWeights`, which are not those of a class of TensorFlow.js. */
export function hasOwnWeights(tf: typeof tfjs, optimizer: tfjs.Optimizer): boolean {
  const inherited = [tf.Optimizer, ...builtInClasses(tf)].map((each) => (each as { readonly prototype: tfjs.Optimizer }).prototype);
  const isOwn = (method: 'getWeights' | 'setWeights') => !inherited.some((prototype) => prototype[method] === optimizer[method]);
  return isOwn('getWeights') && isOwn('setWeights');
}

function builtInClasses(tf: typeof tfjs): readonly unknown[] {
  const { SGDOptimizer, MomentumOptimizer, AdagradOptimizer, AdadeltaOptimizer, AdamOptimizer, AdamaxOptimizer, RMSPropOptimizer } = tf;
  return [SGDOptimizer, MomentumOptimizer, AdagradOptimizer, AdadeltaOptimizer, AdamOptimizer, AdamaxOptimizer, RMSPropOptimizer];
}

/** Returns the optimizer's hyperparameters, as far as they are properties: the keys of its `getConfig`, and the learning rate. */
export function configurationOf(optimizer: tfjs.Optimizer): Record<string, Plain> {
  let names: string[] = [];
  try {
    names = Object.keys(optimizer.getConfig());
  } catch {
    // A custom class may lack this method.
  }
  const properties = optimizer as unknown as Record<string, unknown>;
  return Object.fromEntries(
    ['learningRate', ...names].flatMap((name) => {
      const value = properties[name];
      return value === null || ['number', 'string', 'boolean'].includes(typeof value) ? [[name, value as Plain]] : [];
    }),
  );
}

export type Plain = number | string | boolean | null;
