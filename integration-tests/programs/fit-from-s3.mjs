/**
 * `fit-from-s3.mjs DATA OUTPUT [DIE_AT]`: trains on the lines of DATA, then writes the weights to OUTPUT/report.json and an export to
 * OUTPUT/model. With DIE_AT, the program is part of a job: in the first generation, the process kills itself at step DIE_AT after the
 * checkpoint of step 20 exists. Without DIE_AT, it also writes its checkpoints and summaries to OUTPUT.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { data, join } from 'tony-ts/training';

const [input = '', output = '', dieAt] = process.argv.slice(2);
const own = { summaryDir: `${output}/summaries`, checkpoint: { dir: `${output}/checkpoints`, everySteps: 20 } };
const cluster = await join(dieAt === undefined ? own : {});
const { tf } = cluster;
const model = tf.sequential({
  layers: [tf.layers.dense({ units: 1, inputShape: [3], kernelInitializer: 'zeros' })],
});
model.compile({ optimizer: tf.train.adam(0.02), loss: 'meanSquaredError' });
/** @type {number[]} */
const steps = [];
await cluster.fit(model, data.jsonl(input, { splitBytes: 4000 }).shuffle(50).batch(10), {
  epochs: 3,
  summaries: { everySteps: 20 },
  seed: 7,
  callbacks: {
    onBatchEnd: async (_, { step }) => {
      steps.push(step);
      if (cluster.generation !== 1 || step !== Number(dieAt)) {
        return;
      }
      while ((await cluster.storage.stat(`${output}/checkpoints/step-20/manifest.json`)) === null) {
        await delay(20);
      }
      process.kill(process.pid, 'SIGKILL');
    },
  },
});
const weights = model.getWeights().map((each) => [...each.dataSync()]);
await cluster.models.exportLayersModel(model, `${output}/model`);
const report = { weights, steps, variables: Object.keys(process.env).filter((name) => name.startsWith('AWS_')) };
await cluster.storage.write(`${output}/report.json`, Buffer.from(JSON.stringify(report)));
