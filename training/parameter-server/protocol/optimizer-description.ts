import type * as tfjs from '@tensorflow/tfjs';
import * as z from 'zod';
import { TonyError } from '../../../platform/errors.ts';
import { isBuiltIn } from '../../optimizer/optimizer-members.ts';

const number = z.number();
const rate = { learningRate: number };

/** A TensorFlow.js optimizer's class name and getConfig() result, from which another process can create an identical optimizer. */
export const optimizerDescription = z.discriminatedUnion('className', [
  z.object({ className: z.literal('SGD'), config: z.object(rate) }),
  z.object({ className: z.literal('Momentum'), config: z.object({ ...rate, momentum: number, useNesterov: z.boolean() }) }),
  z.object({ className: z.literal('Adagrad'), config: z.object({ ...rate, initialAccumulatorValue: number }) }),
  z.object({ className: z.literal('Adadelta'), config: z.object({ ...rate, rho: number, epsilon: number }) }),
  z.object({ className: z.literal('Adam'), config: z.object({ ...rate, beta1: number, beta2: number, epsilon: number }) }),
  z.object({ className: z.literal('Adamax'), config: z.object({ ...rate, beta1: number, beta2: number, epsilon: number, decay: number }) }),
  z.object({
    className: z.literal('RMSProp'),
    config: z.object({ ...rate, decay: number, momentum: number, epsilon: number, centered: z.boolean() }),
  }),
]);

export type OptimizerDescription = Readonly<z.infer<typeof optimizerDescription>>;

/**
 * @throws TonyError MODEL_INVALID if the optimizer is not part of TensorFlow.js. Servers do not execute code from workers, so they cannot
 *   run such an optimizer.
 */
export function describeOptimizer(tf: typeof tfjs, optimizer: tfjs.Optimizer): OptimizerDescription {
  const kind = (optimizer as object).constructor;
  const described = optimizerDescription.safeParse({ className: optimizer.getClassName(), config: optimizer.getConfig() });
  if (!isBuiltIn(tf, optimizer) || !described.success) {
    throw new TonyError('MODEL_INVALID', `parameter servers do not support the optimizer ${kind.name}`, {
      hint: 'Use one of tf.train: sgd, momentum, adagrad, adadelta, adam, adamax, rmsprop; or set strategy: all-reduce in job.yaml.',
    });
  }
  return described.data;
}

export function makeOptimizer(tf: typeof tfjs, { className, config }: OptimizerDescription): tfjs.Optimizer {
  switch (className) {
    case 'SGD':
      return tf.train.sgd(config.learningRate);
    case 'Momentum':
      return tf.train.momentum(config.learningRate, config.momentum, config.useNesterov);
    case 'Adagrad':
      return tf.train.adagrad(config.learningRate, config.initialAccumulatorValue);
    case 'Adadelta':
      return tf.train.adadelta(config.learningRate, config.rho, config.epsilon);
    case 'Adam':
      return tf.train.adam(config.learningRate, config.beta1, config.beta2, config.epsilon);
    case 'Adamax':
      return tf.train.adamax(config.learningRate, config.beta1, config.beta2, config.epsilon, config.decay);
    case 'RMSProp':
      return tf.train.rmsprop(config.learningRate, config.decay, config.momentum, config.epsilon, config.centered);
  }
}
