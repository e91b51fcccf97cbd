import { readFile } from 'node:fs/promises';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { bytes } from '../../../contract/encoding/protobuf.ts';
import { TfRecordParser } from '../../../contract/encoding/tfrecord.ts';
import { fromArray } from '../sources/sources.ts';
import { decodeExample, decodeSequenceExample, encodeExample, encodeSequenceExample, type Feature } from './example.ts';
import { fixedLenFeature, parseExample, varLenFeature } from './parse-example.ts';

const golden = (name: string) => readFile(new URL(`../golden/${name}`, import.meta.url));
const EXAMPLES = new URL('../../../contract/encoding/golden/examples.tfrecord', import.meta.url);

async function goldenExamples(): Promise<Buffer[]> {
  const onDamage = (damage: Error) => {
    throw damage;
  };
  const file = await readFile(EXAMPLES);
  return new TfRecordParser({ where: 'x', offset: 0, end: file.length, maxRecordBytes: 1e6, onDamage }).push(file);
}

describe('tf.train.Example', () => {
  test('an Example is decoded as TensorFlow wrote it', async () => {
    const examples = (await goldenExamples()).map(decodeExample);
    examples.forEach((example, i) => {
      expect({ ...example }).toEqual({
        label: { kind: 'int64', values: BigInt64Array.of(BigInt(i - 2)) },
        pixels: { kind: 'float', values: Float32Array.of(i + 0.5, i === 0 ? 0 : -i, i / 1000) },
        name: { kind: 'bytes', values: [Buffer.from(`n${i}`), Buffer.from('ü')] },
        big: { kind: 'int64', values: BigInt64Array.of(2n ** 62n + BigInt(i), -(2n ** 63n), 300n) },
        none: { kind: 'bytes', values: [] },
        empty: { kind: 'float', values: new Float32Array(0) },
      });
    });
  });

  test('an Example is encoded to the same bytes as TensorFlow writes', async () => {
    for (const record of await goldenExamples()) {
      const { none: _, ...example } = decodeExample(record);
      const encoded = encodeExample(example);
      // Removes the empty Feature message, because `encodeExample` cannot write it.
      const entry = Buffer.from('\n\x08\n\x04none\x12\0', 'latin1');
      const at = record.indexOf(entry);
      const featuresAt = (record[1] as number) < 0x80 ? 2 : 3;
      const features = Buffer.concat([record.subarray(featuresAt, at), record.subarray(at + entry.length)]);
      expect(encoded.equals(bytes(1, features))).toBe(true);
    }
    const sequence = await golden('sequence-example.bin');
    expect(encodeSequenceExample(decodeSequenceExample(sequence)).equals(sequence)).toBe(true);
  });

  test('an Example decodes to what was encoded, for any content', () => {
    const feature: fc.Arbitrary<Feature> = fc.oneof(
      fc.array(fc.uint8Array()).map((values) => ({ kind: 'bytes' as const, values: values.map((value) => Buffer.from(value)) })),
      fc.float32Array().map((values) => ({ kind: 'float' as const, values })),
      fc.bigInt64Array().map((values) => ({ kind: 'int64' as const, values })),
    );
    fc.assert(
      fc.property(fc.dictionary(fc.string(), feature), (features) => {
        expect({ ...decodeExample(encodeExample(features)) }).toEqual({ ...features });
      }),
    );
  });

  test('an Example either decodes or fails with DATA_INVALID if it is damaged', async () => {
    const [example] = await goldenExamples();
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.nat((example as Buffer).length - 1), fc.nat(255)), { minLength: 1, maxLength: 4 }), (changes) => {
        const damaged = Buffer.from(example as Buffer);
        for (const [at, byte] of changes) {
          damaged[at] = byte;
        }
        for (const decode of [
          decodeExample,
          decodeSequenceExample,
          parseExample({ pixels: varLenFeature('float32'), big: varLenFeature('int64') }),
        ]) {
          try {
            decode(damaged);
          } catch (error) {
            expect(error).toMatchObject({ code: 'DATA_INVALID' });
          }
        }
      }),
      { numRuns: 2000 },
    );
  });

  test('an Example can be encoded from plain values', () => {
    const example = decodeExample(encodeExample({ text: 'ü', label: 7n, weights: [1, 2], ids: Int32Array.of(-1), raw: Buffer.from([0]) }));
    expect({ ...example }).toEqual({
      text: { kind: 'bytes', values: [Buffer.from('ü')] },
      label: { kind: 'int64', values: BigInt64Array.of(7n) },
      weights: { kind: 'float', values: Float32Array.of(1, 2) },
      ids: { kind: 'int64', values: BigInt64Array.of(-1n) },
      raw: { kind: 'bytes', values: [Buffer.from([0])] },
    });
    expect(() => encodeExample({ mixed: [1, 'a'] as unknown as number[] })).toThrow(/must all be bytes/);
  });

  test('an Example is decoded even if its numbers are not packed', () => {
    // FloatList { value: 1.5, 2.5 } and Int64List { value: 3, -1 }, unpacked: one field per value.
    const floats = Buffer.from([0x12, 0x0a, 0x0d, 0, 0, 0xc0, 0x3f, 0x0d, 0, 0, 0x20, 0x40]);
    const longs = Buffer.from([0x1a, 0x0d, 0x08, 3, 0x08, ...new Array<number>(9).fill(0xff), 1]);
    const entry = (name: string, value: Buffer) => {
      const inside = Buffer.concat([Buffer.from([0x0a, 1]), Buffer.from(name), Buffer.from([0x12, value.length]), value]);
      return Buffer.concat([Buffer.from([0x0a, inside.length]), inside]);
    };
    const features = Buffer.concat([entry('f', floats), entry('i', longs)]);
    const record = Buffer.concat([Buffer.from([0x0a, features.length]), features]);
    expect(decodeExample(record).f).toEqual({ kind: 'float', values: Float32Array.of(1.5, 2.5) });
    expect(decodeExample(record).i).toEqual({ kind: 'int64', values: BigInt64Array.of(3n, -1n) });
    expect(parseExample({ i: varLenFeature('int64') })(record)).toEqual({ i: Int32Array.of(3, -1) });
  });
});

