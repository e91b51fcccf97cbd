/** A GPU, or an instance of a GPU that is partitioned with MIG. */
export interface GpuDevice {
  /** The device in CUDA_VISIBLE_DEVICES: an index in the order of PCI bus IDs, or the UUID of a MIG instance. */
  readonly name: string;
  readonly uuid: string;
}

export interface GpuVariables {
  /** YARN's GPU plugin sets this variable for NVIDIA's container runtime. */
  readonly nvidiaVisible: string | undefined;
  /** The node's administrator sets this variable or, in local mode, the user. */
  readonly cudaVisible: string | undefined;
}

/** Parses the output of `nvidia-smi -L`. A partitioned GPU can only be used through its MIG instances. */
export function parseDevices(text: string): GpuDevice[] {
  const devices: GpuDevice[] = [];
  for (const line of text.split('\n')) {
    const [, index, gpu] = /^GPU (\d+):.*\(UUID: (GPU-[\w-]+)\)/.exec(line) ?? [];
    const [, instance] = /^\s+MIG .*\(UUID: (MIG-[\w/-]+)\)/.exec(line) ?? [];
    if (index !== undefined && gpu !== undefined) {
      devices.push({ name: index, uuid: gpu });
    } else if (instance !== undefined) {
      // The line of a partitioned GPU precedes the lines of its instances.
      const last = devices.at(-1);
      if (last?.uuid.startsWith('GPU-')) {
        devices.pop();
      }
      devices.push({ name: instance, uuid: instance });
    }
  }
  return devices;
}

/**
 * Returns the devices that the container may use, in order of preference.
 * @param devices all devices that the container sees.
 */
export function allowedDevices(devices: readonly GpuDevice[], { nvidiaVisible, cudaVisible }: GpuVariables): GpuDevice[] {
  const assigned = namesIn(nvidiaVisible);
  const isAll = assigned === null || assigned.length === 0 || assigned[0] === 'all';
  // The container runtime hides the other devices and numbers the remaining ones from 0.
  const ofContainer = isAll || assigned.length >= devices.length ? devices : selected(devices, assigned);
  const chosen = namesIn(cudaVisible);
  return chosen === null ? [...ofContainer] : selected(ofContainer, chosen);
}

/** Returns true if CUDA_VISIBLE_DEVICES hides all devices. Users hide them to run a program on the CPU. */
export function hidesAll(cudaVisible: string | undefined): boolean {
  return cudaVisible !== undefined && ['', '-1', 'NoDevFiles'].includes(cudaVisible.trim());
}

function namesIn(value: string | undefined): string[] | null {
  return value === undefined
    ? null
    : value
        .split(',')
        .map((name) => name.trim())
        .filter((name) => name !== '');
}

/** CUDA accepts indexes, UUIDs and unique prefixes of UUIDs. */
function selected(devices: readonly GpuDevice[], names: readonly string[]): GpuDevice[] {
  return names.flatMap(
    (name) => devices.find((device) => device.name === name || (/^(GPU|MIG)-/.test(name) && device.uuid.startsWith(name))) ?? [],
  );
}
