import type { Sequence } from './sequence.ts';

/** The client of a sequence; all that name none are one client. */
export const clientOf = ({ request }: Sequence): string => request.client ?? '';

export const isBatch = ({ request }: Sequence): boolean => request.priority === 'batch';
