/**
 * `check FOLDER`: loads the models that keras-conversion.py has generated, and compares their predictions. `generate SEED COUNT FOLDER [LAYER ...]`:
 * exports random models, with their inputs and predictions in cases.json. Both print a summary as JSON. About one option in ten has a value
 * that the conversion must refuse.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'tony-ts/training';
import { makers } from './keras-conversion-layers.mjs';

/** @import { LayersModel, Tensor } from '@tensorflow/tfjs' */
/** @typedef {{ shape: number[], dtype: 'float32' | 'int32', values: number[] }} Input */
/** @typedef {{ shape: number[], values: number[] }} Output */
/** @typedef {{ index: number, layer: string, what: string, inputs: Input[], outputs: Output[] }} Case */

const [action, ...words] = process.argv.slice(2);
const cluster = await join();
const { tf, models } = cluster;

/** @param {LayersModel} model @param {Input[]} inputs @returns {Output[]} */
function predict(model, inputs) {
  return tf.tidy(() => {
    const tensors = inputs.map(({ values, shape, dtype }) => tf.tensor(values, shape, dtype));
    const outputs = [model.predict(tensors.length === 1 ? /** @type {Tensor} */ (tensors[0]) : tensors, { batchSize: 3 })].flat();
    return outputs.map((each) => ({ shape: each.shape, values: [...each.dataSync()] }));
  });
}

/** @param {Output[]} own @param {Output[]} others */
function difference(own, others) {
  const shapes = [own, others].map((all) => JSON.stringify(all.map(({ shape }) => shape)));
  if (shapes[0] !== shapes[1]) {
    return `shapes ${shapes.join(' and ')}`;
  }
  for (const [at, { values }] of own.entries()) {
    const other = others[at]?.values ?? [];
    const largest = Math.max(1, ...other.map(Math.abs));
    const apart = Math.max(0, ...values.map((value, index) => Math.abs(value - (other[index] ?? Number.NaN)))) / largest;
    if (!(apart < 1e-4)) {
      return `apart ${apart}`;
    }
  }
  return null;
}

/** @param {string} folder */
async function check(folder) {
  const cases = /** @type {Case[]} */ (JSON.parse(readFileSync(`${folder}/cases.json`, 'utf8')));
  const different = [];
  /** @type {Record<string, number>} */
  const equal = {};
  for (const { index, layer, what, inputs, outputs } of cases) {
    /** @type {string | null} */
    let problem;
    try {
      const model = await models.loadLayersModel(`file://${folder}/${index}`);
      problem = difference(predict(model, inputs), outputs);
      model.dispose();
    } catch (error) {
      problem = String(error);
    }
    if (problem === null) {
      equal[layer] = (equal[layer] ?? 0) + 1;
    } else {
      different.push([what, problem]);
    }
  }
  return { equal, different };
}

/** @param {number} seed @param {number} count @param {string} folder @param {string[]} only */
async function generate(seed, count, folder, only) {
  const all = Object.entries(makers(tf)).filter(([layer]) => only.length === 0 || only.includes(layer));
  const cases = [];
  for (let index = 0; index < count; index++) {
    const [layer, make] = /** @type {(typeof all)[number]} */ (all[index % all.length]);
    for (let attempt = 0; ; attempt++) {
      const random = createRandom(`${seed} ${index} ${attempt}`);
      try {
        const model = make(random);
        model.setWeights(
          model.weights.map((weight) => {
            const shape = /** @type {number[]} */ (weight.shape);
            const values = tf.tensor(numbers(random, shape), shape).mul(0.5);
            return /variance/.test(weight.name) ? values.abs().add(0.5) : values;
          }),
        );
        const inputs = model.inputs.map(({ shape, dtype }) => {
          const full = [3, ...shape.slice(1).map(Number)];
          const drawn = numbers(random, full);
          const values = dtype === 'int32' ? drawn.map((each) => Math.abs(Math.round(2 * each)) % 5) : drawn;
          return { shape: full, dtype: /** @type {'float32' | 'int32'} */ (dtype === 'int32' ? 'int32' : 'float32'), values };
        });
        const outputs = predict(model, inputs);
        const what = `${layer} ${index}: ${JSON.stringify(model.toJSON(null, false)).slice(0, 2000)}`;
        await models.exportLayersModel(model, `file://${folder}/${index}`);
        cases.push({ index, layer, what, inputs, outputs });
        break;
      } catch (error) {
        if (attempt > 30) {
          throw error;
        }
      }
    }
  }
  writeFileSync(`${folder}/cases.json`, JSON.stringify(cases));
  return { written: cases.length };
}

/** @param {string} seed */
function createRandom(seed) {
  let state = 2166136261;
  for (const letter of seed) {
    state = Math.imul(state ^ letter.charCodeAt(0), 16777619);
  }
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** @param {() => number} random @param {number[]} shape */
function numbers(random, shape) {
  const size = shape.reduce((a, b) => a * b, 1);
  const values = [-1.5, -0.7, -0.2, 0, 0, 0.3, 1, 1.9];
  return Array.from({ length: size }, () => values[Math.floor(random() * values.length)] ?? 0);
}

const summary =
  action === 'check' ? await check(words[0] ?? '') : await generate(Number(words[0]), Number(words[1]), words[2] ?? '', words.slice(3));
process.stdout.write(`\n${JSON.stringify(summary)}\n`);
await cluster.close();
