/** Resource amounts, keyed by the resource names that the site file uses. Memory is in MiB. */
export type SiteResources = Readonly<Record<string, number>>;

const CAPACITY_NAMES: Readonly<Record<string, string>> = { gpus: 'yarn.io/gpu' };
const ALLOCATION_NAMES: Readonly<Record<string, string>> = { ...CAPACITY_NAMES, memory: 'memory-mb' };

/**
 * Formats a capacity, for example `[memory=1024,vcores=1,yarn.io/gpu=0]`. Includes resource types with an amount of 0, because YARN treats
 * missing types as 0.
 */
export function vector(amounts: Readonly<Record<string, number | string>>): string {
  return `[${pairs(amounts, CAPACITY_NAMES)}]`;
}

/** Formats the size of the largest container, for example `memory-mb=1024,vcores=1,yarn.io/gpu=0`. */
export function allocation(amounts: SiteResources): string {
  return pairs(amounts, ALLOCATION_NAMES);
}

/** Formats the amounts, starting with memory. The scheduler ignores a vector without memory. */
function pairs(amounts: Readonly<Record<string, number | string>>, names: Readonly<Record<string, string>>): string {
  const { memory = 0, vcores = 0, ...others } = amounts;
  return Object.entries({ memory, vcores, ...others })
    .map(([name, amount]) => `${names[name] ?? name}=${amount}`)
    .join(',');
}
