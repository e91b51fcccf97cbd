/** Amounts by the site file's resource names, to be written in the Capacity Scheduler's two notations. */
export type Resources = Readonly<Record<string, number>>;

const CAPACITY_NAMES: Readonly<Record<string, string>> = { gpus: 'yarn.io/gpu' };
const ALLOCATION_NAMES: Readonly<Record<string, string>> = { ...CAPACITY_NAMES, memory: 'memory-mb' };

/** The notation of capacities: `[memory=1024,vcores=1,yarn.io/gpu=0]`. An omitted type counts as 0. */
export function vector(amounts: Readonly<Record<string, number | string>>): string {
  return `[${pairs(amounts, CAPACITY_NAMES)}]`;
}

/** The notation of the largest container: `memory-mb=1024,vcores=1,yarn.io/gpu=0`. An omitted type counts as 0. */
export function allocation(amounts: Resources): string {
  return pairs(amounts, ALLOCATION_NAMES);
}

/** Always writes memory, and first: the scheduler treats a vector without it as missing. */
function pairs(amounts: Readonly<Record<string, number | string>>, names: Readonly<Record<string, string>>): string {
  const { memory = 0, vcores = 0, ...others } = amounts;
  return Object.entries({ memory, vcores, ...others })
    .map(([name, amount]) => `${names[name] ?? name}=${amount}`)
    .join(',');
}
