/** What integration tests stand on: the run's one cluster, the `tony-ts` command against it, and folders that go with the test. */
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, inject, onTestFinished } from 'vitest';
import { Cluster } from './cluster/cluster.mjs';
import { type Command, type CommandOptions, type CommandResult, runCommand, startCommand } from './command.ts';
import { until } from './until.ts';

export { jsonLines } from './command.ts';
export { until } from './until.ts';

/** Not HDFS's superuser, so that a missing permission shows. */
export const USER = 'alice';

/** What the ResourceManager says of an application; the fields that tests look at. */
export interface YarnApplication {
  readonly id: string;
  readonly user: string;
  readonly queue: string;
  readonly state: 'NEW' | 'NEW_SAVING' | 'SUBMITTED' | 'ACCEPTED' | 'RUNNING' | 'FINISHED' | 'FAILED' | 'KILLED';
  readonly finalStatus: 'UNDEFINED' | 'SUCCEEDED' | 'FAILED' | 'KILLED' | 'ENDED';
  readonly diagnostics: string;
  readonly trackingUrl: string;
  readonly runningContainers: number;
}

export interface HdfsEntry {
  readonly path: string;
  readonly type: 'FILE' | 'DIRECTORY';
  readonly length: number;
  readonly owner: string;
  readonly permission: string;
}

export class TestCluster extends Cluster {
  /** Environment of a client that is `user`. */
  clientEnvironment(user: string = USER): Record<string, string> {
    return { ...this.environment(), HADOOP_USER_NAME: user };
  }

  /** `tony-ts WORDS` against this cluster, to its end. */
  run(words: readonly string[], options: CommandOptions = {}): Promise<CommandResult> {
    return runCommand(words, { ...options, env: { ...this.clientEnvironment(), ...options.env } });
  }

  /** The same, while it runs. */
  startCommand(words: readonly string[], options: CommandOptions = {}): Command {
    return startCommand(words, { ...options, env: { ...this.clientEnvironment(), ...options.env } });
  }

  async application(id: string): Promise<YarnApplication> {
    const answer = await this.#get(`${this.resourceManager}/ws/v1/cluster/apps/${id}?user.name=${USER}`);
    return ((await answer.json()) as { app: YarnApplication }).app;
  }

  async applications(): Promise<YarnApplication[]> {
    const answer = await this.#get(`${this.resourceManager}/ws/v1/cluster/apps?user.name=${USER}`);
    return ((await answer.json()) as { apps: { app: YarnApplication[] } | null }).apps?.app ?? [];
  }

