import { FileStorage } from '../storage/file-storage.ts';
import type { JobRecords } from './job-records.ts';

/** Of a job that has left nothing and answers nothing, for tests; each says what there is after all. */
export function noRecords(change: Partial<JobRecords> = {}): JobRecords {
  return {
    storage: new FileStorage(),
    place: async () => null,
    staged: () => 'file:///nowhere',
    ask: async () => null,
    yarn: async () => null,
    logs: async () => null,
    ...change,
  };
}
