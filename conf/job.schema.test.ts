import { readFile, writeFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { jobJsonSchema } from './job-schema.ts';

const FILE = new URL('./job.schema.json', import.meta.url);

test('job.schema.json equals the generated schema (UPDATE=1 rewrites it)', async () => {
  const wanted = `${JSON.stringify(jobJsonSchema(), null, 2)}\n`;
  if (process.env.UPDATE === '1') {
    await writeFile(FILE, wanted);
  }
  expect(JSON.parse(await readFile(FILE, 'utf8'))).toEqual(JSON.parse(wanted));
});

test('every key has a description or is a group of keys', () => {
  const silent: string[] = [];
  const visit = (schema: ReturnType<typeof jobJsonSchema>, path: string): void => {
    for (const [key, child] of Object.entries(schema.properties ?? {})) {
      if (child.description === undefined && child.properties === undefined) {
        silent.push(`${path}${key}`);
      }
      visit(child, `${path}${key}.`);
    }
    if (typeof schema.additionalProperties === 'object') {
      visit(schema.additionalProperties, `${path}*.`);
    }
  };
  visit(jobJsonSchema(), '');
  expect(silent).toEqual([]);
});
