/** Amounts by the names of site files, in the two ways in which the Capacity Scheduler reads resources. */
export type Resources = Readonly<Record<string, number>>;

const CAPACITY_NAMES: Readonly<Record<string, string>> = { gpus: 'yarn.io/gpu' };
const ALLOCATION_NAMES: Readonly<Record<string, string>> = { ...CAPACITY_NAMES, memory: 'memory-mb' };

/** Of capacities: `[memory=1024,vcores=1,yarn.io/gpu=0]`. A type that is left out is none of it. */
export function vector(amounts: Readonly<Record<string, number | string>>): string {
  return `[${pairs(amounts, CAPACITY_NAMES)}]`;
}

/** Of the largest container: `memory-mb=1024,vcores=1,yarn.io/gpu=0`. A type that is left out is none of it. */
export function allocation(amounts: Resources): string {
  return pairs(amounts, ALLOCATION_NAMES);
}

/** Memory first: the scheduler takes a vector without it for none at all. */
function pairs(amounts: Readonly<Record<string, number | string>>, names: Readonly<Record<string, string>>): string {
  const { memory = 0, vcores = 0, ...others } = amounts;
  return Object.entries({ memory, vcores, ...others })
    .map(([name, amount]) => `${names[name] ?? name}=${amount}`)
    .join(',');
}
