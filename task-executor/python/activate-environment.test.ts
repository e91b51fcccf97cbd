import { execFileSync } from 'node:child_process';
import { chmod, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type Activation, activateEnvironment } from './activate-environment.ts';

let container: string;
let shipped: string;

beforeEach(async () => {
  container = await mkdtemp(path.join(os.tmpdir(), 'activate-'));
  shipped = path.join(container, 'environment');
  await mkdir(shipped);
});

afterEach(() => rm(container, { recursive: true }));

const VERSION = execFileSync('python3', ['-c', 'import sys; print("%d.%d" % sys.version_info[:2])']).toString().trim();

async function write(name: string, text: string, mode = 0o644): Promise<void> {
  const file = path.join(shipped, name);
  await mkdir(path.dirname(file), { recursive: true });
  await writeFile(file, text);
  await chmod(file, mode);
}

async function activated(): Promise<Activation> {
  const activation = await activateEnvironment(container, process.env);
  if (typeof activation === 'string') {
    throw new Error(activation);
  }
  return activation;
}

/** Runs a command as the executor would. */
function run({ variables, setup }: Activation, command: string): string {
  const options = { env: { ...process.env, ...variables } };
  return execFileSync('/bin/bash', ['-c', setup === '' ? command : `${setup}\n${command}`], options)
    .toString()
    .trim();
}

async function writePackages(version: string): Promise<void> {
  const site = `lib/python${version}/site-packages`;
  await write('packages.json', JSON.stringify({ title: "The job's environment", machine: null, pythons: { [version]: [site] } }));
  await write(`${site}/shipped.py`, 'import sys; where = sys.prefix');
  await write(`${site}/extra.pth`, path.join(container, 'extra'));
  await write('bin/hello', '#!/usr/bin/env python3\nimport shipped; print("hello from", shipped.where)\n', 0o755);
  await write('share/data.txt', 'data');
}

test("shipped packages, commands and data files belong to a virtual environment of the node's interpreter", async () => {
  await writePackages(VERSION);
  await mkdir(path.join(container, 'extra'));
  const venv = path.join(container, 'venv');
  const activation = await activated();
  expect(activation.variables).toMatchObject({ VIRTUAL_ENV: venv, PYTHONDONTWRITEBYTECODE: '1' });
  expect(run(activation, 'hello')).toBe(`hello from ${venv}`);
  const script = 'import sys; print(sys.path[-1], open(sys.prefix + "/share/data.txt").read())';
  expect(run(activation, `python -c '${script}'`)).toBe(`${path.join(container, 'extra')} data`);
  // The next generation creates it again.
  expect(await activated()).toEqual(activation);
});

test('the message explains that the node lacks the Python version of the packages', async () => {
  await writePackages('3.1');
  expect(await activateEnvironment(container, process.env)).toMatch(
    /^The job's environment needs Python 3\.1 on the PATH; .*python3 is 3\.\d+.* Set python\.version in job\.yaml/,
  );
});

/** Writes an environment as conda-pack does, but with this machine's interpreter. */
async function writeConda(unpack: string): Promise<void> {
  const base = execFileSync('python3', ['-c', 'import sys; print(sys._base_executable)']).toString().trim();
  await mkdir(path.join(shipped, 'bin'));
  await symlink(base, path.join(shipped, 'bin', 'python3'));
  await symlink('python3', path.join(shipped, 'bin', 'python'));
  await write('pyvenv.cfg', `home = ${path.dirname(base)}\n`);
  await write(`lib/python${VERSION}/site-packages/packed.py`, 'value = 7');
  await write('conda-meta/history', '');
  await write('etc/conda/activate.d/proj.sh', 'export PROJ_DATA="$CONDA_PREFIX/share/proj"');
  await write('prefix.txt', '/opt/placeholder', 0o444);
  await write('bin/conda-unpack', unpack, 0o755);
}

test('conda-unpack repairs a copy of the environment, once for each container', async () => {
  await writeConda(`import os
root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
with open(root + '/prefix.txt', 'a') as file:
    file.write(' repaired: ' + root)
`);
  const copy = path.join(container, 'venv');
  const activation = await activated();
  expect(activation.variables).toMatchObject({ CONDA_PREFIX: copy });
  expect(run(activation, `python -c 'import os, packed; print(packed.value, os.environ["PROJ_DATA"])'`)).toBe(`7 ${copy}/share/proj`);
  await activated();
  expect(await readFile(path.join(copy, 'prefix.txt'), 'utf8')).toBe(`/opt/placeholder repaired: ${copy}`);
  expect(await readFile(path.join(shipped, 'prefix.txt'), 'utf8')).toBe('/opt/placeholder');
});

test('a failure of conda-unpack is reported, and leaves no copy', async () => {
  await writeConda('raise SystemExit("no space")');
  expect(await activateEnvironment(container, process.env)).toMatch(/^conda-unpack failed: [\s\S]*no space/);
  expect(await activateEnvironment(container, process.env)).toMatch(/^conda-unpack failed/);
});

test('an archive without an interpreter that runs on this node is refused', async () => {
  expect(await activateEnvironment(container, process.env)).toContain('contains no bin/python');
  await mkdir(path.join(shipped, 'only', 'bin'), { recursive: true });
  await symlink('/nowhere/python3', path.join(shipped, 'only', 'bin', 'python3'));
  expect(await activateEnvironment(container, process.env)).toMatch(
    /^The interpreter bin\/python3 in python\.archive is a link to \/nowhere\/python3\. It does not exist on this node\./,
  );
  await rm(path.join(shipped, 'only', 'bin', 'python3'));
  await symlink('/bin/sh', path.join(shipped, 'only', 'bin', 'python3'));
  expect(await activateEnvironment(container, process.env)).toMatch(/It does not run on this node/);
});
