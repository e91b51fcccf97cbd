import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';

const ROOT = path.join(import.meta.dirname, '..');

test('tony.spark resolves the relative paths of each key of job.yaml that is relative to the job file', async () => {
  const reference = await readFile(path.join(ROOT, 'docs', 'job-yaml.md'), 'utf8');
  const rows = [...reference.matchAll(/^\| `([^`]+)` .*\brelative to (?:this file|job\.yaml)\b/gm)].map(([, key]) => key as string);
  const source = await readFile(path.join(ROOT, 'python', 'tony', 'spark', '_job_file.py'), 'utf8');
  const [, list = ''] = /^PATH_KEYS = \(([^)]*)\)/m.exec(source) ?? [];
  const keys = [...list.matchAll(/"([^"]+)"/g)].map(([, key]) => key as string);
  expect(rows.length).toBeGreaterThan(10);
  // `kerberos` may be the path of the keytab.
  expect(keys.filter((key) => key !== 'kerberos').toSorted()).toEqual(rows.map((key) => key.replace(/\b[A-Z]+\b/g, '*')).toSorted());
});
