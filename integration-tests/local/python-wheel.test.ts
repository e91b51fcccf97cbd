import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import description from '../../package.json' with { type: 'json' };
import { ROOT } from '../command.ts';
import { execute } from '../execute.ts';
import { temporaryFolder } from '../harness.ts';

/** Prints the wheel's metadata, the files that do not match the wheel's checksums, and the optional packages in pyproject.toml. */
const SCRIPT = `
import base64, hashlib, importlib.metadata, json, sys
import tony.client, tony.spark, tony.spark.distributor

package = importlib.metadata.distribution("tony-ts")
changed = [
    str(file) for file in package.files
    if file.hash and str(file).startswith("tony/")
    and base64.urlsafe_b64encode(hashlib.sha256(file.read_binary()).digest()).rstrip(b"=").decode() != file.hash.value
]
metadata = package.metadata
print(json.dumps({
    "version": package.version, "python": metadata["Requires-Python"], "extras": metadata.get_all("Provides-Extra"),
    "requires": package.requires, "changed": changed, "is_own": tony.spark.__file__.startswith(sys.prefix),
}))
`;

test('pip installs the wheel without a registry, with all modules and the same metadata as pyproject.toml', async () => {
  const wheels = (await readdir(path.join(ROOT, 'dist'))).filter((name) => name.endsWith('.whl'));
  expect(wheels).toEqual([`tony_ts-${description.version}-py3-none-any.whl`]);
  const wheel = path.join(ROOT, 'dist', wheels[0] as string);
  const folder = await temporaryFolder();
  await execute('python3', ['-m', 'venv', '--without-pip', folder]);
  const python = path.join(folder, 'bin', 'python');
  await execute('python3', ['-m', 'pip', '--python', python, 'install', '--no-index', '--no-deps', wheel], { cwd: folder });
  const { stdout } = await execute(python, ['-c', SCRIPT], { cwd: folder, env: { PATH: process.env.PATH ?? '' } });
  const project = await readFile(path.join(ROOT, 'python', 'pyproject.toml'), 'utf8');
  const [, spark = '[]'] = /^spark = (\[.*\])$/m.exec(project) ?? [];
  expect(JSON.parse(stdout)).toEqual({
    version: description.version,
    python: '>=3.8',
    extras: ['spark'],
    requires: (JSON.parse(spark) as string[]).map((name) => `${name}; extra == "spark"`),
    changed: [],
    is_own: true,
  });
  const { stdout: listed } = await execute('python3', ['-m', 'zipfile', '-l', wheel]);
  const modules = (await readdir(path.join(ROOT, 'python', 'tony'), { recursive: true })).filter((name) => name.endsWith('.py'));
  expect(modules.filter((name) => !listed.includes(`tony/${name} `))).toEqual([]);
});
