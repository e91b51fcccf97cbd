import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import type { Column } from '../../contract/encoding/idx.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import { csv } from '../../training/data/sources/sources.ts';
import { execute } from '../execute.ts';
import { temporaryFolder } from '../harness.ts';
import { sparkEnvironment } from '../spark-environment.ts';

/** Writes numbers of many forms, and the values that pandas reads. */
const WRITE = `
import json, random, sys
import pandas as pd
random.seed(1)
def number():
    return random.choice([
        lambda: repr(random.random()), lambda: repr(random.uniform(-1e6, 1e6)), lambda: f'{random.random():.7g}', lambda: f'{random.gauss(0, 1):.3e}',
        lambda: str(random.randrange(-10**15, 10**15)), lambda: str(random.randrange(300)), lambda: '-0.0', lambda: f'{random.random():.20f}',
        lambda: f'"{random.random()}"', lambda: f' {random.randrange(9)} ', lambda: '007.50', lambda: '.5', lambda: '3.', lambda: '1E-7', lambda: 'inf',
    ])()
rows = [[number(), number(), str(random.randrange(-2**31, 2**31)), random.choice(['red', 'a b', '"x,y"', '1 2', 'ü'])] for _ in range(5000)]
with open(sys.argv[1] + '/numbers.csv', 'w') as file:
    file.write('a,b,n,text\\n' + ''.join(','.join(row) + '\\n' for row in rows))
frame = pd.read_csv(sys.argv[1] + '/numbers.csv', float_precision='round_trip', dtype={'a': 'float64', 'b': 'float64', 'n': 'int64'})
frame[['a', 'b']].to_numpy().tofile(sys.argv[1] + '/floats')
json.dump({'n': frame['n'].tolist(), 'text': frame['text'].tolist()}, open(sys.argv[1] + '/others.json', 'w'))
`;

test('the values of a CSV file are those that pandas reads', async () => {
  const folder = await temporaryFolder();
  await execute(await sparkEnvironment(), ['-c', WRITE, folder]);
  const { n, text } = JSON.parse(await readFile(path.join(folder, 'others.json'), 'utf8')) as { n: number[]; text: string[] };
  const floats = new Float64Array(new Uint8Array(await readFile(path.join(folder, 'floats'))).buffer);
  const [a, b] = [0, 1].map((column) => floats.filter((_, index) => index % 2 === column)) as [Float64Array, Float64Array];
  const dataset = csv(path.join(folder, 'numbers.csv'), { columnConfigs: { n: { dtype: 'int32' }, b: { isLabel: true } } });
  const storage = new FileStorage();
  expect(await dataset.toArray({ storage })).toEqual(
    n.map((_, row) => ({ xs: { a: a[row], n: n[row], text: text[row] }, ys: { b: b[row] } })),
  );
  const [batch] = await dataset.batch(n.length).toArray({ storage });
  const column = (values: ArrayLike<number>): Column => ({ values: Float32Array.from(values), shape: [n.length] });
  expect(batch).toEqual({ xs: { a: column(a), n: column(n), text }, ys: { b: column(b) } });
});
