// @ts-nocheck: this file is plain JavaScript, like a user's program, and tfjs-node with its types might not be installed
/**
 * Checks each tfjs-node feature that training needs, or only those that its arguments name. Prints `NAME ok` or `NAME: <the error>` for each feature, then `done`. The images are
 * vertical (0) or horizontal (1) lines in deterministic noise; a working model learns to distinguish them.
 */
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { isMainThread, parentPort, Worker } from 'node:worker_threads';
import * as tf from '@tensorflow/tfjs-node';

const SIDE = 12;
const COUNT = 96;

function lines() {
  const noise = tf.randomUniform([COUNT, SIDE, SIDE, 1], 0, 0.3, 'float32', 7).arraySync();
  const labels = [];
  noise.forEach((image, i) => {
    labels.push(i % 2);
    const at = 1 + (i % (SIDE - 2));
    for (let j = 0; j < SIDE; j++) {
      image[i % 2 ? at : j][i % 2 ? j : at][0] = 1;
    }
  });
  return { images: tf.tensor4d(noise), labels: tf.oneHot(tf.tensor1d(labels, 'int32'), 2).toFloat() };
}

function check(condition, text) {
  if (!condition) {
    throw new Error(text);
  }
}

function classifier(...layers) {
  const model = tf.sequential({ layers });
  model.add(tf.layers.flatten());
  model.add(tf.layers.dense({ units: 2, activation: 'softmax', kernelInitializer: tf.initializers.glorotUniform({ seed: 5 }) }));
  return model;
}

async function learns(model, optimizer, epochs, accuracy) {
  const { images, labels } = lines();
  model.compile({ optimizer, loss: 'categoricalCrossentropy', metrics: ['accuracy'] });
  const { history } = await model.fit(images, labels, { epochs, batchSize: 16, shuffle: false, verbose: 0 });
  const last = history.loss.at(-1);
  check(Number.isFinite(last) && last < history.loss[0], `the loss went from ${history.loss[0]} to ${last}`);
  check(history.acc.at(-1) >= accuracy, `accuracy ${history.acc.at(-1)}`);
  return model;
}

const init = (seed) => tf.initializers.heNormal({ seed });
const input = { inputShape: [SIDE, SIDE, 1], activation: 'relu', padding: 'same' };

