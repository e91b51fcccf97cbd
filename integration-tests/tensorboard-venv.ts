import { fileURLToPath } from 'node:url';
import { pythonWith } from './python-environment.ts';

const VERSION = '2.21.0';

/** Returns the path of a Python interpreter that has TensorBoard installed. */
export function tensorboardPython(): Promise<string> {
  return pythonWith(fileURLToPath(new URL(`../.cache/tensorboard-${VERSION}`, import.meta.url)), [`tensorboard==${VERSION}`]);
}
