/** The programs whose output `submit` shows. `chief`: only the chief's program. */
export const SHOWN_LOGS = ['chief', 'all', 'none'] as const;
export type ShownLogs = (typeof SHOWN_LOGS)[number];