const FEATURES = {
  async optimizers() {
    const { images, labels } = lines();
    const rates = { sgd: 0.1, momentum: 0.05, adagrad: 0.05, adadelta: 1, adam: 0.01, adamax: 0.01, rmsprop: 0.005 };
    for (const [name, rate] of Object.entries(rates)) {
      const model = classifier(tf.layers.activation({ activation: 'linear', inputShape: [SIDE, SIDE, 1] }));
      const optimizer = name === 'momentum' ? tf.train.momentum(rate, 0.9) : tf.train[name](rate);
      model.compile({ optimizer, loss: 'categoricalCrossentropy' });
      const { history } = await model.fit(images, labels, { epochs: 8, batchSize: 16, shuffle: false, verbose: 0 });
      check(history.loss.at(-1) < 0.9 * history.loss[0], `${name}: the loss went from ${history.loss[0]} to ${history.loss.at(-1)}`);
    }
  },
  convolution: () =>
    learns(
      classifier(
        tf.layers.conv2d({ ...input, filters: 6, kernelSize: 3, kernelInitializer: init(1) }),
        tf.layers.batchNormalization(),
        tf.layers.maxPooling2d({ poolSize: 2 }),
        tf.layers.dropout({ rate: 0.1, seed: 3 }),
      ),
      tf.train.adam(0.01),
      12,
      0.95,
    ),
  depthwise: () =>
    learns(
      classifier(tf.layers.depthwiseConv2d({ ...input, kernelSize: 3, depthMultiplier: 6, depthwiseInitializer: init(1) })),
      tf.train.adam(0.01),
      15,
      0.95,
    ),
  separable: () =>
    learns(
      classifier(
        tf.layers.separableConv2d({
          ...input,
          filters: 6,
          kernelSize: 3,
          depthMultiplier: 3,
          depthwiseInitializer: init(1),
          pointwiseInitializer: init(2),
        }),
      ),
      tf.train.adam(0.01),
      15,
      0.95,
    ),
  transposed: () =>
    learns(
      classifier(
        tf.layers.conv2d({ ...input, filters: 4, kernelSize: 3, strides: 2, kernelInitializer: init(1) }),
        tf.layers.conv2dTranspose({
          filters: 4,
          kernelSize: 3,
          strides: 2,
          padding: 'same',
          activation: 'relu',
          kernelInitializer: init(2),
        }),
      ),
      tf.train.adam(0.01),
      15,
      0.95,
    ),
  upsampling: () =>
    learns(
      classifier(
        tf.layers.averagePooling2d({ poolSize: 2, inputShape: [SIDE, SIDE, 1] }),
        tf.layers.upSampling2d({ size: [2, 2] }),
        tf.layers.conv2d({ filters: 4, kernelSize: 3, padding: 'same', activation: 'relu', kernelInitializer: init(1) }),
      ),
      tf.train.adam(0.01),
      15,
      0.95,
    ),
  async datasets() {
    const { images, labels } = lines();
    const [pictures, classes] = [await images.array(), await labels.array()];
    const dataset = tf.data
      .zip({ xs: tf.data.array(pictures), ys: tf.data.array(classes) })
      .shuffle(COUNT, '11')
      .batch(16);
    const model = classifier(tf.layers.conv2d({ ...input, filters: 4, kernelSize: 3, kernelInitializer: init(1) }));
    model.compile({ optimizer: tf.train.adam(0.01), loss: 'categoricalCrossentropy', metrics: ['accuracy'] });
    const { history } = await model.fitDataset(dataset, { epochs: 15, verbose: 0 });
    check(history.acc.at(-1) >= 0.95, `accuracy ${history.acc.at(-1)}`);
    const file = path.join(scratch, 'rows.csv');
    fs.writeFileSync(file, 'a,b\n1,10\n2,20\n3,30\n');
    const rows = await tf.data.csv(`file://${file}`, { columnConfigs: { b: { isLabel: true } } }).toArray();
    check(JSON.stringify(rows.at(-1)) === '{"xs":{"a":3},"ys":{"b":30}}', JSON.stringify(rows));
  },
  async saving() {
    const model = await learns(
      classifier(tf.layers.conv2d({ ...input, filters: 4, kernelSize: 3, kernelInitializer: init(1) })),
      'adam',
      2,
      0,
    );
    await model.save(`file://${scratch}/model`);
    const again = await tf.loadLayersModel(`file://${scratch}/model/model.json`);
    const { images } = lines();
    const difference = tf.max(tf.abs(tf.sub(model.predict(images), again.predict(images)))).dataSync()[0];
    check(difference === 0, `predictions differ by ${difference}`);
  },
  async images() {
    const pixels = tf
      .range(0, SIDE * SIDE * 3, 1, 'int32')
      .mod(256)
      .reshape([SIDE, SIDE, 3]);
    const png = tf.node.decodePng(await tf.node.encodePng(pixels));
    check(tf.equal(png, pixels).all().dataSync()[0] === 1, 'png');
    const jpeg = tf.node.decodeImage(await tf.node.encodeJpeg(tf.fill([SIDE, SIDE, 3], 200, 'int32')));
    check(tf.abs(tf.sub(jpeg, 200)).max().dataSync()[0] <= 2, 'jpeg');
  },
  summaries() {
    const writer = tf.node.summaryFileWriter(path.join(scratch, 'summaries'));
    writer.scalar('loss', 0.25, 1);
    writer.histogram('weights', tf.range(0, 10, 1), 1);
    writer.flush();
    const [file] = fs.readdirSync(path.join(scratch, 'summaries'));
    check(file?.includes('tfevents'), String(file));
    check(fs.readFileSync(path.join(scratch, 'summaries', file)).includes('weights'), 'no histogram');
  },
  async customLoop() {
    const weights = tf.variable(tf.zeros([3, 1]));
    const xs = tf.randomNormal([64, 3], 0, 1, 'float32', 3);
    const truth = tf.tensor2d([[2], [-1], [0.5]]);
    const ys = tf.matMul(xs, truth);
    const optimizer = tf.train.sgd(0.2);
    const { numTensors } = tf.memory();
    for (let step = 0; step < 60; step++) {
      const { value, grads } = tf.variableGrads(() => tf.losses.meanSquaredError(ys, tf.matMul(xs, weights)), [weights]);
      optimizer.applyGradients(grads);
      tf.dispose([value, grads]);
    }
    check(tf.memory().numTensors === numTensors, `${tf.memory().numTensors - numTensors} tensors leak`);
    const error = tf.max(tf.abs(tf.sub(weights, truth))).dataSync()[0];
    check(error < 1e-3, `the weights are wrong by ${error}`);
  },
  workers: () =>
    new Promise((resolve, reject) => {
      const worker = new Worker(new URL(import.meta.url));
      worker.once('error', reject);
      worker.once('message', (sum) => (sum === 45 ? resolve() : reject(new Error(`sum ${sum}`))));
    }),
};

const scratch = isMainThread ? fs.mkdtempSync(path.join(os.tmpdir(), 'features-')) : '';

if (isMainThread) {
  console.log(`backend ${tf.getBackend() === 'tensorflow' ? 'ok' : tf.getBackend()}`);
  const wanted = process.argv.slice(2);
  for (const [name, feature] of Object.entries(FEATURES).filter(([each]) => wanted.length === 0 || wanted.includes(each))) {
    try {
      await feature();
      console.log(`${name} ok`);
    } catch (error) {
      console.log(`${name}: ${error.message}`);
    }
  }
  fs.rmSync(scratch, { recursive: true });
  console.log('done');
} else {
  parentPort.postMessage(tf.sum(tf.range(0, 10, 1)).dataSync()[0]);
}