  async killApplication(id: string): Promise<void> {
    const answer = await fetch(`${this.resourceManager}/ws/v1/cluster/apps/${id}/state?user.name=${this.administrator}`, {
      method: 'PUT',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ state: 'KILLED' }),
      signal: AbortSignal.timeout(10_000),
    });
    if (!answer.ok) throw new Error(`killing ${id}: ${await answer.text()}`);
  }

  /** Waits until YARN calls the application ended. */
  async ended(id: string, timeoutMs = 120_000): Promise<YarnApplication> {
    return until(
      async () => {
        const application = await this.application(id);
        return hasEnded(application) && application;
      },
      { timeoutMs, describe: () => this.application(id) },
    );
  }

  /** All files and folders below an HDFS path; none when it does not exist. */
  async hdfsTree(folder: string): Promise<HdfsEntry[]> {
    const answer = await fetch(this.#hdfs(folder, 'LISTSTATUS'), { signal: AbortSignal.timeout(10_000) });
    if (answer.status === 404) return [];
    if (!answer.ok) throw new Error(`listing ${folder}: ${await answer.text()}`);
    const listing = (await answer.json()) as { FileStatuses: { FileStatus: (Omit<HdfsEntry, 'path'> & { pathSuffix: string })[] } };
    const entries = listing.FileStatuses.FileStatus.map(({ pathSuffix, type, length, owner, permission }) => {
      return { path: `${folder}/${pathSuffix}`, type, length, owner, permission };
    });
    const below = await Promise.all(entries.filter(({ type }) => type === 'DIRECTORY').map((entry) => this.hdfsTree(entry.path)));
    return [...entries, ...below.flat()];
  }

  async hdfsRead(file: string): Promise<Buffer> {
    const answer = await this.#get(this.#hdfs(file, 'OPEN'));
    return Buffer.from(await answer.arrayBuffer());
  }

  async hdfsWrite(file: string, content: Uint8Array): Promise<void> {
    const answer = await fetch(this.#hdfs(file, 'CREATE&overwrite=true&noredirect=true'), {
      method: 'PUT',
      signal: AbortSignal.timeout(10_000),
    });
    const { Location } = (await answer.json()) as { Location: string };
    // Not fetch: a DataNode says "100 Continue" unasked, and fetch takes that for a broken answer.
    const request = httpRequest(Location, { method: 'PUT', signal: AbortSignal.timeout(60_000) }).end(content);
    const [written] = (await once(request, 'response')) as [IncomingMessage];
    written.resume();
    if (written.statusCode !== 201) throw new Error(`writing ${file}: ${written.statusCode}`);
  }

  async hdfsMakeFolder(folder: string, permission: string): Promise<void> {
    const answer = await fetch(this.#hdfs(folder, `MKDIRS&permission=${permission}`), {
      method: 'PUT',
      signal: AbortSignal.timeout(10_000),
    });
    if (!answer.ok) throw new Error(`making ${folder}: ${await answer.text()}`);
  }

  /** Makes somebody the owner. */
  async hdfsGive(file: string, user: string): Promise<void> {
    const answer = await fetch(this.#hdfs(file, `SETOWNER&owner=${user}`), { method: 'PUT', signal: AbortSignal.timeout(10_000) });
    if (!answer.ok) throw new Error(`giving ${file} to ${user}: ${await answer.text()}`);
  }

  async hdfsRemove(file: string): Promise<void> {
    await fetch(this.#hdfs(file, 'DELETE&recursive=true'), { method: 'DELETE', signal: AbortSignal.timeout(10_000) });
  }

  /** Starts what a test has killed, and waits until all of it serves: a DataNode finds out only on its next call that its NameNode is a new one. */
  async heal(): Promise<void> {
    await this.up();
    const probe = '/.readiness';
    await until(
      async () => {
        await this.hdfsWrite(probe, Buffer.from('ready'));
        return (await this.hdfsRead(probe)).toString() === 'ready';
      },
      { describe: 'a file that is written to HDFS can be read', timeoutMs: 60_000 },
    );
  }

  /** As the superuser, who may see and change everything. */
  #hdfs(file: string, operation: string): string {
    return `${this.nameNode}/webhdfs/v1${file.split('/').map(encodeURIComponent).join('/')}?op=${operation}&user.name=${this.administrator}`;
  }

  async #get(url: string): Promise<Response> {
    const answer = await fetch(url, { signal: AbortSignal.timeout(60_000) });
    if (!answer.ok) throw new Error(`GET ${url}: ${answer.status} ${await answer.text()}`);
    return answer;
  }
}

/**
 * The cluster of this run, up before the file's first test. After the last one, what tests killed runs again, and neither an application nor a
 * container's process may be left: the file fails when one is.
 */
export function useCluster(): TestCluster {
  const cluster = new TestCluster(inject('clusterOffset'));
  beforeAll(() => cluster.up());
  afterAll(async () => {
    await cluster.heal();
    try {
      await allEnded(cluster);
    } finally {
      // A NodeManager that has just been started again hears only by and by what has ended meanwhile.
      await noneLeft(cluster, undefined, 40_000);
    }
  });
  return cluster;
}

function hasEnded({ state }: YarnApplication): boolean {
  return state === 'FINISHED' || state === 'FAILED' || state === 'KILLED';
}

/** Waits for the end of every application, also of those that wait and have no process. */
async function allEnded(cluster: TestCluster): Promise<void> {
  const left = async () => (await cluster.applications()).filter((application) => !hasEnded(application));
  try {
    await until(async () => (await left()).length === 0, {
      timeoutMs: 40_000,
      describe: async () => `applications that outlived their tests: ${JSON.stringify(await left(), null, 2)}`,
    });
  } catch (error) {
    // The next file shall not find them.
    for (const { id } of await left()) await cluster.killApplication(id);
    throw error;
  }
}

/** Waits for the end of every process of an application's containers, or of all containers. */
export async function noneLeft(cluster: Cluster, applicationId?: string, timeoutMs = 10_000): Promise<void> {
  try {
    await until(async () => (await cluster.containers(applicationId)).length === 0, {
      timeoutMs,
      describe: async () =>
        `processes that outlived their application: ${JSON.stringify(await cluster.containers(applicationId), null, 2)}`,
    });
  } catch (error) {
    // The next file shall not stumble over them.
    await cluster.killContainers();
    throw error;
  }
}

/** An empty folder that is removed when the test ends. */
export async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'tony-ts-test-'));
  // A local job that is over may still be writing its last line.
  onTestFinished(() => rm(folder, { recursive: true, force: true, maxRetries: 10 }));
  return folder;
}
