import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';

const EXAMPLE = path.join(import.meta.dirname, '..', 'examples', 'spark');

interface Cell {
  readonly cell_type: 'code' | 'markdown';
  readonly source: readonly string[];
  readonly outputs?: readonly unknown[];
}

test('the notebook of examples/spark has no outputs, and runs the same functions as train.py', async () => {
  const { cells } = JSON.parse(await readFile(path.join(EXAMPLE, 'train.ipynb'), 'utf8')) as { readonly cells: readonly Cell[] };
  const code = cells.filter(({ cell_type }) => cell_type === 'code');
  expect(code.filter(({ outputs }) => outputs?.length !== 0)).toEqual([]);
  const program = await readFile(path.join(EXAMPLE, 'train.py'), 'utf8');
  // A function ends before the next one.
  const functions = program.split(/^(?=def )/m).filter((part) => /^def (?!main\b)/.test(part));
  expect(functions.map((text) => text.trim())).toEqual(
    code.map(({ source }) => source.join('').trim()).filter((text) => text.startsWith('def ')),
  );
});
