import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import type { Column } from '../../contract/encoding/idx.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import { fixedLenFeature, parseExample } from '../../training/data/formats/parse-example.ts';
import { tfRecords } from '../../training/data/sources/sources.ts';
import { ROOT } from '../command.ts';
import { execute } from '../execute.ts';
import { temporaryFolder } from '../harness.ts';
import { pythonWith } from '../python-environment.ts';

/** Writes examples, some of which lack features, and the columns of the batch that tf.io.parse_example makes of them. */
const WRITE = `
import random, sys
import tensorflow as tf
random.seed(1)
def feature(kind):
    if kind == 'floats':
        return tf.train.Feature(float_list=tf.train.FloatList(value=[random.uniform(-1e9, 1e9) for _ in range(6)]))
    if kind == 'tokens':
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[random.choice([0, -1, 2**31 - 1, -2**31, random.randrange(300)]) for _ in range(40)]))
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[random.randbytes(random.randrange(5))]))
with tf.io.TFRecordWriter(sys.argv[1] + '/examples') as writer:
    for _ in range(1000):
        kinds = [kind for kind in ('floats', 'tokens', 'text', 'unused') if random.random() < 0.9]
        writer.write(tf.train.Example(features=tf.train.Features(feature={kind: feature(kind) for kind in kinds})).SerializeToString())
schema = {
    'floats': tf.io.FixedLenFeature([2, 3], tf.float32, [[0.5] * 3] * 2),
    'tokens': tf.io.FixedLenFeature([40], tf.int64, [-7] * 40),
    'text': tf.io.FixedLenFeature([], tf.string, 'none'),
}
[batch] = tf.data.TFRecordDataset(sys.argv[1] + '/examples').batch(1000).map(lambda records: tf.io.parse_example(records, schema))
batch['floats'].numpy().tofile(sys.argv[1] + '/floats')
batch['tokens'].numpy().astype('int32').tofile(sys.argv[1] + '/tokens')
open(sys.argv[1] + '/text', 'w').write(','.join(text.hex() for text in batch['text'].numpy()))
`;

test('a batch of parsed examples is the one of TensorFlow', async () => {
  const folder = await temporaryFolder();
  const requirement = 'tensorflow-cpu==2.21.0';
  const python = await pythonWith(path.join(ROOT, '.cache', requirement.replace('==', '-')), [requirement]);
  await execute(python, ['-c', WRITE, folder]);
  const schema = {
    floats: fixedLenFeature([2, 3], 'float32', 0.5),
    tokens: fixedLenFeature([40], 'int64', -7),
    text: fixedLenFeature([], 'string', 'none'),
  };
  const [batch] = await tfRecords(path.join(folder, 'examples'))
    .map(parseExample(schema))
    .batch(1000)
    .toArray({ storage: new FileStorage() });
  const { floats, tokens, text } = batch as unknown as { floats: Column; tokens: Column; text: Buffer[] };
  const stored = async (name: string) => new Uint8Array(await readFile(path.join(folder, name))).buffer;
  expect(floats).toEqual({ values: new Float32Array(await stored('floats')), shape: [1000, 2, 3] });
  expect(tokens).toEqual({ values: new Int32Array(await stored('tokens')), shape: [1000, 40] });
  expect(text.map((each) => each.toString('hex')).join()).toBe(await readFile(path.join(folder, 'text'), 'utf8'));
});
