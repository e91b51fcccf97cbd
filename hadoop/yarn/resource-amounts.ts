/** Short names for YARN's resource types. Other resource types keep YARN's name. */
const NAMES: Readonly<Record<string, string>> = { 'memory-mb': 'memory', vcores: 'vcores', 'yarn.io/gpu': 'gpus' };

/** Replaces YARN's resource names with the short names, which job.yaml and site files use too. */
export function amountsOf(resources: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(Object.entries(resources).map(([name, amount]) => [NAMES[name] ?? name, amount]));
}
