/** Amounts by resource name in the site file; memory is in MiB. */
export type Resources = Readonly<Record<string, number>>;

const CAPACITY_NAMES: Readonly<Record<string, string>> = { gpus: 'yarn.io/gpu' };
const ALLOCATION_NAMES: Readonly<Record<string, string>> = { ...CAPACITY_NAMES, memory: 'memory-mb' };

/** Formats a capacity, such as `[memory=1024,vcores=1,yarn.io/gpu=0]`. For YARN, a missing resource type means 0. */
export function vector(amounts: Readonly<Record<string, number | string>>): string {
  return `[${pairs(amounts, CAPACITY_NAMES)}]`;
}

/**
 * Formats the size of the largest container, such as `memory-mb=1024,vcores=1,yarn.io/gpu=0`. For YARN, a missing resource type means 0.
 */
export function allocation(amounts: Resources): string {
  return pairs(amounts, ALLOCATION_NAMES);
}

/** Formats the amounts, memory first. Memory is always included, because the scheduler ignores a vector without memory. */
function pairs(amounts: Readonly<Record<string, number | string>>, names: Readonly<Record<string, string>>): string {
  const { memory = 0, vcores = 0, ...others } = amounts;
  return Object.entries({ memory, vcores, ...others })
    .map(([name, amount]) => `${names[name] ?? name}=${amount}`)
    .join(',');
}
