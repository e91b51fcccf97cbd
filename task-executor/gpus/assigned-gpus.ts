import { execFile } from 'node:child_process';
import { createServer, type Server } from 'node:net';
import type { Role } from '../../conf/job.ts';
import { jittered, pause } from '../../platform/async/backoff.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { allowedDevices, type GpuDevice, hidesAll, parseDevices } from './gpu-devices.ts';

/*
 * Without GPU isolation, all containers of a node see all of its GPUs. To prevent two tasks from using the same GPU, an executor claims
 * each of its devices by binding an abstract Unix socket whose name contains the device's UUID. Only one process on the machine can bind a
 * name at a time. The kernel releases the name when the process exits.
 */

const PREFIX = '\0tony-ts/gpu/';
const PAUSE_MS = 500;

/** Devices that this process has claimed. */
class DeviceClaim {
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

const VISIBLE = 'CUDA_VISIBLE_DEVICES';
/** With this order, CUDA numbers devices in the same way as nvidia-smi does. */
const BUS_ORDER = { CUDA_DEVICE_ORDER: 'PCI_BUS_ID' };
// Must be shorter than the 30 s within which the ApplicationMaster expects the program to start.
const LIST_MS = 10_000;
const MAX_OUTPUT = 256 * 1024;
/** How long to wait, in ms, for a task that is ending to release its devices. */
const MAX_WAIT_MS = 15_000;

type Variables = Readonly<Record<string, string | undefined>>;

export interface AssignedGpus {
  /** Variables that restrict a program to its task's devices. */
  readonly environment: Readonly<Record<string, string>>;
  /** Null if the executor has not claimed any devices. */
  readonly claim: DeviceClaim | null;
}

const NOTHING: AssignedGpus = { environment: {}, claim: null };

export interface GpuRequest {
  readonly job: { readonly roles: readonly Pick<Role, 'resources'>[] };
  readonly role: Pick<Role, 'resources'>;
  /** The container's environment variables. */
  readonly container: Variables;
  /** Variables from job.yaml. */
  readonly jobEnvironment: Variables;
  readonly signal: AbortSignal;
}

/**
 * Selects the task's GPUs from the devices that the container sees.
 * @param list lists the devices, or resolves to null if the node has no NVIDIA driver
 * @throws TonyError GPUS_NOT_FOUND if the container sees too few devices, or if other tasks are using too many of them
 */
export async function assignGpus(
  { job, role, container, jobEnvironment, signal }: GpuRequest,
  list: () => Promise<readonly GpuDevice[] | null> = listDevices,
  maxWaitMs = MAX_WAIT_MS,
): Promise<AssignedGpus> {
  const { gpus } = role.resources;
  const cudaVisible = container[VISIBLE];
  if (jobEnvironment[VISIBLE] !== undefined || hidesAll(cudaVisible)) {
    return NOTHING;
  }
  if (gpus === 0) {
    // If other roles in the job use GPUs, programs in this role must not use any GPU memory.
    return job.roles.some(({ resources }) => resources.gpus > 0) ? { environment: { [VISIBLE]: '-1' }, claim: null } : NOTHING;
  }
  const devices = await list();
  if (devices === null) {
    return NOTHING;
  }
  const allowed = allowedDevices(devices, { nvidiaVisible: container.NVIDIA_VISIBLE_DEVICES, cudaVisible });
  if (allowed.length < gpus) {
    throw new TonyError('GPUS_NOT_FOUND', `the task requests ${gpus} GPUs, but its container sees only ${allowed.length}`);
  }
  const claim = await DeviceClaim.take(allowed, gpus, maxWaitMs, signal);
  if (claim === null) {
    throw new TonyError(
      'GPUS_NOT_FOUND',
      `the task requests ${gpus} GPUs, but other tasks use too many of the ${allowed.length} GPUs that its container sees`,
    );
  }
  const names = claim.devices.map(({ name }) => name).join(',');
  return { environment: { ...BUS_ORDER, [VISIBLE]: names }, claim };
}

/** @throws TonyError GPUS_NOT_FOUND if the driver does not respond */
function listDevices(): Promise<GpuDevice[] | null> {
  const options = { timeout: LIST_MS, killSignal: 'SIGKILL', maxBuffer: MAX_OUTPUT } as const;
  return new Promise((resolve, reject) => {
    execFile('nvidia-smi', ['-L'], options, (error, stdout) => {
      if (error === null) {
        resolve(parseDevices(stdout));
      } else if (error.code === 'ENOENT') {
        resolve(null);
      } else {
        const said = stdout.trim().split('\n')[0] || messageOf(error);
        reject(new TonyError('GPUS_NOT_FOUND', `nvidia-smi cannot list the GPUs of this node: ${said}`));
      }
    });
  });
}
