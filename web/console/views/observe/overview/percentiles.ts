import { formatMs } from '../../../../ui/format.ts';

/** A duration, or a dash where nothing was measured. */
export const formatOptionalMs = (ms: number | null): string => (ms === null ? '-' : formatMs(ms));
