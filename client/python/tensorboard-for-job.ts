import { TonyError } from '../../platform/errors.ts';
import type { ProgressWriter } from '../runtime/progress.ts';
import { ensureTensorBoard, type TensorBoardArchive } from './ensure-tensorboard.ts';

/**
 * Returns TensorBoard for a new job. If the build fails, reports the reason as progress and returns null, because the job can run without
 * TensorBoard.
 */
export async function tensorBoardForJob(onProgress: ProgressWriter): Promise<TensorBoardArchive | null> {
  try {
    return await ensureTensorBoard(onProgress);
  } catch (error) {
    if (!(error instanceof TonyError)) {
      throw error;
    }
    onProgress(`The job runs without TensorBoard, but the job's page still shows charts. ${error.message} ${error.hint}`);
    return null;
  }
}
