#!/usr/bin/env node
/**
 * `npm run horovod`: builds Horovod with Gloo for the system's Python and PyTorch in `.cache/horovod`. The tests against Horovod need this
 * build. PyPI has only Horovod's sources. Requires cmake, g++, and Debian's python3-torch, libtorch-dev, pybind11-dev,
 * python3-dev and python3-pip.
 */
import { existsSync } from 'node:fs';
import path from 'node:path';
import { keptFolder } from '../integration-tests/cluster/kept-folder.mjs';
import { ROOT, runInherited } from './install.mjs';

const VERSION = '0.28.1';
const PYTHON = '/usr/bin/python3';
const folder = path.join(ROOT, '.cache', 'horovod');

if (existsSync(folder)) {
  console.log(`${folder} exists. To build Horovod again, remove it.`);
} else {
  const env = {
    MAKEFLAGS: '-j2',
    ...process.env,
    HOROVOD_WITH_PYTORCH: '1',
    HOROVOD_WITH_GLOO: '1',
    HOROVOD_WITHOUT_MPI: '1',
    HOROVOD_WITHOUT_TENSORFLOW: '1',
    HOROVOD_WITHOUT_MXNET: '1',
  };
  try {
    // The build imports PyTorch, so it must not run in isolation from the system's packages.
    const words = ['-m', 'pip', 'install', '--no-build-isolation', '--no-binary', 'horovod'];
    await keptFolder(folder, (partial) => runInherited(PYTHON, [...words, '--target', partial, `horovod==${VERSION}`], { env }));
    console.log(`built Horovod ${VERSION} in ${folder}`);
  } catch (error) {
    console.error(`horovod: ${/** @type {Error} */ (error).message}`);
    process.exitCode = 1;
  }
}
