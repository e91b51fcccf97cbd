import path from 'node:path';
import type { TaskService } from '../../conf/frameworks/framework.ts';
import { frameworkOf } from '../../conf/frameworks.ts';
import type { ServiceFrame } from '../../contract/services/service-frame.ts';
import { messageOf } from '../../platform/errors.ts';
import type { Logger } from '../../platform/log.ts';
import type { MasterLink } from '../master/master-link.ts';
import type { TaskPartitions } from '../partitions/task-partitions.ts';
import { ServicesSocket } from './services-socket.ts';
import type { ExecutorSettings } from './settings.ts';

/** Prefix of the services that programs use to read and write storage. The executor itself provides these services. */
const STORAGE_PREFIX = 'storage.';
/** Prefix of the services that programs use to read the partitions of a feed. The executor itself provides these services. */
const PIECES_PREFIX = 'pieces.';
/**
 * Timeout in ms for a service request while the ApplicationMaster is unreachable. After this time, the program receives an error and
 * retries.
 */
const MAX_WAIT_MS = 60_000;

export interface ProgramServicesOptions {
  readonly settings: ExecutorSettings;
  readonly link: MasterLink;
  /** Shows the user a message. */
  readonly notice: (message: string) => void;
  readonly log: Logger;
}

/** The executor's servers for the user's program. Each run of the program has its own servers. */
export class ProgramServices {
  readonly #options: ProgramServicesOptions;
  #socket: ServicesSocket | null = null;
  #ofFramework: TaskService | null = null;
  #partitions: TaskPartitions | null = null;

  constructor(options: ProgramServicesOptions) {
    this.#options = options;
  }

  /**
   * Opens the servers for a generation, and closes the previous generation's servers.
   * @returns the services socket's folder, or null if the socket cannot be opened, and the port of the framework's service, or 0
   * @throws if the framework's service cannot be opened
   */
  async open(generation: number): Promise<{ readonly services: string | null; readonly servicePort: number }> {
    this.close();
    const { settings, log, notice } = this.#options;
    const services = await this.#openSocket(generation);
    const ask = (...request: [service: string, body: Uint8Array, signal: AbortSignal]) => this.#forward(generation, ...request);
    this.#ofFramework = (await frameworkOf(settings.frozen.job.framework).services?.openInTask({ ask, notice, log })) ?? null;
    return { services, servicePort: this.#ofFramework?.port ?? 0 };
  }

  /** Sends the state of the framework's service to a new ApplicationMaster attempt, because the previous one kept it only in memory. */
  masterReplaced(): void {
    void this.#ofFramework?.repeat();
  }

  close(): void {
    this.#socket?.close();
    this.#socket = null;
    this.#ofFramework?.close();
    this.#ofFramework = null;
    this.#partitions?.endProgram();
  }

  /** Returns the services socket's folder, or null if the socket cannot be opened. Most programs can run without the services. */
  async #openSocket(generation: number): Promise<string | null> {
    const { settings, log } = this.#options;
    try {
      this.#socket = await ServicesSocket.open({
        folder: path.join(settings.folder, `services-${generation}`),
        ask: (service, ...request) => {
          if (service.startsWith(STORAGE_PREFIX)) {
            return this.#serveStorage(generation, service, ...request);
          }
          return service.startsWith(PIECES_PREFIX)
            ? this.#servePieces(generation, service, ...request)
            : this.#forward(generation, service, ...request);
        },
        log,
      });
      return this.#socket.folder;
    } catch (error) {
      log.warn({ error: messageOf(error) }, "the program cannot reach the ApplicationMaster's services");
      return null;
    }
  }

  #forward(generation: number, service: string, body: Uint8Array, signal: AbortSignal): Promise<ServiceFrame | null> {
    return this.#options.link.serve({ generation, service, body }, MAX_WAIT_MS, signal);
  }

  async #serveStorage(generation: number, service: string, body: Uint8Array, signal: AbortSignal): Promise<ServiceFrame> {
    const { settings, notice } = this.#options;
    // Load the storage code on demand to save memory, because most executors never access storage.
    const { serveStorage } = await import('../storage/storage-services.ts');
    return await serveStorage(settings, { generation, notice }, service, body, signal);
  }

  async #servePieces(generation: number, service: string, body: Uint8Array, signal: AbortSignal): Promise<ServiceFrame | null> {
    const { settings, notice, log } = this.#options;
    const { TaskPartitions } = await import('../partitions/task-partitions.ts');
    this.#partitions ??= new TaskPartitions({ settings, ask: (...request) => this.#forward(...request), notice, log });
    return await this.#partitions.serve(generation, service, body, signal);
  }
}
