import { describe, expect, it } from 'vitest';
import { addonFolderOf, candidates, isNotFound, type Places } from './resolution.ts';

const places: Places = {
  training: 'file:///c/tony/training.mjs',
  runtime: 'file:///c/runtime/runtime.js',
  program: 'file:///c/source/train.ts',
};
const user = places.program;

describe('candidates', () => {
  it('resolves tony-ts/training to the library that the job shipped, even if the program has installed another version', () => {
    expect(candidates('tony-ts/training', user, places)).toEqual([{ at: places.training }]);
  });

  it("resolves tony-ts from the user's program, then the runtime, and finally to the training library", () => {
    expect(candidates('tony-ts', user, places)).toEqual([{ from: null }, { from: places.runtime }, { at: places.training }]);
  });

  it('prefers the packages that the user installed to those of the runtime', () => {
    expect(candidates('@tensorflow/tfjs', user, places)).toEqual([{ from: null }, { from: places.runtime }]);
    expect(candidates('seedrandom', user, places)).toEqual([{ from: null }, { from: places.runtime }]);
  });

  it("resolves TensorFlow.js for the training library and the runtime as the user's program does", () => {
    const expected = [{ from: user }, { from: null }, { from: places.runtime }];
    expect(candidates('@tensorflow/tfjs', places.training ?? '', places)).toEqual(expected);
    const inRuntime = 'file:///c/runtime/node_modules/@tensorflow/tfjs-node/dist/index.js';
    expect(candidates('@tensorflow/tfjs', inRuntime, places)).toEqual(expected);
    expect(candidates('long', inRuntime, places)).toEqual([{ from: null }, { from: places.runtime }]);
  });

  it.each(['./model.ts', '../x.js', '/abs/x.js', 'file:///x.js', 'node:fs', '#inside', 'data:text/javascript,1'])(
    'leaves %s to Node.js',
    (specifier) => {
      expect(candidates(specifier, user, places)).toEqual([{ from: null }]);
    },
  );

  it("uses only Node.js's own resolution without a runtime and a training library", () => {
    const bare: Places = { training: null, runtime: null, program: user };
    for (const specifier of ['tony-ts', 'tony-ts/training', '@tensorflow/tfjs']) {
      expect(candidates(specifier, user, bare)).toEqual([{ from: null }]);
    }
  });
});

describe('addonFolderOf', () => {
  it('returns the folder of the addon in the resolved package', () => {
    const found = 'file:///home/alice/node_modules/@tensorflow/tfjs-node/dist/index.js';
    expect(addonFolderOf('@tensorflow/tfjs-node', found)?.href).toBe('file:///home/alice/node_modules/@tensorflow/tfjs-node/lib/');
    expect(addonFolderOf('@tensorflow/tfjs', found)).toBeNull();
    expect(addonFolderOf('@tensorflow/tfjs-node', 'file:///home/alice/linked/index.js')).toBeNull();
  });
});

describe('isNotFound', () => {
  it('distinguishes a missing package from a package that does not export the requested path', () => {
    expect(isNotFound(Object.assign(new Error(), { code: 'MODULE_NOT_FOUND' }))).toBe(true);
    expect(isNotFound(Object.assign(new Error(), { code: 'ERR_MODULE_NOT_FOUND' }))).toBe(true);
    expect(isNotFound(Object.assign(new Error(), { code: 'ERR_PACKAGE_PATH_NOT_EXPORTED' }))).toBe(false);
    expect(isNotFound(null)).toBe(false);
  });
});
