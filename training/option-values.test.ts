import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import { CheckpointStore } from '../contract/checkpoint/checkpoint-store.ts';
import { FileStorage } from '../storage/file-storage.ts';
import type { Cluster } from './cluster/cluster.ts';
import { Evaluator } from './cluster/evaluator.ts';
import { join } from './cluster/join.ts';
import { fromFeed } from './data/sources/feed-source.ts';
import { fromDataFrame } from './data/sources/frame-source.ts';
import { fromArray } from './data/sources/sources.ts';
import { planFit } from './fit/fit-options.ts';
import { checkLoopOptions } from './fit/loop-options.ts';
import { predict } from './inference/predict.ts';
import { checkCustomStepOptions } from './strategy/custom-step-options.ts';
import { sweep } from './sweep/sweep.ts';
import { grid, randomSearch } from './sweep/sweep-space.ts';
import { classifier, examples } from './testing/fit-world.ts';

/** Values that an option of each kind must not have. */
const WRONG = {
  count: [Number.NaN, '3', -1, 1.5, null, true, [1], {}],
  duration: [600, '600', '', 'soon', '-1m', '0s', null, true],
  positive: [Number.NaN, '3', 0, -1, Number.POSITIVE_INFINITY, null, true],
  notNegative: [Number.NaN, '3', -1, Number.POSITIVE_INFINITY, null, true],
  number: [Number.NaN, '3', null, true, Number.POSITIVE_INFINITY],
  flag: ['yes', 1, null, {}],
  name: ['', 3, null, true, {}, Number.NaN],
  choice: ['unknown', 3, null, true, {}],
  object: ['a', 3, null, true],
  function: ['a', 3, null, true, {}],
} as const;
type Kind = keyof typeof WRONG;

interface Subject {
  readonly call: (options: object) => unknown;
  /** Options that are valid together. */
  readonly base?: object;
  readonly kinds: Readonly<Record<string, Kind>>;
}

const store = new CheckpointStore(new FileStorage(), 'file:///tmp/none');
const world = { tf, storage: new FileStorage(), store, jobId: '', holder: 'e', onValues: () => {}, onNotice: () => {} };
const alone = { worldSize: 1, role: 'worker' } as Cluster;

const SUBJECTS: Readonly<Record<string, Subject>> = {
  fit: {
    call: (options) => planFit(examples(4), options),
    kinds: {
      ...{ accumulate: 'count', batchSize: 'count', epochs: 'count', initialEpoch: 'count', seed: 'count', verifyEverySteps: 'count' },
      ...{ stepsPerEpoch: 'count', validationBatchSize: 'count', validationSteps: 'count', clipNorm: 'positive', clipValue: 'positive' },
      ...{
        shuffle: 'flag',
        checkpoint: 'flag',
        syncBatchNorm: 'flag',
        name: 'name',
        onNaN: 'choice',
        summaries: 'object',
        state: 'object',
      },
      ...{ variables: 'object', placement: 'function', validationSplit: 'number' },
    },
  },
  "fit's summaries": { call: (summaries) => planFit(examples(4), { summaries }), kinds: { everySteps: 'count', histograms: 'flag' } },
  evaluateCheckpoints: {
    call: (options) => new Evaluator(world, classifier(tf.train.sgd(0.1)), examples(4), options),
    kinds: {
      ...{
        metric: 'name',
        mode: 'choice',
        phase: 'name',
        patience: 'count',
        minDelta: 'notNegative',
        batchSize: 'count',
        batches: 'count',
      },
      ...{ restoreBest: 'flag', everyMs: 'positive', signal: 'object', onEvaluation: 'function' },
    },
  },
  loop: {
    call: (options) => checkLoopOptions(options),
    kinds: { name: 'name', data: 'object', epochs: 'count', steps: 'count', seed: 'count', onNaN: 'choice', checkpoint: 'flag' },
  },
  step: { call: (options) => checkCustomStepOptions('step', options), kinds: { examples: 'notNegative' } },
  sweep: {
    call: (options) => sweep(alone, grid({ rate: [1] }), async () => ({}), options as never),
    base: { metric: 'loss', mode: 'min' },
    kinds: { metric: 'name', mode: 'choice', output: 'name', onError: 'choice' },
  },
  randomSearch: {
    call: (options) => randomSearch({ rate: [1] }, options as never),
    base: { trials: 1 },
    kinds: { trials: 'count' },
  },
  predict: {
    call: (options) => predict(alone, fromArray([1]), (elements) => elements, options as never),
    base: { output: 'out' },
    kinds: {
      ...{ format: 'choice', compression: 'choice', batchSize: 'count', columns: 'object', signal: 'object', input: 'function' },
      result: 'function',
    },
  },
  join: {
    call: (options) => join(options),
    kinds: {
      ...{ data: 'object', checkpoint: 'object', summaryDir: 'name', outputDir: 'name' },
      timeouts: 'object',
    },
  },
  'checkpoint of join': {
    call: (checkpoint) => join({ checkpoint: checkpoint as { dir: string } }),
    base: { dir: 'checkpoints' },
    kinds: { dir: 'name', everySteps: 'count', every: 'duration', keep: 'count' },
  },
  'timeouts of join': {
    call: (timeouts) => join({ timeouts }),
    kinds: { joinMs: 'positive', silenceMs: 'positive', graceMs: 'notNegative' },
  },
  fromFeed: { call: (options) => fromFeed('clicks', options), kinds: { producers: 'count' } },
  fromDataFrame: {
    call: (options) => fromDataFrame('clicks', options),
    kinds: { columns: 'object', fill: 'object', sampleWeight: 'name' },
  },
};

describe.each(Object.entries(SUBJECTS))('%s', (name, { call, base = {}, kinds }) => {
  test('rejects a value of a wrong type or outside the range', async () => {
    for (const [option, kind] of Object.entries(kinds)) {
      for (const value of WRONG[kind]) {
        const attempt = async () => await call({ ...base, [option]: value });
        await expect(attempt(), `${option}: ${String(value)}`).rejects.toMatchObject({
          ...{ code: 'USAGE', message: expect.stringMatching(new RegExp(`^${option} of ${name} is .*, but must be `)) },
        });
      }
    }
  });

  test('rejects a misspelt name with a suggestion', async () => {
    for (const option of Object.keys(kinds).filter((each) => each.length > 4)) {
      const attempt = async () => await call({ ...base, [`${option}s`]: 1 });
      await expect(attempt(), option).rejects.toMatchObject({ code: 'USAGE', message: expect.stringContaining(`did you mean ${option}?`) });
    }
  });

  test('rejects options that are not an object', async () => {
    for (const options of ['text', 3, [1]]) {
      await expect((async () => await call(options as never))(), String(options)).rejects.toMatchObject({ code: 'USAGE' });
    }
  });
});
