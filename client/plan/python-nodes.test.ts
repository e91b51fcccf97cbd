import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { FileStorage } from '../../storage/file-storage.ts';
import { fileUri } from '../../storage/uri.ts';
import { type RecordedNode, readNodeRecord, recordNodes } from '../cluster/node-record.ts';
import { type PythonNeeds, pythonNotes } from './python-nodes.ts';

const NEEDS: PythonNeeds = {
  python: '3.11',
  machine: 'x86_64',
  glibc: '2.28',
  packages: [
    { name: 'numpy', version: '2.4.6', sha256: '', glibc: '2.28' },
    { name: 'idna', version: '3.10', sha256: '', glibc: null },
  ],
};

function node(name: string, values: Partial<RecordedNode> = {}): RecordedNode {
  return { node: name, label: null, probedAt: Date.UTC(2026, 0, 2), machine: 'x86_64', glibc: '2.36', pythons: ['3.9', '3.11'], ...values };
}

const job = { roles: [{ name: 'worker', docker: null, nodeLabel: null }] } as unknown as Parameters<typeof pythonNotes>[0];

test('packages that every node can load need no note', () => {
  expect(pythonNotes(job, NEEDS, [])).toEqual([]);
  expect(pythonNotes(job, NEEDS, [node('n1'), node('n2', { glibc: '2.28' })])).toEqual([]);
  expect(pythonNotes(job, { ...NEEDS, glibc: null, packages: [] }, [node('n1', { glibc: '2.5', machine: 'aarch64' })])).toEqual([]);
});

test('a note names the nodes on which the programs of a role fail', () => {
  const old = node('n1', { glibc: '2.17' });
  expect(pythonNotes(job, NEEDS, [old, node('n2')])).toEqual(['programs fail on n1: numpy 2.4.6 needs glibc 2.28, and the node has 2.17']);
  // The node's label differs from the role's label.
  expect(pythonNotes(job, NEEDS, [{ ...old, label: 'old' }, node('n2')])).toEqual([]);
});

test('a job that no node can run is rejected, with the settings that would work', () => {
  const nodes = [node('n1', { pythons: ['3.9', '3.6'], glibc: '2.17' }), node('n2', { pythons: ['3.9'] })];
  expect(() => pythonNotes(job, NEEDS, nodes)).toThrow(
    expect.objectContaining({
      code: 'PYTHON_MISMATCH',
      message:
        'The packages in python.requirements work on none of the 2 nodes that role worker may use (probed on 2026-01-02). n1: the packages are for Python 3.11, and the node has 3.9, 3.6.',
      hint: expect.stringMatching(/^Set version: '3\.9' and platform: manylinux_2_17_x86_64 under python/),
    }),
  );
  expect(() => pythonNotes(job, NEEDS, [node('n1', { machine: 'aarch64' })])).toThrow(
    'the packages are for x86_64, and the node is aarch64',
  );
  expect(() => pythonNotes(job, NEEDS, [node('n1', { pythons: [] })])).toThrow(
    expect.objectContaining({ hint: expect.stringContaining('python.archive') }),
  );
});

test('a record keeps the nodes that a later probe did not visit, and an unreadable record counts as empty', async () => {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'nodes-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const [storage, root] = [new FileStorage(), fileUri(folder)];
  expect(await readNodeRecord(storage, root)).toEqual([]);
  await recordNodes(storage, root, [node('n1'), node('n2')]);
  await recordNodes(storage, root, [node('n2', { glibc: '2.40' })]);
  expect(await readNodeRecord(storage, root)).toEqual([node('n1'), node('n2', { glibc: '2.40' })]);
  await storage.write(`${root}/nodes.json`, Buffer.from('{"version":2}'));
  expect(await readNodeRecord(storage, root)).toEqual([]);
});
