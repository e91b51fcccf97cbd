import { createHash } from 'node:crypto';
import type { Tensor } from '@tensorflow/tfjs';
import { data, join } from 'tony-ts/training';

const cluster = await join();
const { tf } = cluster;

// Points on a circle of radius 1, which the generator learns to imitate.
const points = Array.from({ length: 2048 }, (_, index) => ({ real: [Math.cos(index * 2.4), Math.sin(index * 2.4)] }));

const dense = (units: number, seed: number, more: object = {}) =>
  tf.layers.dense({ units, kernelInitializer: tf.initializers.glorotUniform({ seed }), activation: 'relu', ...more });
const generator = tf.sequential({ layers: [dense(32, 1, { inputShape: [4] }), dense(32, 2), dense(2, 3, { activation: 'linear' })] });
const discriminator = tf.sequential({
  layers: [dense(32, 4, { inputShape: [2] }), tf.layers.dropout({ rate: 0.2 }), dense(32, 5), dense(1, 6, { activation: 'linear' })],
});

// Returns the logit of the probability that a point is real. The losses are the cross-entropy between the logits and the labels "real" and
// "fake".
const logitOf = (made: Tensor) => discriminator.apply(made, { training: true }) as Tensor;
const invent = (count: number) => generator.apply(tf.randomNormal([count, 4]), { training: true }) as Tensor;
const lossOfReal = (made: Tensor) => tf.softplus(tf.neg(logitOf(made))).mean();
const lossOfFake = (made: Tensor) => tf.softplus(logitOf(made)).mean();

const forGenerator = tf.train.adam(0.002, 0.5);
const forDiscriminator = tf.train.adam(0.002, 0.5);
const loop = await cluster.loop({
  models: { generator, discriminator },
  optimizers: { forGenerator, forDiscriminator },
  data: data.fromArray(points).shuffle(2048).batch(64),
  epochs: 12,
  state: { worst: 0 },
});

for await (const { step } of loop) {
  const dLoss = await loop.step(
    ({ real }) => tf.add(lossOfReal(real), lossOfFake(invent(real.shape[0] ?? 0))).asScalar(),
    forDiscriminator,
    { variables: discriminator },
  );
  const gLoss = await loop.step(({ real }) => lossOfReal(invent(real.shape[0] ?? 0)).asScalar(), forGenerator, { variables: generator });
  loop.state.worst = Math.max(loop.state.worst, gLoss);
  if (step % 20 === 0) {
    loop.report({ 'discriminator/loss': dLoss, 'generator/loss': gLoss });
  }
}

const invented = tf.tidy(() => generator.predict(tf.randomNormal([500, 4], 0, 1, 'float32', 1)) as Tensor);
const radius = tf.tidy(
  () =>
    tf
      .sqrt(tf.sum(tf.square(invented), 1))
      .mean()
      .dataSync()[0] ?? 0,
);
const weights = [...generator.getWeights(), ...discriminator.getWeights()].map((weight) => Buffer.from(weight.dataSync().buffer));
const digest = createHash('sha256').update(Buffer.concat(weights)).digest('hex').slice(0, 16);
console.log(
  `mean radius of generated points: ${radius.toFixed(3)}; worst generator loss: ${loop.state.worst.toFixed(3)}; weights ${digest}`,
);