describe('parseExample', () => {
  test("returns the schema's features in their shapes", async () => {
    const parse = parseExample({
      label: fixedLenFeature([], 'int64'),
      pixels: fixedLenFeature([3, 1], 'float32'),
      name: varLenFeature('string'),
      weight: fixedLenFeature([], 'float32', 1),
      none: varLenFeature('int64'),
    });
    const parsed = parse((await goldenExamples())[4] as Buffer);
    const label: number = parsed.label;
    expect(label).toBe(2);
    expect(parsed).toEqual({
      label: 2,
      pixels: { values: Float32Array.of(4.5, -4, 0.004), shape: [3, 1] },
      name: [Buffer.from('n4'), Buffer.from('ü')],
      weight: 1,
      none: new Int32Array(0),
    });
  });

  test('rejects an example and names the feature that does not match the schema', async () => {
    const [record] = (await goldenExamples()) as [Buffer];
    expect(() => parseExample({ nowhere: fixedLenFeature([], 'int64') })(record)).toThrow('the example has no feature nowhere');
    expect(() => parseExample({ none: fixedLenFeature([], 'int64') })(record)).toThrow('the example has no feature none');
    expect(() => parseExample({ pixels: fixedLenFeature([2], 'float32') })(record)).toThrow(
      'feature pixels has 3 values; its shape [2] requires 2',
    );
    expect(() => parseExample({ pixels: varLenFeature('int64') })(record)).toThrow('feature pixels is float32, not int64');
    expect(() => parseExample({ big: varLenFeature('int64') })(record)).toThrow('does not fit into 32 bits');
  });

  test('a batch directly after parseExample is the one of the parsed examples, or the same error', async () => {
    const schema = {
      x: fixedLenFeature([2], 'float32'),
      n: fixedLenFeature([], 'int64', -1),
      many: fixedLenFeature([2, 1], 'int64', 7),
      one: fixedLenFeature([], 'float32', 0.5),
      text: fixedLenFeature([], 'string', 'none'),
      free: varLenFeature('float32'),
    };
    const number = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 });
    const pair = <T>(item: fc.Arbitrary<T>) =>
      fc.oneof({ weight: 20, arbitrary: fc.tuple(item, item) }, { weight: 1, arbitrary: fc.array(item) });
    const example = fc.record(
      {
        x: pair(fc.float()).map((values) => Float32Array.from(values)),
        n: number.map(BigInt),
        many: pair(number).map((values) => Int32Array.from(values)),
        one: fc.float(),
        text: fc.string(),
        free: fc.constant(Float32Array.of(1, 2)),
        other: fc.uint8Array(),
      },
      { requiredKeys: ['x', 'free'] },
    );
    const outcome = (work: Promise<unknown[]>) => work.catch(({ code, message }) => ({ code, message }));
    await fc.assert(
      fc.asyncProperty(fc.array(example, { maxLength: 20 }), fc.integer({ min: 1, max: 9 }), async (examples, size) => {
        const records = fromArray(examples.map((each) => encodeExample(each)));
        const parse = parseExample(schema);
        const batches = records.map(parse).batch(size);
        const ofObjects = await outcome(
          records
            .map((record) => parse(record))
            .batch(size)
            .toArray(),
        );
        expect(await outcome(batches.toArray())).toEqual(ofObjects);
        if (Array.isArray(ofObjects) && ofObjects.length > 1) {
          const reader = batches.read();
          await reader.next();
          const state = reader.state();
          await reader.return();
          expect(await batches.toArray({ state })).toEqual(ofObjects.slice(1));
        }
      }),
    );
  });
});
