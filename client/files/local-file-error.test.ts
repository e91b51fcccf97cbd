import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { makeFolders } from '../../platform/files/make-folders.ts';
import { thrownError } from '../cli/thrown-error.ts';
import { localFileError } from './local-file-error.ts';
import { writeNewFile } from './write-new-file.ts';

let folder = '';
let file = '';
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tony-files-'));
  file = path.join(folder, 'file');
  await writeFile(file, '');
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const failure = (promise: Promise<unknown>): Promise<unknown> => promise.then(() => expect.fail('succeeded'), thrownError);

test('the refusals of a local file system have codes for users, whichever command meets them', async () => {
  expect(await failure(mkdir(file))).toMatchObject({
    code: 'ALREADY_EXISTS',
    exitCode: 2,
    message: `Cannot create the folder ${file}: file already exists.`,
  });
  expect(await failure(makeFolders(path.join(file, 'x')))).toMatchObject({ code: 'STORAGE_DENIED', exitCode: 4 });
  expect(await failure(makeFolders('/proc/tony-ts'))).toMatchObject({
    exitCode: 4,
    message: /^Cannot create the folder \/proc\/tony-ts: /,
  });
  expect(await failure(writeFile(folder, ''))).toMatchObject({ code: 'STORAGE_DENIED', exitCode: 4 });
  expect(await failure(writeNewFile(file, '', 'Choose.'))).toMatchObject({ code: 'ALREADY_EXISTS', hint: 'Choose.' });
  expect(await failure(writeNewFile(path.join(folder, 'a', 'b'), '', ''))).toMatchObject({ code: 'STORAGE_DENIED' });
  const denied = Object.assign(new Error(`EACCES: permission denied, mkdir '/x'`), { code: 'EACCES', syscall: 'mkdir', path: '/x' });
  expect(thrownError(denied)).toMatchObject({
    code: 'ACCESS_DENIED',
    exitCode: 4,
    message: 'Cannot create the folder /x: permission denied.',
  });
});

test('other errors are none of a file system', () => {
  for (const error of [
    new TypeError('x'),
    null,
    undefined,
    'EACCES',
    Object.assign(new Error('x'), { code: 'ECONNREFUSED', syscall: 'connect' }),
  ]) {
    expect(localFileError(error)).toBeNull();
  }
});
