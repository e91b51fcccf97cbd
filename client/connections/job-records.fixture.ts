import { FileStorage } from '../../storage/file-storage.ts';
import type { JobRecords } from './job-records.ts';

/** Records for a job without any files, whose ApplicationMaster does not respond. */
export function noRecords(change: Partial<JobRecords> = {}): JobRecords {
  return {
    storage: new FileStorage(),
    user: 'alice',
    place: async () => null,
    staged: () => 'file:///nowhere',
    ask: async () => null,
    yarn: async () => null,
    logs: async () => null,
    mayRead: async () => true,
    ...change,
  };
}
