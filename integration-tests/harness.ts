/** Fixtures of the integration tests: the shared cluster of the test run, the `tony-ts` command for this cluster, and temporary folders. */
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, inject, onTestFinished } from 'vitest';
import { withMilliseconds } from '../conf/status/api-object.ts';
import type { JobStatus } from '../conf/status/status.ts';
import { Cluster } from './cluster/cluster.mjs';
import type { SiteProperties } from './cluster/configuration.mjs';
import { OWN_CLUSTER_OFFSET } from './cluster/layout.mjs';
import { processesWorkingIn } from './cluster/processes.mjs';
import { type Command, type CommandOptions, type CommandResult, runCommand, startCommand } from './command.ts';
import { until } from './until.ts';

export { jsonLines } from './command.ts';
export { until } from './until.ts';

/** The tests run as an ordinary user instead of HDFS's superuser, so missing permissions cause failures. */
export const USER = 'alice';

/** The ResourceManager's report of an application. The type declares only the fields that tests need. */
export interface YarnApplication {
  readonly id: string;
  readonly user: string;
  readonly queue: string;
  readonly state: 'NEW' | 'NEW_SAVING' | 'SUBMITTED' | 'ACCEPTED' | 'RUNNING' | 'FINISHED' | 'FAILED' | 'KILLED';
  readonly finalStatus: 'UNDEFINED' | 'SUCCEEDED' | 'FAILED' | 'KILLED' | 'ENDED';
  readonly diagnostics: string;
  readonly trackingUrl: string;
  /** From 0 to 100. */
  readonly progress: number;
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
  clientEnvironment(user: string = USER): Record<string, string> {
    return this.environment(user);
  }

  run(words: readonly string[], options: CommandOptions = {}): Promise<CommandResult> {
    return runCommand(words, { ...options, env: { ...this.clientEnvironment(), ...options.env } });
  }

  startCommand(words: readonly string[], options: CommandOptions = {}): Command {
    return startCommand(words, { ...options, env: { ...this.clientEnvironment(), ...options.env } });
  }

  async application(id: string): Promise<YarnApplication> {
    const answer = await this.#get(`${this.resourceManager}/ws/v1/cluster/apps/${id}`);
    return ((await answer.json()) as { app: YarnApplication }).app;
  }

  async applications(): Promise<YarnApplication[]> {
    const answer = await this.#get(`${this.resourceManager}/ws/v1/cluster/apps`);
    return ((await answer.json()) as { apps: { app: YarnApplication[] } | null }).apps?.app ?? [];
  }

  /** Returns the status that the job's ApplicationMaster reports. */
  async jobStatus(id: string): Promise<JobStatus> {
    const answer = await this.request(`${this.resourceManager}/proxy/${id}/tony/api/v1/job`);
    if (!answer.ok) {
      throw new Error(`${answer.status} ${await answer.text()}`);
    }
    return withMilliseconds(await answer.json()) as JobStatus;
  }

  /** Waits until the job has a given state. The job's page is unavailable while an ApplicationMaster starts. */
  async reached(id: string, condition: (status: JobStatus) => boolean): Promise<JobStatus> {
    return await until(
      async () => {
        const status = await this.jobStatus(id);
        return condition(status) && status;
      },
      { describe: () => this.jobStatus(id).catch(String), everyMs: 300 },
    );
  }

  async killApplication(id: string): Promise<void> {
    const answer = await this.request(`${this.resourceManager}/ws/v1/cluster/apps/${id}/state`, {
      method: 'PUT',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ state: 'KILLED' }),
      signal: AbortSignal.timeout(10_000),
    });
    if (!answer.ok) {
      throw new Error(`killing ${id}: ${await answer.text()}`);
    }
  }

  async ended(id: string, timeoutMs?: number): Promise<YarnApplication> {
    return until(
      async () => {
        const application = await this.application(id);
        return hasEnded(application) && application;
      },
      { timeoutMs, everyMs: 300, describe: () => this.application(id) },
    );
  }

  /** Returns all files and folders below an HDFS path, or an empty list if the path does not exist. */
  async hdfsTree(folder: string): Promise<HdfsEntry[]> {
    const answer = await this.request(this.#hdfs(folder, 'LISTSTATUS'), { signal: AbortSignal.timeout(10_000) });
    if (answer.status === 404) {
      return [];
    }
    if (!answer.ok) {
      throw new Error(`listing ${folder}: ${await answer.text()}`);
    }
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
    const answer = await this.request(this.#hdfs(file, 'CREATE&overwrite=true&noredirect=true'), {
      method: 'PUT',
      signal: AbortSignal.timeout(10_000),
    });
    const { Location } = (await answer.json()) as { Location: string };
    if (this.profile.scheme === 'https') {
      const written = await this.request(Location, { method: 'PUT', body: Buffer.from(content) });
      if (written.status !== 201) {
        throw new Error(`writing ${file}: ${written.status}`);
      }
      return;
    }
    // This uses node:http because a DataNode sends an unrequested "100 Continue", which `fetch` rejects.
    const request = httpRequest(Location, { method: 'PUT', signal: AbortSignal.timeout(60_000) }).end(content);
    const [written] = (await once(request, 'response')) as [IncomingMessage];
    written.resume();
    if (written.statusCode !== 201) {
      throw new Error(`writing ${file}: ${written.statusCode}`);
    }
  }

  async hdfsMakeFolder(folder: string, permission: string): Promise<void> {
    const answer = await this.request(this.#hdfs(folder, `MKDIRS&permission=${permission}`), {
      method: 'PUT',
      signal: AbortSignal.timeout(10_000),
    });
    if (!answer.ok) {
      throw new Error(`making ${folder}: ${await answer.text()}`);
    }
  }

  async hdfsGive(file: string, user: string): Promise<void> {
    const answer = await this.request(this.#hdfs(file, `SETOWNER&owner=${user}`), { method: 'PUT', signal: AbortSignal.timeout(10_000) });
    if (!answer.ok) {
      throw new Error(`giving ${file} to ${user}: ${await answer.text()}`);
    }
  }

  async hdfsRemove(file: string): Promise<void> {
    await this.request(this.#hdfs(file, 'DELETE&recursive=true'), { method: 'DELETE', signal: AbortSignal.timeout(10_000) });
  }

  /**
   * Restarts killed daemons and waits until the cluster is ready. The wait is necessary because a DataNode detects a new NameNode only on
   * its next call.
   */
  async heal(): Promise<void> {
    await this.up();
    const probe = '/.readiness';
    await until(
      async () => {
        await this.hdfsWrite(probe, Buffer.from('ready'));
        return (await this.hdfsRead(probe)).toString() === 'ready';
      },
      { describe: 'a file that is written to HDFS can be read' },
    );
  }

  /** Runs as the superuser, who may access every file. */
  #hdfs(file: string, operation: string): string {
    return `${this.nameNode}/webhdfs/v1${file.split('/').map(encodeURIComponent).join('/')}?op=${operation}`;
  }

  async #get(url: string): Promise<Response> {
    const answer = await this.request(url, { signal: AbortSignal.timeout(60_000) });
    if (!answer.ok) {
      throw new Error(`GET ${url}: ${answer.status} ${await answer.text()}`);
    }
    return answer;
  }
}

