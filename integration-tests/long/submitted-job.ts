import { expect } from 'vitest';
import type { JobStatus } from '../../conf/status/status.ts';
import { noneLeft, type TestCluster, USER } from '../harness.ts';

/** A job that a test has submitted to its cluster. */
export class SubmittedJob {
  readonly id: string;
  readonly #cluster: TestCluster;

  private constructor(cluster: TestCluster, id: string) {
    this.#cluster = cluster;
    this.id = id;
  }

  /** @param sets assignments for `--set` */
  static async submit(cluster: TestCluster, file: string, sets: readonly string[] = []): Promise<SubmittedJob> {
    const words = ['submit', '--conf', file, '--detach', ...sets.flatMap((each) => ['--set', each])];
    const { stdout, stderr, exitCode } = await cluster.run(words);
    expect({ exitCode, stderr }, stdout).toEqual({ exitCode: 0, stderr: '' });
    return new SubmittedJob(cluster, /application_\d+_\d+/.exec(stdout)?.[0] ?? '');
  }

  /** Returns the status that the job's ApplicationMaster reports. */
  status(): Promise<JobStatus> {
    return this.#cluster.jobStatus(this.id);
  }

  reaches(condition: (status: JobStatus) => boolean): Promise<JobStatus> {
    return this.#cluster.reached(this.id, condition);
  }

  /** Returns the IDs of a task's processes whose command lines begin with `words`. */
  async processes({ tasks }: JobStatus, role: string, index: number, words: string): Promise<number[]> {
    const container = tasks.find((each) => each.role === role && each.index === index)?.containerId;
    const all = await this.#cluster.containers(this.id);
    return all.filter(({ containerId, command }) => containerId === container && command.startsWith(words)).map(({ pid }) => pid);
  }

  /** Waits until the job and its processes have ended. */
  async ended(timeoutMs?: number): Promise<JobStatus> {
    await this.#cluster.ended(this.id, timeoutMs);
    await noneLeft(this.#cluster, this.id);
    return JSON.parse((await this.#cluster.hdfsRead(`/user/${USER}/.tony-ts/history/${this.id}/final.json`)).toString()) as JobStatus;
  }

  /** Returns the output of all programs. */
  async output(): Promise<string> {
    return (await this.#cluster.run(['logs', this.id])).stdout;
  }
}
