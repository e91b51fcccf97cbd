import { fileURLToPath } from 'node:url';
import { packagesFor, pythonWith } from './python-environment.ts';

const VERSION = '2.21.0';

export function tensorboardPython(): Promise<string> {
  return pythonWith(cached(`tensorboard-${VERSION}`), [`tensorboard==${VERSION}`]);
}

/** Returns a folder for PYTHONPATH with the packages that the writers of PyTorch and TensorFlow import. */
export function tensorboardWriters(python: string): Promise<string> {
  return packagesFor(python, cached(`tensorboard-writers-${VERSION}`), [`tensorboard==${VERSION}`, 'absl-py', 'packaging', 'protobuf']);
}

function cached(name: string): string {
  return fileURLToPath(new URL(`../.cache/${name}`, import.meta.url));
}
