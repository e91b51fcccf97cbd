import { createServer, type Server } from 'node:net';
import { jittered, pause } from '../../platform/async/backoff.ts';
import type { GpuDevice } from './gpu-devices.ts';

/*
 * Without GPU isolation, all containers of a node see all of its GPUs. To prevent two tasks from using the same GPU, an executor claims
 * each of its devices by binding an abstract Unix socket whose name contains the device's UUID. Only one process on the machine can bind a
 * name at a time. The kernel releases the name when the process exits.
 */

const PREFIX = '\0tony-ts/gpu/';
const PAUSE_MS = 500;

/** Devices that this process has claimed. */
export class DeviceClaim {
  readonly devices: readonly GpuDevice[];
  readonly #servers: readonly Server[];

  private constructor(devices: readonly GpuDevice[], servers: readonly Server[]) {
    this.devices = devices;
    this.#servers = servers;
  }

  /**
   * Claims devices in the given order.
   * @param maxWaitMs how long to wait for devices that other tasks have claimed
   * @returns null if too few devices are free
   */
  static async take(devices: readonly GpuDevice[], count: number, maxWaitMs: number, signal: AbortSignal): Promise<DeviceClaim | null> {
    const deadline = performance.now() + maxWaitMs;
    for (;;) {
      const claim = await DeviceClaim.#try(devices, count);
      if (claim !== null || performance.now() >= deadline || signal.aborted) {
        return claim;
      }
      await pause(jittered(PAUSE_MS), signal);
    }
  }

  /** Claims all of the devices or none. Otherwise, two tasks that had each claimed only some devices could wait for each other forever. */
  static async #try(devices: readonly GpuDevice[], count: number): Promise<DeviceClaim | null> {
    const taken: GpuDevice[] = [];
    const servers: Server[] = [];
    for (const device of devices) {
      const server = taken.length < count ? await bind(`${PREFIX}${device.uuid}`) : null;
      if (server !== null) {
        taken.push(device);
        servers.push(server);
      }
    }
    const claim = new DeviceClaim(taken, servers);
    if (taken.length === count) {
      return claim;
    }
    claim.release();
    return null;
  }

  release(): void {
    for (const server of this.#servers) {
      server.close();
    }
  }
}

/** Returns null if another process has bound the name. */
function bind(name: string): Promise<Server | null> {
  const server = createServer((socket) => socket.destroy());
  // Otherwise, the open server would prevent this process from exiting.
  server.unref();
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => (error.code === 'EADDRINUSE' ? resolve(null) : reject(error)));
    server.listen(name, () => resolve(server));
  });
}
