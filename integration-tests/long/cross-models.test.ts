import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { ROOT } from '../command.ts';
import { temporaryFolder, USER, useCluster } from '../harness.ts';
import { pythonWith } from '../python-environment.ts';
import { SubmittedJob } from './submitted-job.ts';

/** Passes models between TensorFlow.js and the real Keras through HDFS, in one job whose stages use different languages. */

const cluster = useCluster();
const REQUIREMENT = 'tensorflow-cpu==2.21.0';
const python = await pythonWith(path.join(ROOT, '.cache', REQUIREMENT.replace('==', '-')), [REQUIREMENT]);

const JOB = {
  name: 'cross-models',
  source: path.join(ROOT, 'integration-tests', 'programs'),
  framework: 'tfjs',
  roles: {
    export: { kind: 'independent', command: 'node cross-models.mjs export' },
    keras: { kind: 'independent', after: { role: 'export' }, command: `${python} cross-models.py` },
    check: { kind: 'independent', after: { role: 'keras' }, command: 'node cross-models.mjs check' },
  },
};

test('models on HDFS make the same predictions and train on in TensorFlow.js and in Keras', async () => {
  const file = path.join(await temporaryFolder(), 'job.yaml');
  await writeFile(file, JSON.stringify(JOB));
  const job = await SubmittedJob.submit(cluster, file);
  const final = await job.ended();
  expect(final, await job.output()).toMatchObject({ state: 'succeeded', message: '' });
  const results = async (name: string) => {
    const text = (await cluster.hdfsRead(`/user/${USER}/.tony-ts/output/${job.id}/${name}.json`)).toString();
    return JSON.parse(text) as { readonly differences: Readonly<Record<string, number>> };
  };
  const { differences: inKeras } = await results('keras');
  const { differences: inTfjs } = await results('check');
  expect(Object.keys(inKeras)).toEqual(['layers model', 'SavedModel', 'Keras file']);
  expect(Object.keys(inTfjs)).toEqual(['layers model', 'SavedModel', 'trained layers model']);
  for (const difference of [...Object.values(inKeras), ...Object.values(inTfjs)]) {
    expect(difference).toBeLessThan(1e-5);
  }
});
