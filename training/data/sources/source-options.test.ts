import { expect, test } from 'vitest';
import { fixedLenFeature, parseExample, varLenFeature } from '../formats/parse-example.ts';
import { avro, binaryFiles, csv, files, fromArray, idx, jsonl, lines, parquet, sampleFrom, tfRecords } from './sources.ts';

type Source = (names: string, options: object) => unknown;
const SOURCES = { tfRecords, lines, jsonl, csv, idx, parquet, avro, files, binaryFiles } as unknown as Readonly<Record<string, Source>>;

const INVALID: readonly (readonly [options: object, message: string])[] = [
  ...[Number.NaN, '64m', 0, -1, 1.5, null].map((splitBytes) => [{ splitBytes }, 'splitBytes of '] as const),
  [{ shardPolicy: 'files' }, 'must be "auto" or "file" or "data" or "off"'],
  [{ refresh: 'hour' }, 'must be "never" or "epoch"'],
  [{ localCopy: 'yes' }, 'localCopy of '],
  [{ localCopy: { maxBytes: Number.NaN } }, 'maxBytes of localCopy of '],
  [{ localCopy: { maxbytes: 1 } }, 'did you mean maxBytes?'],
  [{ splitbytes: 1 }, 'did you mean splitBytes?'],
];

test.each(Object.keys(SOURCES))('%s rejects unknown options and invalid values, and accepts undefined', (name) => {
  const source = SOURCES[name] as Source;
  for (const [options, message] of INVALID) {
    expect(() => source('in', options)).toThrow(expect.objectContaining({ code: 'USAGE', message: expect.stringContaining(message) }));
  }
  source('in', { splitBytes: undefined, localCopy: { maxBytes: 0 }, shardPolicy: 'off' });
});

test('options of single formats have the same checks', () => {
  expect(() => parquet('in', { column: ['id'] } as never)).toThrow('did you mean columns?');
  expect(() => jsonl('in', { skipdamaged: true } as never)).toThrow('did you mean skipDamaged?');
  expect(() => csv('in', { delimeter: ';' } as never)).toThrow('did you mean delimiter?');
  const columns = (columnConfigs: object) => () => csv('in', { columnConfigs } as never);
  expect(columns({ y: { islabel: true } })).toThrow('y of columnConfigs of csv has no option islabel; did you mean isLabel?');
  expect(columns({ b: { requird: true } })).toThrow('did you mean required?');
  expect(columns({ a: { dtype: 'float99' } })).toThrow('dtype of a of columnConfigs of csv is "float99", but must be "float32" or');
  expect(columns({ a: { default: [1] } })).toThrow('default of a of columnConfigs of csv is a list, but must be a number');
  expect(columns({ a: 'string' })).toThrow('a of columnConfigs of csv is "string", but must be an object');
  expect(columns(['a'])).toThrow('columnConfigs of csv is a list, but must be an object');
  columns({ a: { dtype: 'int32', default: 0, required: undefined, isLabel: true }, b: undefined })();
  const schema = (feature: unknown) => () => parseExample({ f: feature } as never);
  expect(schema({ shpae: [2], dtype: 'float32' })).toThrow('f of the schema of parseExample has no option shpae');
  expect(schema(fixedLenFeature([2], 'flot32' as 'float32'))).toThrow('dtype of f of the schema of parseExample is "flot32"');
  expect(schema(varLenFeature('int32' as 'int64'))).toThrow('dtype of f of the schema of parseExample is "int32"');
  expect(schema({ shape: [2] })).toThrow('must be fixedLenFeature(...) or varLenFeature(...)');
  expect(schema('float32')).toThrow('must be fixedLenFeature(...) or varLenFeature(...)');
  schema(fixedLenFeature([], 'int64', -1))();
  expect(() => parquet('in', { maxGroupBytes: '1g' } as never)).toThrow('maxGroupBytes of parquet is "1g"');
  expect(() => tfRecords('in', { maxRecordBytes: Number.NaN })).toThrow('maxRecordBytes of tfRecords is NaN');
});

test('options of transformations and readers have the same checks', () => {
  const data = fromArray([1, 2]);
  expect(() => data.batch(2, { dropremainder: true } as never)).toThrow('did you mean dropRemainder?');
  expect(() => data.paddedBatch(2, { side: 'left' } as never)).toThrow('must be "end" or "start"');
  expect(() => data.cache({ maxBytes: Number.NaN })).toThrow('maxBytes of cache is NaN');
  expect(() => data.map((each) => each, { parallelcalls: 2 } as never)).toThrow('did you mean parallelCalls?');
  expect(() => data.interleave(() => data, { cycle: 2 } as never)).toThrow('interleave has no option cycle');
  expect(() => data.read({ epochs: 2 } as never)).toThrow('did you mean epoch?');
  expect(() => sampleFrom([data], { weight: [1] } as never)).toThrow('did you mean weights?');
});

test('a selection of no columns is refused', () => {
  expect(() => parquet('x.parquet', { columns: [] })).toThrow('columns of parquet is a list, but must be a list of at least one column');
  expect(() => csv('x.csv', { configuredColumnsOnly: true })).toThrow('columnConfigs names no column');
});

test('parseExample refuses a record that is not bytes', () => {
  expect(() => parseExample({ a: fixedLenFeature([], 'float32') })({ a: 1 } as unknown as Uint8Array)).toThrow(
    'parseExample expects the bytes of a record, found an object with a',
  );
});
