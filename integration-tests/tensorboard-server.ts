/** A real TensorBoard that listens on its own port, and a client for the HTTP API of its plugins. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { onTestFinished } from 'vitest';
import { tensorboardPython } from './tensorboard-venv.ts';
import { until } from './until.ts';

export class TensorBoardServer {
  readonly #child: ChildProcess;
  #base = '';

  private constructor(child: ChildProcess) {
    this.#child = child;
  }

  /**
   * Starts a server, which stops when the test ends.
   * @param words additional TensorBoard options
   */
  static async start(folder: string, ...words: readonly string[]): Promise<TensorBoardServer> {
    const server = await TensorBoardServer.open(folder, ...words);
    onTestFinished(() => server.close());
    return server;
  }

  /** Starts a server. The caller must close it. */
  static async open(folder: string, ...words: readonly string[]): Promise<TensorBoardServer> {
    const python = await tensorboardPython();
    // `--load_fast=false`: the separate reader process is not available on all platforms.
    const options = ['--logdir', folder, '--host', '127.0.0.1', '--port', '0', '--load_fast=false', '--reload_interval=1', ...words];
    const child = spawn(python, ['-m', 'tensorboard.main', ...options], { stdio: ['ignore', 'ignore', 'pipe'] });
    const server = new TensorBoardServer(child);
    let output = '';
    child.stderr.on('data', (chunk: Buffer) => {
      output += chunk;
    });
    try {
      server.#base = await until(() => /at (http:\/\/127\.0\.0\.1:\d+\/)/.exec(output)?.[1], {
        describe: () => output,
      });
    } catch (error) {
      await server.close();
      throw error;
    }
    return server;
  }

  async close(): Promise<void> {
    if (this.#child.exitCode === null) {
      this.#child.kill('SIGKILL');
      await once(this.#child, 'exit');
    }
  }

  get port(): number {
    return Number(new URL(this.#base).port);
  }

  async get(path: string, query: Readonly<Record<string, string>> = {}): Promise<Response> {
    return await this.#fetch(`${path}?${new URLSearchParams(query)}`, {});
  }

  async data<T>(plugin: string, query: Readonly<Record<string, string>> = {}): Promise<T> {
    return (await (await this.get(`data/plugin/${plugin}`, query)).json()) as T;
  }

  async post<T>(plugin: string, body: unknown): Promise<T> {
    const headers = { 'content-type': 'application/json' };
    const answer = await this.#fetch(`data/plugin/${plugin}`, { method: 'POST', headers, body: JSON.stringify(body) });
    return (await answer.json()) as T;
  }

  async tags(plugin: string): Promise<Record<string, string[]>> {
    const runs = await this.data<Record<string, Record<string, unknown>>>(`${plugin}/tags`);
    return Object.fromEntries(Object.entries(runs).map(([run, tags]) => [run, Object.keys(tags).sort()]));
  }

  /** [step, value] of each point. TensorBoard encodes NaN and infinite values as strings. */
  async scalars(run: string, tag: string): Promise<[number, number | string][]> {
    const points = await this.data<[number, number, number | string][]>('scalars/scalars', { run, tag });
    return points.map(([, step, value]) => [step, value]);
  }

  async #fetch(path: string, init: RequestInit): Promise<Response> {
    const answer = await fetch(new URL(path, this.#base), { ...init, signal: AbortSignal.timeout(60_000) });
    if (!answer.ok) {
      throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    }
    return answer;
  }
}
