import { TonyError } from '../../conf/errors.ts';
import type { Progress } from './build-runtime.ts';
import { ensureTensorBoard, type TensorBoardArchive } from './ensure-tensorboard.ts';

/** TensorBoard for a job that is being submitted. A job runs as well without: then a line says why there is none. */
export async function tensorBoardForJob(onProgress: Progress): Promise<TensorBoardArchive | null> {
  try {
    return await ensureTensorBoard(onProgress);
  } catch (error) {
    if (!(error instanceof TonyError)) throw error;
    onProgress(`The job goes without TensorBoard; its own page has charts. ${error.message} ${error.hint}`);
    return null;
  }
}
