import { FileStorage } from '../../storage/file-storage.ts';
import type { JobRecords } from './job-records.ts';

/** Test double: the records of a job that has no files and does not answer. `change` overrides single members. */
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
