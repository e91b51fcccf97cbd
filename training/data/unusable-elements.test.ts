import * as tf from '@tensorflow/tfjs';
import { beforeAll, describe, expect, test } from 'vitest';
import { FileStorage } from '../../storage/file-storage.ts';
import { predictBatch } from '../inference/predict-model.ts';
import { classifier, examples, fitTogether } from '../testing/fit-world.ts';
import type { TrainingData } from './data.ts';
import type { FitData } from './fit-data.ts';
import type { Dataset } from './sources/dataset.ts';
import { fromArray, fromGenerator, fromTfDataset, sampleFrom, zip } from './sources/sources.ts';

const storage = new FileStorage();

beforeAll(async () => {
  await tf.setBackend('cpu');
});

/** Values that no batch can contain, with their descriptions and the next step. */
const UNUSABLE: readonly (readonly [value: unknown, description: string, hint: string])[] = [
  [undefined, 'undefined', 'return statement'],
  [null, 'null', 'default'],
  [12345678901n, 'the bigint 12345678901', 'Number()'],
  [() => 1, 'a function', 'Convert it'],
  [Symbol('s'), 'the symbol Symbol(s)', 'Convert it'],
  [new Date(0), 'a Date', 'Convert it'],
  [new Map([[1, 2]]), 'a Map', 'Convert it'],
  [BigInt64Array.of(1n), 'a BigInt64Array of 1', 'Float32Array.from(values, Number)'],
];
/** Elements that contain a value, with the part of the message that names its place. */
const PLACES: readonly (readonly [make: (value: unknown) => unknown, usable: unknown, place: string])[] = [
  [(value) => value, 1, 'element 6 of the dataset'],
  [(a) => ({ a, b: 1 }), { a: 1, b: 1 }, 'field a of element 6 of the dataset'],
  [(a) => ({ b: 1, deep: { c: { a } } }), { b: 1, deep: { c: { a: 2 } } }, 'field deep.c.a of element 6 of the dataset'],
];
const cases = UNUSABLE.flatMap(([value, description, hint]) =>
  PLACES.map(([make, usable, place]) => [`${place} is ${description}`, make(value), usable, hint] as const),
);

function rejection(message: string, hint: string) {
  return { code: 'DATA_INVALID', message: expect.stringContaining(message), hint: expect.stringContaining(hint) };
}

describe.each(cases)('%s', (message, bad, usable, hint) => {
  const elements = [usable, usable, usable, usable, usable, bad, usable];

  test('batch rejects it, also as the first element of a batch', async () => {
    for (const size of [2, 4, 5, 100]) {
      await expect(fromArray(elements).batch(size).toArray({ storage })).rejects.toMatchObject(rejection(message, hint));
      await expect(fromArray(elements).paddedBatch(size).toArray({ storage })).rejects.toMatchObject(rejection(message, hint));
    }
  });

  test('a map, a generator and an interleaved dataset can produce it', async () => {
    const wrapped = fromArray(elements.map((element) => ({ element })));
    const sources: readonly Dataset<unknown>[] = [
      wrapped.map(({ element }) => element),
      wrapped.map(({ element }) => element, { parallelCalls: 2 }),
      wrapped.flatMap(({ element }) => [element]),
      fromGenerator(() => elements),
      fromGenerator(async function* () {
        yield* elements;
      }),
      fromArray([0]).interleave(() => fromArray(elements)),
    ];
    for (const source of sources) {
      await expect(source.batch(4).toArray({ storage })).rejects.toMatchObject(rejection(message, hint));
    }
  });

  test('predict rejects it', async () => {
    const inBatch = message.replace('of the dataset', 'of the batch');
    await expect(predictBatch(tf, classifier(tf.train.sgd(0.1)), elements)).rejects.toMatchObject(rejection(inBatch, hint));
  });
});

test('a value of another kind is rejected, with both elements', async () => {
  const rows = [{ a: 1 }, { a: 2 }, { a: 3 }, { a: 'x' }];
  const message = 'field a of element 4 of the dataset is the string x; in element 3, it is the number 3';
  await expect(fromArray<unknown>(rows).batch(2).toArray({ storage })).rejects.toMatchObject(rejection(message, 'same form'));
  const mixed = fromArray<unknown>([{ a: 1 }, 5]);
  await expect(mixed.batch(2).toArray({ storage })).rejects.toMatchObject(
    rejection('element 2 of the dataset is the number 5', 'same form'),
  );
});

