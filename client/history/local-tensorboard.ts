import type { Logger } from '../../conf/log.ts';
import type { Storage } from '../../storage/storage.ts';
import type { RunningTensorBoard } from './tensorboard-pool.ts';

/** Starts TensorBoards as processes of this machine; what they need is made when the first is wanted. */
export function localTensorBoard(options: {
  readonly storage: Storage;
  readonly log: Logger;
  readonly onProgress: (line: string) => void;
}): (run: { readonly summaryDir: string; readonly folder: string }) => Promise<RunningTensorBoard> {
  const { storage, log, onProgress } = options;
  return async ({ summaryDir, folder }) => {
    const { ensureTensorBoard } = await import('../runtime/ensure-tensorboard.ts');
    const { TensorBoard } = await import('../../web/tensorboard/tensorboard.ts');
    const { tree } = await ensureTensorBoard(onProgress);
    return TensorBoard.start({ packages: tree, summaryDir, storage, folder, log });
  };
}
