import type { Logger } from '../../platform/log.ts';
import type { Storage } from '../../storage/storage.ts';
import type { RunningTensorBoard } from './tensorboard-pool.ts';

/** Starts TensorBoard processes on this machine. The first start downloads TensorBoard if needed. */
export function localTensorBoard(options: {
  readonly storage: Storage;
  /** See TensorBoardOptions. */
  readonly copyBytes?: number | undefined;
  readonly log: Logger;
  readonly onProgress: (line: string) => void;
}): (run: { readonly summaryDir: string; readonly folder: string }) => Promise<RunningTensorBoard> {
  const { storage, copyBytes, log, onProgress } = options;
  return async ({ summaryDir, folder }) => {
    const { ensureTensorBoard } = await import('../runtime/ensure-tensorboard.ts');
    const { TensorBoard } = await import('../../web/tensorboard/tensorboard.ts');
    const { tree } = await ensureTensorBoard(onProgress);
    return TensorBoard.start({ packages: tree, summaryDir, storage, folder, log, ...(copyBytes !== undefined && { copyBytes }) });
  };
}
