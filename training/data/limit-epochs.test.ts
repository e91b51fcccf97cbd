import { expect, test } from 'vitest';
import { FakePieces, FakeStream } from './frames/testing/pieces.ts';
import { limitEpochs } from './limit-epochs.ts';
import { frameDataset } from './sources/frame-source.ts';
import { fromArray } from './sources/sources.ts';

const frame = frameDataset('train', new FakePieces([], { epochs: 3 }), {});

test('training takes all epochs of the source, or fewer', async () => {
  expect(await limitEpochs('fit', frame, {})).toEqual({ epochs: 3 });
  expect(await limitEpochs('fit', frame.map((row) => row).batch(2), { initialEpoch: 2 })).toEqual({ epochs: 5, initialEpoch: 2 });
  expect(await limitEpochs('fit', frame.batch(2).prefetch(1), { epochs: 2 })).toEqual({ epochs: 2 });
});

test('more epochs than the source has are refused before training begins', async () => {
  await expect(limitEpochs('fit', frame.batch(2), { epochs: 5, initialEpoch: 1 })).rejects.toMatchObject({
    ...{ code: 'USAGE', message: 'fit trains for 4 epochs, but the feed train has 3' },
    hint: 'Pass epochs=4 to tony.spark.run. If you omit `epochs` in fit, it trains for all epochs of the feed.',
  });
});

test('a stream has no limit that is known before', async () => {
  const stream = frameDataset('train', new FakeStream([]), {});
  expect(await limitEpochs('fit', stream, {})).toEqual({ epochs: Number.POSITIVE_INFINITY });
  expect(await limitEpochs('fit', stream, { epochs: 2 })).toEqual({ epochs: 2 });
});

test('other data has no limit', async () => {
  expect(await limitEpochs('fit', fromArray([1]), { epochs: 9 })).toEqual({ epochs: 9 });
  expect(await limitEpochs('fit', null, {})).toEqual({});
});