test('a reader rejects undefined and promises', async () => {
  const elements = [1, 2, undefined];
  await expect(fromArray(elements).toArray({ storage })).rejects.toMatchObject(
    rejection('element 3 of the dataset is undefined', 'return'),
  );
  const promised = fromArray<unknown>([1, Promise.resolve(2)]);
  await expect(promised.toArray({ storage })).rejects.toMatchObject(rejection('element 2 of the dataset is a Promise', 'Await it'));
});

test('a function that returns no dataset or no list is named', async () => {
  const numbers = fromArray([1, 2]);
  const nothing = (() => {}) as never;
  await expect(numbers.interleave(nothing).toArray({ storage })).rejects.toMatchObject(
    rejection('the function of interleave returned undefined instead of a dataset', 'fromArray'),
  );
  await expect(numbers.interleave((() => [1]) as never).toArray({ storage })).rejects.toThrow(
    'returned an array of 1 instead of a dataset',
  );
  await expect(numbers.flatMap(nothing).toArray({ storage })).rejects.toThrow(
    'the function of flatMap returned undefined instead of a list',
  );
  await expect(fromGenerator(nothing).toArray({ storage })).rejects.toThrow('the dataset received undefined instead of a list');
  await expect(fromArray(undefined as never).toArray({ storage })).rejects.toThrow('the dataset received undefined instead of a list');
  expect(() => zip([numbers, [1]] as never)).toThrow('zip received an array of 1 instead of a dataset');
  expect(() => sampleFrom([numbers, undefined] as never)).toThrow('sampleFrom received undefined instead of a dataset');
  expect(() => numbers.concatenate(null as never)).toThrow('concatenate received null instead of a dataset');
});

describe('fit', () => {
  const good = () => ({ xs: [1, 2, 3, 4], ys: [1, 0, 0] });
  const fitOn = (data: FitData, validationData?: FitData) => {
    return fitTogether([classifier(tf.train.sgd(0.1))], data as TrainingData, validationData === undefined ? {} : { validationData }, {});
  };
  const batched = (value: unknown) =>
    fromArray([good(), good()])
      .batch(2)
      .map(() => value);

  test.each([
    ['an element is undefined', () => fromArray<unknown>([good(), undefined]), 'element 2 of the dataset is undefined'],
    ['a batch is undefined', () => batched(undefined), 'element 1 of the dataset is undefined'],
    ['a batch is null', () => batched(null), 'an element of the dataset is null'],
    ['a batch is a number', () => batched(5), 'an element of the dataset is the number 5'],
    ['inputs are undefined', () => batched({ xs: undefined, ys: undefined }), 'xs of an element of the dataset is undefined'],
    ['targets are text', () => batched({ xs: tf.zeros([2, 4]), ys: 'abc' }), 'ys of an element of the dataset is the string abc'],
    ['an element of tf.data is null', () => fromTfDataset(tf.data.generator(nulls)), 'an element of the dataset is null'],
  ])('%s', async (_, make, message) => {
    await expect(fitOn(make())).rejects.toMatchObject({ code: 'DATA_INVALID', message: expect.stringContaining(message) });
    await expect(fitOn(examples(8), make())).rejects.toMatchObject({ code: 'DATA_INVALID', message: expect.stringContaining(message) });
  });

  test.each([
    ['undefined', () => undefined],
    ['an object with xs, ys', ({ x, y }: { x: unknown; y: unknown }) => ({ xs: x, ys: y })],
    ['a Promise', async (batch: unknown) => batch],
    ['an object with x, y', ({ x }: { x: unknown }) => ({ x, y: undefined })],
  ])('prepare that returns %s', async (description, prepare) => {
    const { x, y } = examples(8);
    await expect(fitOn({ x, y, prepare } as never)).rejects.toMatchObject(rejection(`prepare returned ${description}`, 'Return'));
    await expect(fitOn({ dataset: fromArray([good()]), prepare } as never)).rejects.toThrow(`prepare returned ${description}`);
    await expect(fitOn({ x, y }, { x, y, prepare } as never)).rejects.toThrow(`prepare returned ${description}`);
  });
});

function* nulls(): Generator<tf.TensorContainer, void> {
  yield { xs: tf.zeros([2, 4]), ys: tf.zeros([2, 3]) };
  yield null as never;
}
