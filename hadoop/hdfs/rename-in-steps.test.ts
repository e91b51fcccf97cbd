import fc from 'fast-check';
import { expect, test } from 'vitest';
import { completeRename, keptPath, type SimpleFileSystem, withKept } from './rename-in-steps.ts';
import type { FileStatus } from './web-hdfs-answers.ts';

const CRASH = new Error('crash');

/** A file system with HttpFS semantics. Maps each path to its content, or to null for a folder. */
class Files {
  readonly content: Map<string, string | null>;
  /** The number of operations until the process crashes. */
  left = Number.POSITIVE_INFINITY;

  constructor(content: Readonly<Record<string, string | null>>) {
    this.content = new Map(Object.entries(content));
  }

  rename(from: string, to: string): boolean {
    const moved = this.content.get(from);
    const target = this.content.get(to);
    if (moved === undefined || typeof target === 'string') {
      return false;
    }
    this.content.delete(from);
    this.content.set(target === null ? `${to}/${from.slice(from.lastIndexOf('/') + 1)}` : to, moved);
    return true;
  }

  /** Returns what a reader finds at a path while another process replaces the file. */
  read(path: string): string | null | undefined {
    return this.content.get(path) ?? this.content.get(keptPath(path));
  }

  simple(): SimpleFileSystem {
    const step = <T>(action: () => T): Promise<T> => {
      this.left -= 1;
      return this.left < 0 ? Promise.reject(CRASH) : Promise.resolve(action());
    };
    return {
      status: (path) => step(() => statusOf(path, this.content.get(path))),
      rename: (from, to) => step(() => this.rename(from, to)),
      remove: (path) => step(() => this.content.delete(path)),
      isSame: (one, other) => one.fileId === other.fileId,
    };
  }
}

function statusOf(path: string, content: string | null | undefined): FileStatus | null {
  if (content === undefined) {
    return null;
  }
  // In these tests, every file has different content, so the content identifies the file.
  const fileId = content === null ? path.length + 1000 : content.charCodeAt(0);
  return {
    name: '',
    type: content === null ? 'folder' : 'file',
    length: 1,
    modificationTime: 0,
    permission: 0o644,
    owner: 'alice',
    fileId,
  };
}

async function rename(files: Files, from: string, to: string, overwrite: boolean): Promise<string> {
  const before = statusOf(from, files.content.get(from)) as FileStatus;
  return completeRename(files.simple(), { from, to, before, overwrite }, files.rename(from, to));
}

test('a file is renamed if the target does not exist, and replaces the target only if this is allowed', async () => {
  const free = new Files({ '/new': 'n' });
  expect(await rename(free, '/new', '/file', false)).toBe('renamed');
  expect([...free.content]).toEqual([['/file', 'n']]);
  const taken = new Files({ '/new': 'n', '/file': 'o' });
  expect(await rename(taken, '/new', '/file', false)).toBe('target-exists');
  expect([...taken.content]).toEqual([
    ['/new', 'n'],
    ['/file', 'o'],
  ]);
  expect(await rename(taken, '/new', '/file', true)).toBe('renamed');
  expect([...taken.content]).toEqual([['/file', 'n']]);
});

test('a source that HttpFS moves into an existing folder is moved back', async () => {
  const files = new Files({ '/new': 'n', '/folder': null });
  expect(await rename(files, '/new', '/folder', false)).toBe('target-exists');
  expect(files.content.get('/new')).toBe('n');
  await expect(rename(files, '/new', '/folder', true)).rejects.toMatchObject({ code: 'ALREADY_EXISTS' });
  expect([...files.content.keys()].sort()).toEqual(['/folder', '/new']);
});

test('a missing source is reported, and a rename that fails without a reason is not repeated forever', async () => {
  const files = new Files({ '/new': 'n', '/file': 'o' });
  const before = statusOf('/new', 'n') as FileStatus;
  files.content.delete('/new');
  expect(await completeRename(files.simple(), { from: '/new', to: '/file', before, overwrite: true }, false)).toBe('source-missing');
  const refusing = { ...new Files({ '/new': 'n' }).simple(), rename: async () => false };
  await expect(completeRename(refusing, { from: '/new', to: '/x/file', before, overwrite: true }, false)).rejects.toMatchObject({
    code: 'STORAGE_DENIED',
  });
});

test('after a crash at any step, readers find the old or the new content, and the next write succeeds', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.nat(12), { maxLength: 4 }), async (crashes) => {
      const files = new Files({ '/file': 'a' });
      let valid = ['a'];
      for (const [index, left] of [...crashes, Number.POSITIVE_INFINITY].entries()) {
        const fresh = String.fromCharCode('b'.charCodeAt(0) + index);
        files.content.set('/new', fresh);
        files.left = left;
        const outcome = await rename(files, '/new', '/file', true).catch((error: unknown) => error);
        valid = outcome === 'renamed' ? [fresh] : [...valid, fresh];
        expect(valid).toContain(files.read('/file'));
        expect([outcome === 'renamed', outcome === CRASH]).toContain(true);
      }
      expect(files.content.get('/file')).toBe(String.fromCharCode('b'.charCodeAt(0) + crashes.length));
    }),
  );
});

test('a listing shows a file that is being replaced under its own name', () => {
  const entry = (name: string): FileStatus => ({ ...(statusOf('/x', 'x') as FileStatus), name });
  const kept = keptPath('/folder/state.json').slice('/folder/'.length);
  expect(withKept([entry('other'), entry(kept)]).map(({ name }) => name)).toEqual(['other', 'state.json']);
  expect(withKept([entry('state.json'), entry(kept)]).map(({ name }) => name)).toEqual(['state.json', kept]);
});
