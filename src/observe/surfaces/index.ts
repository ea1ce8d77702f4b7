import { didYouMean } from '../../words/nearest.ts';
import { ObserveError } from '../errors.ts';
import type { Surface } from '../types.ts';
import { completions, gatewayRequests, spans } from './requests.ts';
import { acts, pending, receipts } from './control.ts';
import { bench, parity } from './lab.ts';
import { sessions } from './sessions.ts';
import { transcript } from './transcript.ts';
import { runs, steps, tasks } from './tasks-and-runs.ts';

/** All surfaces, in the order in which they are listed. */
export const surfaces: readonly Surface[] = [
  sessions,
  tasks,
  runs,
  steps,
  receipts,
  completions,
  spans,
  pending,
  acts,
  parity,
  bench,
  gatewayRequests,
  transcript,
];

const names = surfaces.map((surface) => surface.name);

export const findSurface = (name: string): Surface | undefined =>
  surfaces.find((surface) => surface.name === name);

export function unknownSurfaceMessage(name: string): string {
  const near = didYouMean(name, names, (one) => `'${one}'`);
  return `there is no surface '${name.slice(0, 80)}'${near}; the surfaces are: ${names.join(', ')}`;
}

/** @throws ObserveError not_found */
export function getSurface(name: string): Surface {
  const found = findSurface(name);
  if (found) return found;
  const message = unknownSurfaceMessage(name);
  throw new ObserveError('not_found', 'unknown_surface', `${message[0]?.toUpperCase()}${message.slice(1)}.`);
}
