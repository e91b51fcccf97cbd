import { expect, test } from 'vitest';
import { parseJob } from '../conf/resolve/load-job.ts';
import { checkOptions } from '../platform/check-options.ts';
import { listCache, pruneCache } from './cache/prune-cache.ts';
import { versions } from './cli/help/versions.ts';
import { connectJob } from './connections/connect-job.ts';
import { LocalJob } from './connections/local-job.ts';
import { followJob } from './connections/operations/follow-job.ts';
import { jobLogs } from './connections/operations/job-logs.ts';
import { jobEvents } from './connections/operations/recorded-events.ts';
import { doctor } from './doctor/doctor.ts';
import { openFeed } from './feed/feed.ts';
import { HistoryIndex } from './history/history-index.ts';
import { LocalHistory } from './history/local-history.ts';
import { openHistoryStore } from './history/open-store.ts';
import { pruneHistory } from './history/prune-history.ts';
import { initJob } from './job/new-job.ts';
import { openLister } from './listing/job-lister.ts';
import { listJobs } from './listing/list-jobs.ts';
import { listLocalJobs } from './listing/local-jobs.ts';
import { quotaUsage } from './quotas/quota-usage.ts';
import { openJob } from './submit/job-handle.ts';
import { loadJob } from './submit/load-job-file.ts';
import { run, start } from './submit/run.ts';
import { planJob, submit } from './submit/submit.ts';
import { importTony } from './tony-import/import-tony.ts';

const job = parseJob('name: a\nroles: {worker: {command: "true"}}', { file: 'job.yaml', folder: '/nowhere' });
const connection = new LocalJob('local_1_0001', '/nowhere');
const store = new LocalHistory('/nowhere', 'alice');
const wrong = (options: object) => options as never;

test.each<[string, () => unknown]>([
  ['submit has no option lcoal; did you mean local?', () => submit(job, wrong({ lcoal: true }))],
  ['planJob has no option locla; did you mean local?', () => planJob(job, wrong({ locla: true }))],
  ['run has no option instance; did you mean instances?', () => run(wrong({ instance: 2 }), async () => 1)],
  ['run: instances must be a whole number of at least 1, or { min, max }, not 0.', () => run({ instances: 0 }, async () => 1)],
  ['run: instances must be a whole number of at least 1, or { min, max }, not "2".', () => run(wrong({ instances: '2' }), async () => 1)],
  ['start has no option instance; did you mean instances?', () => start(wrong({ instance: 2 }), async () => 1)],
  ['listJobs has no option user_; did you mean user?', () => listJobs(wrong({ user_: 'bob' }))],
  ['openLister has no option stagign; did you mean staging?', () => openLister(wrong({ stagign: 'x' }))],
  ['listJobs accepts either local or user, because local jobs are always your own.', () => listJobs({ local: true, user: null })],
  ['listLocalJobs has no option localroot; did you mean localRoot?', () => listLocalJobs(wrong({ localroot: 'x' }))],
  ['openFeed has no option producre; did you mean producer?', () => openFeed('local_1_0001', 'f', wrong({ producre: 'x' }))],
  ['openJob has no option nonsense.', () => openJob('local_1_0001', wrong({ nonsense: 1 }))],
  ['connectJob has no option localRot; did you mean localRoot?', () => connectJob('local_1_0001', wrong({ localRot: '' }))],
  ['doctor has no option queu; did you mean queue?', () => doctor(wrong({ queu: 'a' })).next()],
  ['quotaUsage has no option rol; did you mean role?', () => quotaUsage(wrong({ rol: 'a' }))],
  ['openHistoryStore has no option lcal; did you mean local?', () => openHistoryStore(wrong({ local: true, lcal: true }))],
  ['followJob has no option intervall; did you mean intervalMs?', () => followJob(connection, wrong({ intervall: 1 })).next()],
  ['jobLogs has no option tial; did you mean tail?', () => jobLogs(connection, wrong({ tial: 1 })).next()],
  ['jobEvents has no option type; did you mean types?', () => jobEvents(connection, wrong({ type: 'task' })).next()],
  ['pruneHistory has no option dryrun; did you mean dryRun?', () => pruneHistory(store, wrong({ dryrun: true })).next()],
  ['listCache has no option nwo; did you mean now?', () => listCache(store, wrong({ nwo: 1 }))],
  ['pruneCache has no option dryrun; did you mean dryRun?', () => pruneCache(store, wrong({ dryrun: true })).next()],
  ['HistoryIndex.list has no option limits; did you mean limit?', () => new HistoryIndex(store).list(wrong({ limits: 1 }))],
  ['importTony has no option execute; did you mean executes?', () => importTony('tony.xml', wrong({ execute: 'x' }))],
  ['initJob has no option instance; did you mean instances?', () => initJob('/nowhere', wrong({ instance: 2 }))],
  ['versions has no option stagign; did you mean staging?', () => versions(wrong({ stagign: 'x' }))],
  ['loadJob has no option sets; did you mean set?', () => loadJob('job.yaml', wrong({ sets: [] }))],
])('%s', async (message, call) => {
  await expect((async () => call())()).rejects.toMatchObject({ code: 'USAGE', message });
});

test('checkOptions accepts known options and undefined values', () => {
  checkOptions<{ a?: number | undefined; b?: number }>('f', { a: undefined }, { a: true, b: true });
});
