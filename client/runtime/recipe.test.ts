import { describe, expect, it } from 'vitest';
import { NODE_PACKAGES, PACKAGE_LOCK } from './pins.ts';
import { recipeOf } from './recipe.ts';

const linux = { platform: 'linux', arch: 'x64' };

describe('recipeOf', () => {
  it('gives each kind of runtime its own stable key', () => {
    const recipes = ([20, 22, 24] as const).flatMap((node) => [recipeOf({ node }, linux), recipeOf({ node, gpu: true }, linux)]);
    recipes.push(recipeOf({}, { platform: 'linux', arch: 'arm64' }));
    expect(new Set(recipes.map(({ key }) => key)).size).toBe(7);
    expect(recipeOf({}, linux).key).toBe(recipeOf({ node: 22, gpu: false }, linux).key);
    expect(recipeOf({}, linux).key).toMatch(/^tfjs-4\.22\.0-node-22\.\d+\.\d+-x64-[0-9a-f]{12}$/);
  });

  it('rejects machines without a pinned runtime', () => {
    expect(() => recipeOf({}, { platform: 'darwin', arch: 'arm64' })).toThrow(
      'runtimes can be built on Linux x64 and arm64 only; this machine is darwin arm64',
    );
    expect(() => recipeOf({ gpu: true }, { platform: 'linux', arch: 'arm64' })).toThrow('GPU');
  });
});

describe('the pins', () => {
  it('pin the checksum of every package in the lock file, without a registry address', () => {
    const packages = Object.entries(PACKAGE_LOCK.packages as Record<string, { integrity?: string; resolved?: string }>).filter(
      ([name]) => name !== '',
    );
    expect(packages.length).toBeGreaterThan(100);
    for (const [name, { integrity, resolved }] of packages) {
      expect(integrity, name).toMatch(/^sha512-/);
      expect(resolved, name).toBeUndefined();
    }
  });

  it('pin all packages of TensorFlow.js to the same version', () => {
    const versions = Object.entries(PACKAGE_LOCK.packages as Record<string, { version?: string }>)
      .filter(([name]) => /^node_modules\/@tensorflow\/[^/]+$/.test(name))
      .map(([, { version }]) => version);
    expect(new Set(versions)).toEqual(new Set(['4.22.0']));
  });

  it('pin the checksum of the Node.js package', () => {
    for (const [major, packages] of Object.entries(NODE_PACKAGES)) {
      for (const node of Object.values(packages)) {
        expect(node.version.split('.')[0]).toBe(major);
        expect(Buffer.from(node.integrity.replace('sha512-', ''), 'base64')).toHaveLength(64);
      }
    }
  });
});
