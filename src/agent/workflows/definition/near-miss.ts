import { nearest } from '../../../words/nearest.ts';

/** The name that somebody may have meant, as a hint to put behind a message; empty where none is near. */
export function nearMiss(given: string, known: readonly string[]): string {
  const near = nearest(given, known);
  return near === undefined ? '' : `; did you mean '${near}'?`;
}
