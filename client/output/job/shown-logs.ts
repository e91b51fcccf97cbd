/** Values of `--logs`, which selects the programs whose output `submit` shows. */
export const SHOWN_LOGS = ['chief', 'all', 'none'] as const;
export type ShownLogs = (typeof SHOWN_LOGS)[number];
