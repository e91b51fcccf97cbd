import * as tf from '@tensorflow/tfjs';
import { describe, expect, it } from 'vitest';
import { LearningRateSchedule } from './learning-rate.ts';

const at = { step: 0, epoch: 0, worldSize: 1 };

/** Returns how much one step changes a variable whose gradient is 1. */
function distanceOf(optimizer: tf.Optimizer): number {
  const variable = tf.variable(tf.scalar(0));
  optimizer.minimize(() => variable.mul(1).asScalar(), false, [variable]);
  const distance = -(variable.dataSync()[0] ?? 0);
  variable.dispose();
  return distance;
}

describe('LearningRateSchedule', () => {
  it.each([
    ['sgd', () => tf.train.sgd(0.125)],
    ['momentum', () => tf.train.momentum(0.125, 0.9)],
  ])('applies its rate to %s even if the program has assigned the same number to optimizer.learningRate', (_, create) => {
    const optimizer = create();
    (optimizer as unknown as { learningRate: number }).learningRate = 0.5;
    new LearningRateSchedule(0.5, optimizer).apply(at);
    expect(distanceOf(optimizer)).toBe(0.5);
    optimizer.dispose();
  });

  it('replaces a rate set by a callback, and restores the original rate', () => {
    const optimizer = tf.train.sgd(0.125);
    const schedule = new LearningRateSchedule(0.5, optimizer);
    schedule.apply(at);
    (optimizer as unknown as { setLearningRate(rate: number): void }).setLearningRate(0.25);
    schedule.apply({ ...at, step: 1 });
    expect(distanceOf(optimizer)).toBe(0.5);
    schedule.restore();
    expect(distanceOf(optimizer)).toBe(0.125);
    optimizer.dispose();
  });
});
