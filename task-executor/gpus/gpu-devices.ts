/** A GPU, or a MIG instance on a partitioned GPU. */
export interface GpuDevice {
  /** The device's name in CUDA_VISIBLE_DEVICES: an index in PCI bus ID order, or the UUID of a MIG instance. */
  readonly name: string;
  readonly uuid: string;
}

export interface GpuVariables {
  /** Value of NVIDIA_VISIBLE_DEVICES, which YARN's GPU plugin sets for NVIDIA's container runtime. */
  readonly nvidiaVisible: string | undefined;
  /** Value of CUDA_VISIBLE_DEVICES, which the node's administrator sets. For a local job, the user sets it. */
  readonly cudaVisible: string | undefined;
}

/** Parses the output of `nvidia-smi -L`. For a partitioned GPU, lists only its MIG instances, because programs can use only these. */
export function parseDevices(text: string): GpuDevice[] {
  const devices: GpuDevice[] = [];
  for (const line of text.split('\n')) {
    const [, index, gpu] = /^GPU (\d+):.*\(UUID: (GPU-[\w-]+)\)/.exec(line) ?? [];
    const [, instance] = /^\s+MIG .*\(UUID: (MIG-[\w/-]+)\)/.exec(line) ?? [];
    if (index !== undefined && gpu !== undefined) {
      devices.push({ name: index, uuid: gpu });
    } else if (instance !== undefined) {
      // The line for a partitioned GPU precedes the lines for its instances.
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
 * @param devices all devices that the container sees
 */
export function allowedDevices(devices: readonly GpuDevice[], { nvidiaVisible, cudaVisible }: GpuVariables): GpuDevice[] {
  const assigned = namesIn(nvidiaVisible);
  const isAll = assigned === null || assigned.length === 0 || assigned[0] === 'all';
  // If the container sees only its own devices, the runtime has renumbered them, so use all of them.
  const ofContainer = isAll || assigned.length >= devices.length ? devices : selected(devices, assigned);
  const chosen = namesIn(cudaVisible);
  return chosen === null ? [...ofContainer] : selected(ofContainer, chosen);
}

/** Returns true if CUDA_VISIBLE_DEVICES hides all devices, so that a program runs on the CPU. */
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

/** Selects devices as CUDA does: by index, UUID or unique prefix of a UUID. */
function selected(devices: readonly GpuDevice[], names: readonly string[]): GpuDevice[] {
  return names.flatMap(
    (name) => devices.find((device) => device.name === name || (/^(GPU|MIG)-/.test(name) && device.uuid.startsWith(name))) ?? [],
  );
}