/** Number of the Vitest worker that runs this file, counted from 1. */
function worker(): number {
  return Number(process.env.VITEST_POOL_ID);
}

/**
 * Returns the worker's shared cluster, which starts before the file's first test. TONY_TEST_PROFILE selects its profile. After the last
 * test, restarts killed daemons, and fails the file if an application or a container process is still running.
 */
export function useCluster(): TestCluster {
  const profile = process.env.TONY_TEST_PROFILE || 'plain';
  const cluster = new TestCluster(inject('clusterOffsets')[worker() - 1] as number, { profile });
  beforeAll(() => cluster.up());
  afterAll(async () => {
    await cluster.heal();
    try {
      await allEnded(cluster);
    } finally {
      // A restarted NodeManager needs some time to detect that containers ended during its downtime.
      await noneLeft(cluster);
    }
  });
  return cluster;
}

/**
 * Returns a separate cluster for one test file, with its own profile, configuration or Hadoop version. The cluster starts empty and stops
 * after the last test.
 */
export function useOwnCluster(profile: string, overrides: SiteProperties = {}, hadoop?: string): TestCluster {
  const cluster = new TestCluster((inject('clusterOffsets')[worker() - 1] as number) + OWN_CLUSTER_OFFSET, { profile });
  // Some profiles start many daemons, and the first use of a Hadoop version downloads it.
  beforeAll(() => cluster.up({ fresh: true, overrides, ...(hadoop === undefined ? {} : { hadoop }) }));
  afterAll(() => cluster.wipe());
  return cluster;
}

function hasEnded({ state }: YarnApplication): boolean {
  return state === 'FINISHED' || state === 'FAILED' || state === 'KILLED';
}

/** Waits until every application has ended. This includes applications that wait for resources and have no processes yet. */
async function allEnded(cluster: TestCluster): Promise<void> {
  const left = async () => (await cluster.applications()).filter((application) => !hasEnded(application));
  try {
    await until(async () => (await left()).length === 0, {
      describe: async () => `applications that outlived their tests: ${JSON.stringify(await left(), null, 2)}`,
    });
  } catch (error) {
    // Remaining applications must not affect the next test file.
    for (const { id } of await left()) {
      await cluster.killApplication(id);
    }
    throw error;
  }
}

/** How long (ms) processes may outlive their application: their grace period, and the time in which a NodeManager that has restarted finds them. */
const LEFT_MS = 60_000;

/** Waits until every container process has ended, of one application or of all. */
export async function noneLeft(cluster: Cluster, applicationId?: string): Promise<void> {
  try {
    await until(async () => (await cluster.containers(applicationId)).length === 0, {
      timeoutMs: LEFT_MS,
      // Reading all processes takes 20 ms.
      everyMs: 300,
      describe: async () =>
        `processes that outlived their application: ${JSON.stringify(await cluster.containers(applicationId), null, 2)}`,
    });
  } catch (error) {
    // Remaining processes must not affect the next test file.
    await cluster.killContainers();
    throw error;
  }
}

/** Creates an empty folder, which is deleted when the test ends. */
export async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'tony-ts-test-'));
  onTestFinished(async () => {
    // The ApplicationMaster of a local job still writes to the folder after the job has ended, and would create the folder again.
    await until(() => processesWorkingIn(folder).length === 0, {
      describe: () => `processes that outlived their test: ${processesWorkingIn(folder).join(', ')}`,
    });
    await rm(folder, { recursive: true, force: true, maxRetries: 10 });
  });
  return folder;
}
