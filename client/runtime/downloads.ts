import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { TonyError } from '../../platform/errors.ts';
import { downloadPackages, runDownload } from './download-packages.ts';
import { type Architecture, type NodePackage, PACKAGE_LOCK, WHEEL_GLIBC, WHEEL_PYTHON, type Wheel } from './pins.ts';

/*
 * All downloads use npm and pip, which are often already configured for a site's mirrors, proxies, certificates and caches. In contrast,
 * the tfjs-node installer uses a host that firewalls often block, and does not verify checksums.
 */

const MINUTES = 60_000;

/** Installs the packages that the lock file lists in `folder`/node_modules, without running install scripts. */
export async function installPackages(folder: string, signal: AbortSignal): Promise<void> {
  await mkdir(folder, { recursive: true });
  await writeFile(path.join(folder, 'package.json'), JSON.stringify(PACKAGE_LOCK.packages['']));
  await writeFile(path.join(folder, 'package-lock.json'), JSON.stringify(PACKAGE_LOCK));
  // If npx started this process, npm without --prefix would use npx's working directory.
  const args = ['ci', '--prefix', folder, '--ignore-scripts', '--no-audit', '--no-fund', '--no-bin-links', '--loglevel=error'];
  await runDownload('the TensorFlow.js packages', { command: 'npm', args, cwd: folder, signal, timeoutMs: 10 * MINUTES });
}

/** Downloads Node as an npm package into `folder`, and returns the path of its tarball. */
export async function downloadNode(node: NodePackage, folder: string, signal: AbortSignal): Promise<string> {
  await mkdir(folder, { recursive: true });
  const spec = `${node.name}@${node.version}`;
  const args = ['pack', spec, '--ignore-scripts', '--pack-destination', folder, '--loglevel=error'];
  await runDownload(spec, { command: 'npm', args, cwd: folder, signal, timeoutMs: 10 * MINUTES });
  const tarball = await only(folder, '.tgz');
  const hash = createHash('sha512');
  await pipeline(createReadStream(tarball), hash);
  if (`sha512-${hash.digest('base64')}` !== node.integrity) {
    throw new TonyError('RUNTIME_HASH_MISMATCH', `the checksum of the npm package ${spec} does not match the published checksum`);
  }
  return tarball;
}

/** Downloads a wheel into `folder`, and returns its path. pip verifies the checksum. */
export async function downloadWheel(wheel: Wheel, architecture: Architecture, folder: string, signal: AbortSignal): Promise<string> {
  const place = { python: WHEEL_PYTHON, architecture, folder, signal };
  const [file] = await downloadWheels(`${wheel.name} ${wheel.version}`, [wheel], place);
  return file as string;
}

/** Downloads wheels for one Python version. Returns the paths in the same order as `wheels`. */
export async function downloadWheels(
  what: string,
  wheels: readonly Wheel[],
  options: { readonly python: string; readonly architecture: Architecture; readonly folder: string; readonly signal: AbortSignal },
): Promise<string[]> {
  const { python, architecture, folder, signal } = options;
  await mkdir(folder, { recursive: true });
  const requirements = path.join(folder, 'requirements.txt');
  await writeFile(requirements, wheels.map(({ name, version, sha256 }) => `${name}==${version} --hash=sha256:${sha256}\n`).join(''));
  const target = { version: python, machine: architecture === 'x64' ? 'x86_64' : 'aarch64', glibc: WHEEL_GLIBC };
  await downloadPackages(what, { file: requirements, kind: 'pinned', folder, target }, signal);
  const files = (await readdir(folder)).filter((name) => name.endsWith('.whl'));
  return wheels.map(({ name, version }) => {
    // A wheel's file name begins with the package name and the version (PEP 427).
    const begin = `${name.replaceAll('-', '_')}-${version}-`;
    const file = files.find((each) => each.toLowerCase().startsWith(begin.toLowerCase()));
    if (file === undefined) {
      throw new Error(`expected a file ${begin}*.whl in ${folder}`);
    }
    return path.join(folder, file);
  });
}

async function only(folder: string, extension: string): Promise<string> {
  const [name, ...more] = (await readdir(folder)).filter((each) => each.endsWith(extension));
  if (name === undefined || more.length > 0) {
    throw new Error(`expected exactly one ${extension} file in ${folder}`);
  }
  return path.join(folder, name);
}
