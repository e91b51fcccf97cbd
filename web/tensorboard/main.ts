import path from 'node:path';
import { pipeline } from 'node:stream';
import type { TLSSocket } from 'node:tls';
import { CONTAINER_LAYOUT } from '../../conf/job.ts';
import { openListener } from '../../contract/connections/listener.ts';
import { storageOfJob } from '../../contract/process/open-storage.ts';
import { openReport } from '../../contract/process/report.ts';
import { readTask } from '../../contract/process/task.ts';
import { TASK_ENVIRONMENT } from '../../contract/process/task-environment.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { createLogger } from '../../platform/log.ts';
import { serveTensorBoard } from './secure-channel.ts';
import { TensorBoard } from './tensorboard.ts';

// The `tensorboard` role's program: serves TensorBoard to the job's ApplicationMaster only.

const LOOK_MS = 5_000;
/** The job shows a limited number of notices, so this limit leaves space for other tasks' notices. */
const MAX_NOTICES = 5;

const log = createLogger({ task: 'tensorboard' });

async function run(): Promise<void> {
  const task = readTask();
  if (task === null || task.listener === null) {
    throw new TonyError('TASK_FILE_INVALID', 'Only an executor can start this program.');
  }
  const folder = path.dirname(process.env[TASK_ENVIRONMENT.taskFile] ?? '');
  const report = openReport(task.reportFile);
  const notices = new Set<string>();
  const note = (message: string): void => {
    if (message === '' || notices.has(message) || notices.size >= MAX_NOTICES) {
      return;
    }
    notices.add(message);
    report({ type: 'notice', message });
  };
  const storage = storageOfJob(task);
  const tensorBoard = await TensorBoard.start({
    packages: path.join(folder, CONTAINER_LAYOUT.tensorboard),
    summaryDir: task.summaryDir,
    storage,
    folder: path.join(folder, 'tensorboard-work'),
    log,
    onStatus: ({ state, message }) => {
      report({ type: 'progress', step: 0, metrics: { ready: state === 'ready' ? 1 : 0 } });
      if (state !== 'unavailable') {
        return;
      }
      note(message);
      void leave();
    },
  });
  // Summaries may be unreadable or too large while TensorBoard itself works.
  setInterval(() => {
    const { state, message } = tensorBoard.status();
    if (state === 'ready') {
      note(message);
    }
  }, LOOK_MS).unref();

  const secure = serveTensorBoard({
    ringKey: Buffer.from(task.ringKey, 'base64'),
    onConnection: (socket) => join(socket, tensorBoard),
    onRefused: (message) => log.warn({ error: message }, 'a connection was refused'),
  });
  const listener = await openListener(task.listener);
  listener.on('connection', (socket) => secure.emit('connection', socket));

  async function leave(): Promise<void> {
    await tensorBoard.close();
    storage.close();
    // A signal from YARN or from the ApplicationMaster is not a failure, so the exit code is 0.
    process.exit(0);
  }
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
    process.once(signal, () => void leave());
  }
}

function join(socket: TLSSocket, tensorBoard: TensorBoard): void {
  try {
    const upstream = tensorBoard.connect();
    // An error on one side closes both sockets. If a side ends normally, all data that it has sent is still delivered.
    pipeline(socket, upstream, () => {});
    pipeline(upstream, socket, () => {});
  } catch {
    socket.on('error', () => {}).destroy();
  }
}

function fail(error: unknown): never {
  const hint = error instanceof TonyError ? error.hint : undefined;
  log.fatal({ error: error instanceof Error && !(error instanceof TonyError) ? error.stack : undefined, hint }, messageOf(error));
  process.stderr.write(`${messageOf(error)}\n`);
  process.exit(1);
}

process.on('uncaughtException', fail).on('unhandledRejection', fail);
await run();
