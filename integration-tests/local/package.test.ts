import { access, mkdir, readdir, symlink } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { linksOf, readDocuments } from '../../tools/documents.ts';
import { environment, ROOT } from '../command.ts';
import { execute } from '../execute.ts';
import { jsonLines, temporaryFolder } from '../harness.ts';

/** Packs a copy of the tracked files as for a release. npm then builds the package, and must not replace files that other tests use. */
async function pack(folder: string): Promise<string> {
  const copy = path.join(folder, 'repository');
  await mkdir(copy);
  await execute('sh', ['-c', 'git ls-files -z | xargs -0 cp --parents -t "$0"', copy], { cwd: ROOT });
  await symlink(path.join(ROOT, 'node_modules'), path.join(copy, 'node_modules'));
  await execute('npm', ['pack', '--pack-destination', folder], { cwd: copy });
  const [archive = ''] = (await readdir(folder)).filter((name) => name.endsWith('.tgz'));
  return path.join(folder, archive);
}

test('the packed package installs in an empty prefix and trains from there', async () => {
  const folder = await temporaryFolder();
  const prefix = path.join(folder, 'prefix');
  await execute('npm', ['install', '--global', '--prefix', prefix, '--no-audit', '--no-fund', await pack(folder)], { cwd: folder });

  const installed = path.join(prefix, 'lib', 'node_modules', 'tony-ts');
  const documents = await readDocuments(installed);
  const links = documents.flatMap((document) => linksOf(document).map((link) => [document.name, link.replace(/#.*/, '')] as const));
  const files = links.filter(([, link]) => link !== '' && !/^[a-z]+:/.test(link));
  expect(files.length).toBeGreaterThan(100);
  await Promise.all(files.map(([name, link]) => access(path.join(installed, path.dirname(name), link))));

  const run = async (...words: string[]): Promise<string> => {
    const command = path.join(prefix, 'bin', 'tony-ts');
    return (await execute(command, words, { cwd: folder, env: environment({ TONY_LOCAL_DIR: path.join(folder, 'local') }) })).stdout;
  };
  await run('init', 'my-job', '--yes');
  const lines = jsonLines(await run('submit', '--local', '--conf', 'my-job/job.yaml', '--output', 'json'));
  expect(lines.at(-1)).toMatchObject({ type: 'result', state: 'succeeded' });
});
