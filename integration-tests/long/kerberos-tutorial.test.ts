import path from 'node:path';
import { expect, test } from 'vitest';
import { keytabOf } from '../cluster/kerberos.mjs';
import { followTutorial } from '../follow-tutorial.ts';
import { temporaryFolder, useOwnCluster } from '../harness.ts';
import { pythonThatImports } from '../python-environment.ts';
import { ReadersShell } from '../readers-shell.ts';

/** Follows the tutorial of PyTorch on a cluster with Kerberos: the reader has no ticket until the tutorial runs kinit. */

const cluster = useOwnCluster('kerberos');
const pytorch = await pythonThatImports('torch');

test.skipIf(pytorch === null)('a reader without a ticket follows the tutorial of PyTorch on a cluster with Kerberos', async () => {
  const folder = await temporaryFolder();
  const tickets = { KRB5CCNAME: `FILE:${path.join(folder, 'tickets')}` };
  // A secure NodeManager serves a log file only if the file belongs to the application's user. On this cluster, NodeManagers run all
  // containers as the administrator, so the administrator is the reader.
  const reader = cluster.administrator;
  const shell = await ReadersShell.open(folder, cluster, { ...cluster.environment(reader), ...tickets }, reader);
  expect(await shell.run('tony-ts list', folder)).toMatchObject({ output: expect.stringContaining('No Kerberos ticket was found') });
  const adapt = (text: string): string =>
    text
      .replace(/^kinit$/, `kinit -k -t ${keytabOf(cluster.state, reader)} ${reader}`)
      .replaceAll(/\balice\b/g, reader)
      .replaceAll('/etc/hadoop/conf', cluster.configuration)
      .replace(/(command:|submit .* --) python3 /, `$1 ${pytorch} `);
  const work = path.join(folder, 'work');
  await followTutorial('docs/tutorials/pytorch.md', { shell, folder: work, adapt, skipped: [/^tony-ts doctor --probe/] });
  expect((await shell.run('ls model/model.pt', work)).exitCode).toBe(0);
});
